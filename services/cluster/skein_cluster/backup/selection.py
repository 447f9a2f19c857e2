"""Default choice of a restore's backup and timeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from skein_cluster.backup import wal_archive
from skein_cluster.backup.repository import Backup
from skein_cluster.backup.wal_archive import WalArchive
from skein_cluster.cli.exit_codes import CommandError, ExitCode


async def choose_timeline(log: WalArchive, backups: Sequence[Backup], requested: int | None) -> int:
    """Return the requested timeline, else the one with the latest transaction. Raises CommandError.

    Each restore starts a timeline, also a trial beside a running cluster, so the newest number may be wrong.
    """
    timelines = sorted({number for backup in backups for number in log.timelines_of(backup)})
    if requested is not None and requested not in timelines:
        raise CommandError(
            f"No backup leads to timeline {requested}; known timelines: {', '.join(map(str, timelines))}.",
            ExitCode.REFUSED,
        )
    if requested is not None or len(timelines) == 1:
        return requested or timelines[0]
    last_times = {number: await _last(log, backups, number) for number in timelines}
    return max(timelines, key=lambda number: (last_times[number], number))


def newest_backup(log: WalArchive, backups: Sequence[Backup], timeline: int, before: datetime | None) -> Backup:
    """Return the newest backup that leads to a timeline, finished by `before` if set.

    Without one, the error names the earliest possible time, from the oldest backup.
    """
    candidates = [backup for backup in backups if log.leads_to(backup, timeline)]
    earlier = [backup for backup in candidates if before is None or backup.finish_time <= before]
    return (earlier or candidates[:1])[-1]


async def _last(log: WalArchive, backups: Sequence[Backup], timeline: int) -> datetime:
    backup = newest_backup(log, backups, timeline, None)
    last = await wal_archive.last_moment(log.wal_range(backup, timeline), backup)
    return max(filter(None, (last, backup.finish_time)))
