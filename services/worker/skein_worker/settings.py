"""Settings of the worker."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from skein_kit.settings import ProcessSettings, SettingInvalid, Settings

_MIN_KEY_LENGTH = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerSettings(Settings):
    """Settings of the worker: the field `x` is the variable SKEIN_WORKER_X."""

    prefix: ClassVar[str] = "SKEIN_WORKER_"

    # Seconds between two sweeps over all tenants for items without vectors. A long sweep is followed by a pause four
    # times as long as itself, so that sweeping never takes more than a fifth of one worker.
    backlog_seconds: float = 2.0
    # Longest rest, in seconds, of a tenant where sweeps and the looks for webhooks and snapshots found nothing to do:
    # each look that finds nothing doubles its rest. Below the seconds of a round no tenant rests in it.
    rest_seconds: float = 20.0
    # Tenants that one sweep asks at the same time.
    tenants_at_once: int = 4
    # Items without vectors that one call to recall takes.
    backlog_batch: int = 64
    # Seconds after which the backlog job of one tenant makes room for another tenant's.
    turn_seconds: float = 20.0
    # Seconds between two runs of the partitions' upkeep.
    upkeep_seconds: float = 3600.0
    # Seconds between two removals of what has expired.
    expiry_seconds: float = 300.0
    # Seconds between two rounds that collect what tenants use, for their organizations' quotas.
    usage_seconds: float = 300.0
    # Seconds between two rounds of what happens to memories as they grow old: cold storage, retention.
    lifecycle_seconds: float = 3600.0
    # Seconds between two rounds that lower the scores of memories that nobody uses.
    decay_seconds: float = 86400.0
    # Seconds between two looks for what webhooks are to be told.
    webhook_seconds: float = 1.0
    # Seconds between two looks for snapshots that are still to be finished or removed.
    snapshot_seconds: float = 10.0
    # Seconds between two looks for tenants in which a reindex is not done.
    reindex_seconds: float = 5.0
    # Seconds between two looks for deleted tenants whose rows are to be removed.
    deletion_seconds: float = 60.0
    # Seconds between two looks at the server and the queue for the metrics.
    measure_seconds: float = 15.0
    # Seconds that the queue's log of finished jobs is kept.
    log_seconds: float = 86400.0
    # Seconds after which a job whose worker went silent is given to another.
    silence_seconds: float = 10.0
    # Seconds that jobs get to finish when the process stops.
    stop_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raise SettingInvalid for a value that would make a job spin or stall."""
        for field in dataclasses.fields(self):
            if getattr(self, field.name) <= 0:
                message = f"{self.prefix}{field.name.upper()} should be more than 0."
                raise SettingInvalid(message)


def check(process: ProcessSettings) -> None:
    """Raise SettingInvalid when the system key is too short for the worker to act with it."""
    if len(process.system_key) < _MIN_KEY_LENGTH:
        message = f"SKEIN_SYSTEM_KEY should hold at least {_MIN_KEY_LENGTH} characters: the worker acts with it."
        raise SettingInvalid(message)
