"""What is measured, by the flags of the command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """Where the data are, how much of it is used, and which interpreter has the peers."""

    data: Path
    is_quick: bool = False
    is_slow: bool = False
    match: str = ""
    peers: str | None = None

    def wanted(self, names: tuple[str, ...]) -> list[str]:
        """The names that have the text of `--match`."""
        return [name for name in names if self.match in name]
