"""Figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def scaling(folder: Path, details: list[dict[str, Any]]) -> list[Path]:
    """Write PNG files; their paths."""
    return []
