"""Lines of a file that a process can hold, whatever the file is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A record goes into one message of 4 MiB, and JSON may write a byte of it with six characters.
LINE_BYTES = 32 * 1024 * 1024


def bounded_lines(path: Path) -> Iterator[bytes | None]:
    """Yield each line with its end; None for a line of more than LINE_BYTES, which is read in pieces and dropped."""
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES):
            if len(line) < LINE_BYTES or line.endswith(b"\n"):
                yield line
                continue
            while len(line) == LINE_BYTES and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES)
            yield None
