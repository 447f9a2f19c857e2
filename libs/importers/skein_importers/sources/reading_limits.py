"""What reading a source may take of memory, disk and time: for its size enough, for a hostile file not more.

Limits are counted in bytes, rows and steps of a database, not in seconds, so that a busy machine refuses no good file.
Only the statements in another system's Postgres have a time, because nothing else is known of them.
"""

from __future__ import annotations

from pathlib import Path

from skein_importers.errors import SourceInvalid, SourceTooLarge

MEBIBYTE = 1024 * 1024
# A document that is read as a whole, or one entry of a document that is read entry by entry.
MAX_DOCUMENT_BYTES = 256 * MEBIBYTE
# A statement of SQL, and a value in SQLite.
MAX_STATEMENT_CHARACTERS = 64 * MEBIBYTE
# An archive may unpack to the first, or to so many times its size. JSON rarely packs to a fiftieth.
MIN_UNPACKED_BYTES = 64 * MEBIBYTE
MAX_INFLATION = 100
# Steps of SQLite's virtual machine: a file may take the first, and so many for each of its bytes. A row takes some
# dozens.
MIN_STEPS = 10_000_000
STEPS_PER_BYTE = 100
# The rows of a table in SQLite may hold the first, or so many times the size of the file. Rows that share pages hold
# more; a sound file has none.
MIN_ROWS_BYTES = 64 * MEBIBYTE
MAX_ROWS_INFLATION = 4
# One statement in another system's Postgres; "statement_timeout" in the URL sets another time.
STATEMENT_SECONDS = 600


def read_file(source: str | Path) -> bytes:
    """Read a whole file. Raises SourceInvalid, and SourceTooLarge beyond MAX_DOCUMENT_BYTES."""
    try:
        with Path(source).open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise SourceInvalid(
            f"{source} cannot be read ({error.strerror}): check its name and who may read it."
        ) from None
    if len(content) > MAX_DOCUMENT_BYTES:
        raise SourceTooLarge(
            f"{source} has more than {MAX_DOCUMENT_BYTES // MEBIBYTE} MiB, and is read as a whole: split the export."
        )
    return content


def check_unpacked(source: str, packed_bytes: int, unpacked_bytes: int) -> None:
    """Check what an archive says that it unpacks to. Raises SourceTooLarge."""
    if unpacked_bytes > max(MIN_UNPACKED_BYTES, MAX_INFLATION * packed_bytes):
        raise SourceTooLarge(
            f"{source} unpacks to {unpacked_bytes // MEBIBYTE} MiB, more than {MAX_INFLATION} times its size, which no "
            "export does: make it again."
        )
