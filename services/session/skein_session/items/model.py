"""Items and their limits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

DEFAULT_ITEM_TTL = timedelta(days=1)
MAX_ITEM_TTL = timedelta(days=30)
# Items of one session, including expired ones that no job has removed yet.
MAX_ITEMS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemPut:
    """A value to store under a key of a session. `value` is JSON text."""

    session_id: str
    key: str
    value: str
    expire_time: datetime
    create_time: datetime
    update_time: datetime
