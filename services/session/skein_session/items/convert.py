"""Items between rows, values and protobuf."""

from __future__ import annotations

from datetime import datetime

from asyncpg import Record

from skein.session.v1 import states_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, read_time, to_message
from skein_session.items.store import DEFAULT_ITEM_TTL, MAX_ITEM_TTL, ItemPut
from skein_session.ttl import read_ttl


def session_item(record: Record) -> pb.SessionItem:
    """Convert a row of session.items."""
    return to_message(pb.SessionItem, record)


def item_put(request: pb.PutSessionItemRequest, *, at: datetime, times: ImportTimes) -> ItemPut:
    """Read a request at the time `at`. Raises FieldInvalid."""
    if not request.HasField("value") or request.value.WhichOneof("kind") is None:
        raise FieldInvalid(violations=[("value", "must be a JSON value, which may be null")])
    ttl = read_ttl(request, "ttl", MAX_ITEM_TTL) or DEFAULT_ITEM_TTL
    expire_time = read_time(request, "expire_time") if request.keep_times else None
    if expire_time is not None and expire_time > at + MAX_ITEM_TTL:
        raise FieldInvalid(violations=[("expire_time", f"must be at most {MAX_ITEM_TTL.days} days ahead")])
    return ItemPut(
        session_id=request.session_id,
        key=request.key,
        value=json_text(request, "value") or "null",
        expire_time=expire_time or at + ttl,
        create_time=times.create_time,
        update_time=times.update_time,
    )
