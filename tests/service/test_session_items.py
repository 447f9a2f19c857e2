"""Short-term items: values by key in a session, for a limited time."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_states import expire, session, sweep
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import NULL_VALUE, Value

from skein.session.v1 import session_pb2
from skein.session.v1 import states_pb2 as pb

MISSING = (grpc.StatusCode.NOT_FOUND, "SESSION_ITEM_NOT_FOUND")
NO_SESSION = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


def value(of: Any) -> Value:
    return json_format.ParseDict(of, Value())


async def put(tenant: Tenant, session_id: str, key: str, of: object, **fields: Any) -> pb.SessionItem:
    request = pb.PutSessionItemRequest(session_id=session_id, key=key, value=value(of), **fields)
    return (await tenant.sessions.PutSessionItem(request)).item


async def get(tenant: Tenant, session_id: str, key: str) -> object:
    item = (await tenant.sessions.GetSessionItem(pb.GetSessionItemRequest(session_id=session_id, key=key))).item
    return json_format.MessageToDict(item.value)


async def drop(tenant: Tenant, session_id: str, key: str, request_id: str = "") -> None:
    await tenant.sessions.DeleteSessionItem(
        pb.DeleteSessionItemRequest(session_id=session_id, key=key, request_id=request_id)
    )


async def keys(tenant: Tenant, session_id: str, **filters: Any) -> list[str]:
    """Page through the items of a session, two at a time."""
    results: list[str] = []
    token = ""
    while True:
        request = pb.ListSessionItemsRequest(session_id=session_id, page_size=2, page_token=token, **filters)
        page = await tenant.sessions.ListSessionItems(request)
        results += [item.key for item in page.items]
        token = page.next_page_token
        if not token:
            return results


@pytest.mark.parametrize("of", ["text", "", 1.5, True, None, [1, "two", None], {"deep": {"er": [{}]}}])
async def test_any_json_comes_back_as_it_was_put(tenant: Tenant, of: object) -> None:
    name = await session(tenant)

    item = await put(tenant, name, "key", of)

    assert await get(tenant, name, "key") == of
    assert (item.session_id, item.key, item.value) == (name, "key", value(of))
    assert item.created_by.startswith("api_key:")


async def test_an_item_is_kept_for_a_day_unless_said_otherwise(tenant: Tenant) -> None:
    name = await session(tenant)

    usual = await put(tenant, name, "usual", 1)
    short = await put(tenant, name, "short", 1, ttl=Duration(seconds=1))
    long = await put(tenant, name, "long", 1, ttl=Duration(seconds=30 * 86_400))

    lifetimes = [item.expire_time.ToMicroseconds() - item.update_time.ToMicroseconds() for item in (usual, short, long)]
    assert lifetimes == [86_400_000_000, 1_000_000, 30 * 86_400_000_000]


@pytest.mark.parametrize(
    "ttl", [Duration(), Duration(nanos=999_999_999), Duration(seconds=-5), Duration(seconds=30 * 86_400 + 1)]
)
async def test_a_lifetime_out_of_bounds_is_refused(tenant: Tenant, ttl: Duration) -> None:
    name = await session(tenant)

    with refused(*INVALID):
        await put(tenant, name, "key", 1, ttl=ttl)


async def test_a_second_value_takes_the_place_of_the_first(tenant: Tenant) -> None:
    name, other = await session(tenant), await session(tenant)
    first = await put(tenant, name, "key", 1, ttl=Duration(seconds=60))
    await put(tenant, other, "key", "elsewhere")

    second = await put(tenant, name, "key", 2)
    await asyncio.gather(*(put(tenant, name, "crowded", number) for number in range(8)))

    assert await get(tenant, name, "key") == 2
    assert await get(tenant, other, "key") == "elsewhere"
    assert second.create_time == first.create_time
    assert second.expire_time.seconds - first.expire_time.seconds > 86_000
    assert await keys(tenant, name) == ["crowded", "key"]


async def test_an_invalid_value_is_refused(tenant: Tenant) -> None:
    name = await session(tenant)

    with refused(*INVALID):
        await tenant.sessions.PutSessionItem(pb.PutSessionItemRequest(session_id=name, key="key"))
    with refused(*INVALID):
        await tenant.sessions.PutSessionItem(pb.PutSessionItemRequest(session_id=name, key="key", value=Value()))
    for key in ("", "k" * 256):
        with refused(*INVALID):
            await put(tenant, name, key, 1)
    with refused(*INVALID):
        await put(tenant, name, "key", "x" * (256 * 1024))
    with refused(*INVALID):
        number = Value(number_value=float("inf"))
        await tenant.sessions.PutSessionItem(pb.PutSessionItemRequest(session_id=name, key="key", value=number))
    for key, of in (("k\0", "x"), ("key", "a\0b")):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
            await put(tenant, name, key, of)
    assert await keys(tenant, name) == []


async def test_null_is_a_value_too(tenant: Tenant) -> None:
    name = await session(tenant)
    request = pb.PutSessionItemRequest(session_id=name, key="key", value=Value(null_value=NULL_VALUE))

    await tenant.sessions.PutSessionItem(request)

    assert await keys(tenant, name) == ["key"]


async def test_items_are_listed_by_key_and_by_how_keys_begin(tenant: Tenant) -> None:
    name = await session(tenant)
    for key in ("b%c", "a", "b_d", "bx", "ü", "B"):
        await put(tenant, name, key, 1)

    assert await keys(tenant, name) == sorted(["b%c", "a", "b_d", "bx", "ü", "B"])
    assert await keys(tenant, name, prefix="b") == ["b%c", "b_d", "bx"]
    assert await keys(tenant, name, prefix="b%") == ["b%c"]
    assert await keys(tenant, name, prefix="b_") == ["b_d"]


async def test_long_keys_are_paged(tenant: Tenant) -> None:
    name = await session(tenant)
    expected = sorted(f"{number}{'𝄞' * 254}" for number in range(5))
    for key in expected:
        await put(tenant, name, key, 1)

    assert await keys(tenant, name) == expected


async def test_an_item_that_has_expired_is_not_there(cluster: Cluster, tenant: Tenant) -> None:
    name = await session(tenant)
    await put(tenant, name, "old", 1)
    await put(tenant, name, "again", 1)
    await expire(cluster, tenant, "items")

    with refused(*MISSING):
        await get(tenant, name, "old")
    with refused(*MISSING):
        await drop(tenant, name, "old")
    assert await keys(tenant, name) == []
    again = await put(tenant, name, "again", 2)

    assert again.create_time == again.update_time
    assert await sweep(cluster, tenant) == 1
    assert await keys(tenant, name) == ["again"]


async def test_a_deleted_item_is_gone_once(tenant: Tenant) -> None:
    name = await session(tenant)
    await put(tenant, name, "key", 1)

    await drop(tenant, name, "key", request_id="d")
    await drop(tenant, name, "key", request_id="d")

    with refused(*MISSING):
        await get(tenant, name, "key")
    with refused(*MISSING):
        await drop(tenant, name, "key")


@pytest.mark.system
async def test_a_session_takes_no_more_than_a_thousand_keys(tenant: Tenant) -> None:
    name = await session(tenant)
    for start in range(0, 1000, 50):
        await asyncio.gather(*(put(tenant, name, f"key {number}", 1) for number in range(start, start + 50)))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ITEMS_FULL"):
        await put(tenant, name, "one more", 1)
    await put(tenant, name, "key 0", 2)

    await drop(tenant, name, "key 1")
    await put(tenant, name, "one more", 1)
    assert await get(tenant, name, "key 0") == 2


async def test_items_go_with_their_session_and_need_one(tenant: Tenant, other_tenant: Tenant) -> None:
    name = await session(tenant)
    await put(tenant, name, "key", 1)
    theirs = uuid.uuid4().hex
    await session(other_tenant, theirs)
    await put(other_tenant, theirs, "key", "theirs")

    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=name))

    for unknown in (name, theirs, "no such session"):
        with refused(*NO_SESSION):
            await put(tenant, unknown, "key", 1)
        with refused(*NO_SESSION):
            await get(tenant, unknown, "key")
        with refused(*NO_SESSION):
            await keys(tenant, unknown)
        with refused(*NO_SESSION):
            await drop(tenant, unknown, "key")
    assert await get(other_tenant, theirs, "key") == "theirs"
