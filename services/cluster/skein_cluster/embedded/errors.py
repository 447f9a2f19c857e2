"""Errors of an embedded Postgres; each message names a remedy."""

from __future__ import annotations

import re
from pathlib import Path

# Postgres' log repeats rejected settings, including connection strings with passwords.
_SECRET = re.compile(r"(?i)(password\s*[=:]?\s*)\S+")


class EmbeddedPostgresError(Exception):
    """The embedded Postgres could not run. Its data is unchanged."""


class PostgresDidNotStart(EmbeddedPostgresError):
    """The server or initdb ended or did not answer; the message has the last lines of its log."""

    def __init__(self, problem: str, *, log_lines: str = "") -> None:
        """Join the problem with the log lines, passwords masked."""
        redacted = _SECRET.sub(r"\1***", log_lines.strip())
        super().__init__(f"Postgres did not start: {problem}" + (f"\n{redacted}" if redacted else ""))


class DataDirInUse(EmbeddedPostgresError):
    """A live process runs a server on the same data folder."""

    def __init__(self, data_dir: Path, holder: str) -> None:
        """Name the holder when its lock file does."""
        owner = f"process {holder}" if holder else "another process"
        super().__init__(f"{data_dir} is in use by {owner}: stop it first, or use another data folder")


class DataDirUnusable(EmbeddedPostgresError):
    """The folder has other content or another owner."""

    def __init__(self, data_dir: Path, problem: str) -> None:
        """Name the folder and its problem."""
        super().__init__(f"{data_dir} cannot contain the database: {problem}")
