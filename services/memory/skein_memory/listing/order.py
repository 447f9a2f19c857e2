"""Orders of lists of memories, and the page cursor of each. No I/O, no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import EPOCH, parse_id
from skein_memory.errors import OrderUnknown

_MICROSECOND = timedelta(microseconds=1)
# The largest bigint of Postgres.
MAX_COUNT = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The column that orders memories; equal values are ordered by ids in the same direction."""

    name: str
    column: str
    is_descending: bool = True

    @classmethod
    def of(cls, order_by: str, *, is_past: bool) -> Order:
        """Read a caller's order_by; lists of an earlier time are ordered by ids alone. Raises OrderUnknown."""
        name = " ".join(order_by.split())
        valid_orders = {name: order for name, order in ORDERS.items() if not is_past or order.column == "memory_id"}
        if name not in valid_orders:
            valid = ", ".join(filter(None, valid_orders))
            raise OrderUnknown(
                violations=[("order_by", f"must be one of {valid}{' with as_of_time' if is_past else ''}")]
            )
        return valid_orders[name]

    @property
    def is_of_ids(self) -> bool:
        """Return whether ids alone give the order: they carry the time of creation."""
        return self.column == "memory_id"


NEWEST = Order(name="create_time desc", column="memory_id")
ORDERS: Mapping[str, Order] = {
    "": NEWEST,
    **{
        order.name: order
        for order in (
            NEWEST,
            Order(name="create_time", column="memory_id", is_descending=False),
            *(
                Order(name=f"{column} desc" if is_descending else column, column=column, is_descending=is_descending)
                for column in ("update_time", "importance", "confidence", "access_count")
                for is_descending in (True, False)
            ),
        )
    },
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PageCursor:
    """The last memory of a page, and the value that orders it unless that is its id."""

    memory_id: UUID
    value: datetime | float | int | None = None

    @classmethod
    def of(cls, token: Sequence[str] | None, order: Order) -> Self | None:
        """Read a page token; None for the first page. Raises PageTokenInvalid."""
        if token is None:
            return None
        memory_id = parse_id(token[0]) if token else None
        if memory_id is None or len(token) != (1 if order.is_of_ids else 2):
            raise PageTokenInvalid
        return cls(memory_id=memory_id, value=None if order.is_of_ids else _read(token[1], order))

    @property
    def token(self) -> list[str]:
        """Return it as the parts of a page token."""
        match self.value:
            case None:
                return [str(self.memory_id)]
            case datetime():
                return [str(self.memory_id), str((self.value - EPOCH) // _MICROSECOND)]
        return [str(self.memory_id), repr(self.value)]


def _read(text: str, order: Order) -> datetime | float | int:
    try:
        if order.column == "update_time":
            return EPOCH + int(text) * _MICROSECOND
        if order.column == "access_count":
            return _count(int(text))
        value = float(text)
    except (ValueError, OverflowError):
        raise PageTokenInvalid from None
    if not math.isfinite(value):
        raise PageTokenInvalid
    return value


def _count(value: int) -> int:
    if not 0 <= value <= MAX_COUNT:
        raise PageTokenInvalid
    return value
