"""UUIDv7 ids and the months that they fall in. The clock is passed in.

The layout is RFC 9562, section 5.7: 48 bits of Unix milliseconds, then random bits. Partitions by month are ranges of
these ids, so an id alone determines the partition of its row.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID

from skein_kit.clock import CLOCK

_RANDOM_BITS = 74
_RANDOM_BYTES = 10
_LAST_RANDOM_BIT = 61
_RANDOM_MASK = (1 << _RANDOM_BITS) - 1
_MAX_MILLISECONDS = (1 << 48) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Returns the time in UTC, which never goes back.
now = CLOCK.now


def new_id(time: datetime) -> UUID:
    """Return a new UUIDv7 with this time, which must not be before 1970."""
    return _id(_milliseconds(time), secrets.randbits(_RANDOM_BITS))


def new_ids(time: datetime, count: int) -> list[UUID]:
    """Return `count` new ids with one time, in ascending order."""
    milliseconds = _milliseconds(time)
    # One call for all random bytes: a call for each id would take most of the time.
    random_bytes = secrets.token_bytes(_RANDOM_BYTES * count)
    starts = range(0, len(random_bytes), _RANDOM_BYTES)
    random_numbers = sorted(
        {int.from_bytes(random_bytes[start : start + _RANDOM_BYTES]) & _RANDOM_MASK for start in starts}
    )
    while len(random_numbers) < count:  # Two equal numbers of 74 random bits: improbable, and cheap to rule out.
        random_numbers = sorted({*random_numbers, secrets.randbits(_RANDOM_BITS)})
    return [_id(milliseconds, random) for random in random_numbers]


def sequential_id_texts(time: datetime, count: int) -> list[str]:
    """Return `count` new ids with one time as texts, each one greater than the previous by one.

    They are predictable: use them for rows that are created in batches, never for credentials.
    """
    # One bit stays free, so that no sum overflows into the version bits of a UUIDv7.
    start = new_id(time).int & ~(1 << _LAST_RANDOM_BIT)
    return [f"{id_:032x}" for id_ in range(start, start + count)]


def min_id_at(time: datetime) -> UUID:
    """Return the lowest id with this time: the inclusive lower bound of all rows created since."""
    return UUID(int=_milliseconds(time) << 80)


def id_time(id_: UUID) -> datetime:
    """Return the time of a UUIDv7, to the millisecond."""
    return EPOCH + timedelta(milliseconds=id_.int >> 80)


def parse_id(text: str) -> UUID | None:
    """Return a UUID in canonical form; None for any other text, which may be an external id."""
    if len(text) != len("00000000-0000-0000-0000-000000000000"):
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


def month_start(time: datetime) -> datetime:
    """Return the start of the month."""
    return time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def add_months(month: datetime, count: int) -> datetime:
    """Return the start of the month `count` months after `month`."""
    index = month.year * 12 + month.month - 1 + count
    return month.replace(year=index // 12, month=index % 12 + 1)


def _milliseconds(time: datetime) -> int:
    milliseconds = (time - EPOCH) // timedelta(milliseconds=1)
    if not 0 <= milliseconds <= _MAX_MILLISECONDS:
        message = "a UUIDv7 begins in 1970"
        raise ValueError(message)
    return milliseconds


def _id(milliseconds: int, random: int) -> UUID:
    high, low = random >> 62, random & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)
