"""The newest backup in the folder of SKEIN_BACKUP_DIR, looked at now and then; nothing is shown where there is none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_kit.backup_folder import find_newest_backup
from skein_kit.telemetry.expiring_gauge import ExpiringGauge, declare_measurements, record_measurement

if TYPE_CHECKING:
    from pathlib import Path

    from skein_kit.backup_folder import NewestBackup

# Rounds that may fail before the last values are shown no more.
_ROUNDS = 3
_MARGIN_SECONDS = 30.0

LAST_SUCCESS = ExpiringGauge(
    "skein_backup_last_success_timestamp_seconds",
    "When the newest backup in SKEIN_BACKUP_DIR was finished. Absent where there is none.",
)
BYTES = ExpiringGauge("skein_backup_bytes", "Size of the newest backup in SKEIN_BACKUP_DIR.")


async def keep(folder: Path, seconds: float) -> None:
    """Look every so many seconds, until cancelled."""
    declare_measurements("backups")
    while True:
        put(await asyncio.to_thread(find_newest_backup, folder), lasting=_ROUNDS * seconds + _MARGIN_SECONDS)
        record_measurement("backups")
        await asyncio.sleep(seconds)


def put(found: NewestBackup | None, *, lasting: float) -> None:
    """Show what was found, for so many seconds."""
    LAST_SUCCESS.put({(): found.finish_time.timestamp()} if found else {}, lasting=lasting)
    BYTES.put({(): float(found.byte_count)} if found else {}, lasting=lasting)
