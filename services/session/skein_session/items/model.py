"""Items and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from skein_kit.errors import FieldInvalid
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, read_time
from skein_session.ttl import read_ttl

if TYPE_CHECKING:
    from datetime import datetime

    from skein.session.v1 import states_pb2 as pb

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
    times: ImportTimes

    @classmethod
    def of(cls, request: pb.PutItemRequest, *, at: datetime, times: ImportTimes | None = None) -> Self:
        """Read a request at the time `at`; `times` are those that an import keeps. Raises FieldInvalid."""
        if not request.HasField("value") or request.value.WhichOneof("kind") is None:
            raise FieldInvalid(violations=[("value", "is any JSON value, null included")])
        ttl = read_ttl(request, "ttl", MAX_ITEM_TTL) or DEFAULT_ITEM_TTL
        expire_time = read_time(request, "expire_time") if request.keep_times else None
        if expire_time is not None and expire_time > at + MAX_ITEM_TTL:
            raise FieldInvalid(violations=[("expire_time", f"lies more than {MAX_ITEM_TTL.days} days ahead")])
        return cls(
            session_id=request.session_id,
            key=request.key,
            value=json_text(request, "value") or "null",
            expire_time=expire_time or at + ttl,
            times=times or ImportTimes(create_time=at, update_time=at),
        )
