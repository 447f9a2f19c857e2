"""Postgres' backup manifest: the files of a copy with sizes and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skein_cluster.backup.repository import BackupDamaged

_CHECKSUM_LINE = b'"Manifest-Checksum": '


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresManifest:
    """The list."""

    system_identifier: str
    timeline: int
    start_lsn: str
    stop_lsn: str
    # Size and SHA-256 of each file, by its path.
    files: Mapping[str, tuple[int, str]]

    @classmethod
    def read(cls, path: Path) -> PostgresManifest:
        """Read the manifest and verify its own checksum. Raises BackupDamaged."""
        try:
            text = path.read_bytes()
            body, mark, _ = text.rpartition(_CHECKSUM_LINE)
            manifest = json.loads(text)
            if not mark or hashlib.sha256(body).hexdigest() != manifest["Manifest-Checksum"]:
                raise BackupDamaged(f"{path} was changed after it was written.")
            (wal,) = manifest["WAL-Ranges"]
            return cls(
                system_identifier=str(manifest.get("System-Identifier", "")),
                timeline=wal["Timeline"],
                start_lsn=wal["Start-LSN"],
                stop_lsn=wal["End-LSN"],
                files={_path(file): (file["Size"], file["Checksum"]) for file in manifest["Files"]},
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackupDamaged(f"{path} cannot be read ({type(error).__name__}).") from None


def _path(file: Mapping[str, str]) -> str:
    if "Path" in file:
        return file["Path"]
    return bytes.fromhex(file["Encoded-Path"]).decode(errors="surrogateescape")
