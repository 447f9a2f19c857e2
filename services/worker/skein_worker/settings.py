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

    # Seconds between two scans for tenants with documents without vectors. The pause after a long scan is four times
    # as long as the scan, so that scans take at most a fifth of one worker.
    backlog_seconds: float = 2.0
    # Longest idle backoff of a tenant, in seconds, for rounds of the backlog, webhooks and snapshots. Each visit
    # without progress doubles the backoff. If it is shorter than the pause between rounds, there is none.
    rest_seconds: float = 20.0
    # Tenants that one round visits at the same time.
    tenants_at_once: int = 4
    # Documents without vectors in one call of recall.
    backlog_batch: int = 64
    # Seconds after which the job of one tenant ends, so that other tenants get their turn.
    turn_seconds: float = 20.0
    # Seconds between two runs of the maintenance job, which creates partitions.
    upkeep_seconds: float = 3600.0
    # Seconds between two purges of expired rows.
    expiry_seconds: float = 300.0
    # Seconds between two rounds that sign checkpoints of audit events.
    audit_chain_seconds: float = 900.0
    # Seconds between two rounds that collect the usage of tenants, for the quotas of their organizations.
    usage_seconds: float = 300.0
    # Seconds between two rounds that archive and delete memories by the tenants' policies.
    lifecycle_seconds: float = 3600.0
    # Seconds between two rounds that lower the scores of unused memories.
    decay_seconds: float = 86400.0
    # Seconds between two rounds of webhook deliveries.
    webhook_seconds: float = 1.0
    # Seconds between two rounds that compute the trust of memories whose sources changed.
    trust_seconds: float = 1.0
    # Seconds between two rounds that find facts in messages.
    extraction_seconds: float = 1.0
    # Base URL of an OpenAI-compatible API that finds facts, e.g. http://127.0.0.1:11434/v1. It receives messages of
    # tenants whose policy has the extraction "model". Empty: rules read them.
    extraction_url: str = ""
    # Model that SKEIN_WORKER_EXTRACTION_URL uses.
    extraction_model: str = ""
    # API key of SKEIN_WORKER_EXTRACTION_URL, if it needs one.
    extraction_key: str = dataclasses.field(default="", repr=False)
    # Timeout of one message at SKEIN_WORKER_EXTRACTION_URL, in seconds.
    extraction_timeout_seconds: float = 60.0
    # Whether a tenant may name an endpoint of its own (extraction_url of its policy). It must be https and public, or
    # in SKEIN_OUTBOUND_ALLOW.
    extraction_allow_tenants: bool = False
    # Tokens of SKEIN_WORKER_EXTRACTION_URL for one tenant and day (UTC). Messages beyond them wait for the next day. A
    # tenant may set a lower limit for its job model_extraction.
    extraction_tokens_per_day: int = 1_000_000
    # Seconds between two rounds that finish or purge snapshots.
    snapshot_seconds: float = 10.0
    # Seconds between two rounds of tenants with an unfinished reindex.
    reindex_seconds: float = 5.0
    # Seconds between two rounds that purge deleted tenants.
    deletion_seconds: float = 60.0
    # Seconds between two measurements of the server and the queue.
    measure_seconds: float = 15.0
    # Seconds that the log of finished jobs is kept.
    log_seconds: float = 86400.0
    # Seconds without a heartbeat after which another worker takes a job.
    silence_seconds: float = 10.0
    # Seconds that running jobs get to finish at the end of a process.
    stop_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Raise SettingInvalid for a value that would make a job spin or stall."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, (str, bool)) and value <= 0:
                message = f"{self.prefix}{field.name.upper()} should be more than 0."
                raise SettingInvalid(message)


def check_system_key(process: ProcessSettings) -> None:
    """Raise SettingInvalid when the system key is too short for the worker to act with it."""
    if len(process.system_key) < _MIN_KEY_LENGTH:
        message = f"SKEIN_SYSTEM_KEY should hold at least {_MIN_KEY_LENGTH} characters: the worker acts with it."
        raise SettingInvalid(message)
