"""Periodic measurement of the newest backup in the folder of SKEIN_BACKUP_DIR."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skein_kit.backup_folder import NewestBackup, find_newest_backup
from skein_worker.measure.expiring_gauge import ExpiringGauge, declare_measurements, record_measurement

# Rounds that may fail before a gauge disappears.
_MAX_FAILED_ROUNDS = 3
_MARGIN_SECONDS = 30.0

LAST_SUCCESS = ExpiringGauge(
    "skein_backup_last_success_timestamp_seconds",
    "Unix time at which the newest backup in SKEIN_BACKUP_DIR was finished. Absent if there is none.",
)
BYTES = ExpiringGauge("skein_backup_bytes", "Size of the newest backup in SKEIN_BACKUP_DIR.")


async def run(folder: Path, seconds: float) -> None:
    """Measure every `seconds`, until cancelled."""
    declare_measurements("backups")
    while True:
        newest = await asyncio.to_thread(find_newest_backup, folder)
        set_backup_metrics(newest, ttl_seconds=_MAX_FAILED_ROUNDS * seconds + _MARGIN_SECONDS)
        record_measurement("backups")
        await asyncio.sleep(seconds)


def set_backup_metrics(newest: NewestBackup | None, *, ttl_seconds: float) -> None:
    """Set the metrics of the newest backup for `ttl_seconds`; without a backup they disappear."""
    LAST_SUCCESS.put({(): newest.finish_time.timestamp()} if newest else {}, ttl_seconds=ttl_seconds)
    BYTES.put({(): float(newest.byte_count)} if newest else {}, ttl_seconds=ttl_seconds)
