"""Options of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TxOptions:
    """How a transaction reads and commits."""

    # Wait at the commit until the disk has it. Without it a crash of the server loses the last commits: use that only
    # for rows that are computed from durable ones.
    durable: bool = True
    # Plan a statement, and the check of a foreign key, once per connection instead of once per call. Use it where one
    # plan fits all values.
    plan_once: bool = False
    # Use the primary, and keep the revision that the call reports: for writes and decisions within a read.
    skip_replica: bool = False
    # Nothing is written, so the commit may come after the block.
    read_only: bool = False
    # All statements see the same state, that of the first one. It reads the primary.
    repeatable_read: bool = False
    # The views of the schema as_of show the rows that were valid at this time; None: they are empty.
    as_of_time: datetime | None = None
    # The rows of all agents, also in a call whose credential is bound to one: for caches and queues, which serve others
    # too.
    has_all_agents: bool = False
    # Up to as_of_time: those views do not show what was recorded at these times.
    unseen_times: tuple[datetime, ...] = ()


DEFAULT = TxOptions()
READ_ONLY = TxOptions(read_only=True)
