"""From a byte offset in a chunk to a message that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass

from lineal.data.source import Chunk, count_lines
from lineal.errors import ParseError

SHOWN_BYTES = 40


@dataclass(frozen=True)
class Place:
    """A byte of a chunk."""

    chunk: Chunk
    offset: int

    def line_and_column(self) -> tuple[int, int]:
        """Line number and byte column, both from 1."""
        before = self.chunk.data[: self.offset]
        line_start = before.tobytes().rfind(b"\n") + 1
        return self.chunk.first_line + count_lines(before), self.offset - line_start + 1

    def token(self) -> str:
        """The token that begins here, quoted and cut to a readable length."""
        rest = self.chunk.data[self.offset : self.offset + SHOWN_BYTES + 1].tobytes()
        if rest[:1] in (b"\n", b"\r"):
            return "the end of the line"
        token = (rest.split() or [b""])[0] if not rest[:1].isspace() else rest[:1]
        text = token.decode("utf-8", "backslashreplace")
        return repr(text) if len(token) <= SHOWN_BYTES else repr(text[:SHOWN_BYTES]) + "…"


def parse_error(place: Place, expected: str, skipped: int = 0, found: str | None = None) -> ParseError:
    """The error for the token at `place`; `skipped` malformed lines went before it."""
    line, column = place.line_and_column()
    if skipped:
        expected += f" (malformed line number {skipped + 1}; max_bad_lines={skipped} were skipped)"
    return ParseError(place.chunk.path, line, column, found or place.token(), expected)
