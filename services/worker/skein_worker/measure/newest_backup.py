"""The newest backup in the folder of SKEIN_BACKUP_DIR, looked at now and then; nothing is shown where there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_kit.backup_folder import newest
from skein_kit.telemetry.expiring_gauge import Measured, expected, measured

if TYPE_CHECKING:
    from pathlib import Path

    from skein_kit.backup_folder import Newest

# Rounds that may fail before the last values are shown no more.
_ROUNDS = 3
_MARGIN_SECONDS = 30.0

LAST_SUCCESS = Measured(
    "skein_backup_last_success_timestamp_seconds",
    "When the newest backup in SKEIN_BACKUP_DIR was finished. Absent where there is none.",
)
BYTES = Measured("skein_backup_bytes", "Size of the newest backup in SKEIN_BACKUP_DIR.")


async def keep(folder: Path, seconds: float) -> None:
    """Look every so many seconds, until cancelled."""
    expected("backups")
    while True:
        put(await asyncio.to_thread(newest, folder), lasting=_ROUNDS * seconds + _MARGIN_SECONDS)
        measured("backups")
        await asyncio.sleep(seconds)


def put(found: Newest | None, *, lasting: float) -> None:
    """Show what was found, for so many seconds."""
    LAST_SUCCESS.put({(): found.finish_time.timestamp()} if found else {}, lasting=lasting)
    BYTES.put({(): float(found.byte_count)} if found else {}, lasting=lasting)
