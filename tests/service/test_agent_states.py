"""Agent states: stored whole or merged, compared and set, expiring, listed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_states import data, expire, session, sweep
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from skein.session.v1 import session_pb2
from skein.session.v1 import states_pb2 as pb

MISSING = (grpc.StatusCode.NOT_FOUND, "AGENT_STATE_NOT_FOUND")
STALE = (grpc.StatusCode.ABORTED, "REVISION_STALE")
INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def put(tenant: Tenant, agent_id: str = "planner", session_id: str = "", **fields: Any) -> pb.AgentState:
    """Put a state; what is no field of the request is one of the state."""
    options = {name: fields.pop(name) for name in ("mode", "must_not_exist", "ttl", "request_id") if name in fields}
    state = pb.AgentState(agent_id=agent_id, session_id=session_id, **fields)
    return (await tenant.sessions.PutAgentState(pb.PutAgentStateRequest(state=state, **options))).state


async def get(tenant: Tenant, agent_id: str = "planner", session_id: str = "") -> pb.AgentState:
    request = pb.GetAgentStateRequest(agent_id=agent_id, session_id=session_id)
    return (await tenant.sessions.GetAgentState(request)).state


async def drop(tenant: Tenant, agent_id: str = "planner", session_id: str = "", **fields: Any) -> None:
    await tenant.sessions.DeleteAgentState(
        pb.DeleteAgentStateRequest(agent_id=agent_id, session_id=session_id, **fields)
    )


async def listed(tenant: Tenant, **filters: Any) -> list[tuple[str, str]]:
    """Page through states, two at a time."""
    results: list[tuple[str, str]] = []
    token = ""
    while True:
        request = pb.ListAgentStatesRequest(page_size=2, page_token=token, **filters)
        page = await tenant.sessions.ListAgentStates(request)
        results += [(state.agent_id, state.session_id) for state in page.states]
        token = page.next_page_token
        if not token:
            return results


async def test_a_state_comes_back_as_it_was_put(tenant: Tenant) -> None:
    state_data = data(mood="calm", steps=[1, {"two": None}], deep={"er": {"still": True}}, größe="ü")

    made = await put(tenant, state_data=state_data)

    assert made.state_data == state_data
    assert made == await get(tenant)
    assert made.create_time == made.update_time
    assert made.created_by.startswith("api_key:")
    assert not made.HasField("expire_time")


async def test_an_agent_has_one_state_of_its_own_and_one_in_each_session(tenant: Tenant) -> None:
    first, second = await session(tenant), await session(tenant)

    for name in ("", first, second):
        await put(tenant, session_id=name, state_data=data(here=name))
    await put(tenant, session_id=first, state_data=data(here="again"))

    results = [(await get(tenant, session_id=name)).state_data["here"] for name in ("", first, second)]
    assert results == ["", "again", second]
    assert await listed(tenant) == sorted([("planner", ""), ("planner", first), ("planner", second)])


async def test_a_state_needs_an_agent_a_document_and_a_session_that_exists(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    theirs = await session(other_tenant)

    with refused(*INVALID):
        await put(tenant, agent_id="", state_data=data(a=1))
    with refused(*INVALID):
        await put(tenant)
    for name in ("no such session", theirs):
        with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
            await put(tenant, session_id=name, state_data=data(a=1))
    assert (await put(tenant, state_data=Struct())).state_data == Struct()


async def test_an_invalid_value_is_refused(tenant: Tenant) -> None:
    with refused(*INVALID):
        await put(tenant, state_data=data(text="x" * (256 * 1024)))
    with refused(*INVALID):
        endless = Struct()
        endless.update({"number": float("nan")})
        await put(tenant, state_data=endless)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await put(tenant, state_data=data(text="a\0b"))
    nested = data(a=1)
    for _ in range(30):
        nested = data(a=json_format.MessageToDict(nested))
    with refused(*INVALID):
        await put(tenant, state_data=nested)
    with refused(*MISSING):
        await get(tenant)


async def test_a_merge_changes_what_it_names_and_nothing_else(tenant: Tenant) -> None:
    await put(tenant, state_data=data(keep=1, gone=2, inner={"keep": 1, "gone": 2}, list=[1, 2]))

    merged = await put(
        tenant, mode=pb.STATE_MODE_MERGE, state_data=data(gone=None, inner={"gone": None, "new": 3}, list=[3], new={})
    )
    fresh = await put(
        tenant, agent_id="other", mode=pb.STATE_MODE_MERGE, state_data=data(a=None, b={"c": None, "d": 1})
    )
    replaced = await put(tenant, state_data=data(only=1))

    assert merged.state_data == data(keep=1, inner={"keep": 1, "new": 3}, list=[3], new={})
    assert fresh.state_data == data(b={"d": 1})
    assert replaced.state_data == data(only=1)
    assert replaced.create_time == merged.create_time


async def test_a_merge_cannot_grow_a_state_past_its_limit(tenant: Tenant) -> None:
    await put(tenant, state_data=data(a="x" * 200_000))

    with refused(*INVALID):
        await put(tenant, mode=pb.STATE_MODE_MERGE, state_data=data(b="x" * 100_000))

    assert (await get(tenant)).state_data == data(a="x" * 200_000)


async def test_only_the_current_revision_is_replaced(tenant: Tenant) -> None:
    with refused(*MISSING):
        await put(tenant, state_data=data(n=0), revision=1)
    first = await put(tenant, state_data=data(n=1))
    second = await put(tenant, state_data=data(n=2), revision=first.revision)

    with refused(*STALE):
        await put(tenant, state_data=data(n=3), revision=first.revision)
    with refused(*STALE):
        await drop(tenant, revision=first.revision)

    assert second.revision == first.revision + 1
    assert await get(tenant) == second


async def test_a_state_that_must_not_exist_is_stored_once(tenant: Tenant) -> None:
    await put(tenant, state_data=data(n=1), must_not_exist=True)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "AGENT_STATE_EXISTS"):
        await put(tenant, state_data=data(n=2), must_not_exist=True)
    with refused(*INVALID):
        await put(tenant, state_data=data(n=2), must_not_exist=True, revision=1)

    assert (await get(tenant)).state_data == data(n=1)


async def test_a_revision_of_a_deleted_state_is_never_current_again(tenant: Tenant) -> None:
    old = await put(tenant, state_data=data(n=1))
    await drop(tenant)
    await put(tenant, state_data=data(n=2))

    with refused(*STALE):
        await put(tenant, state_data=data(n=3), revision=old.revision)


async def test_one_of_concurrent_compare_and_sets_wins_and_merges_are_all_kept(tenant: Tenant) -> None:
    current = await put(tenant, state_data=data(count=0))

    async def attempt(number: int) -> str:
        try:
            await put(tenant, state_data=data(winner=number), revision=current.revision)
        except aio.AioRpcError as error:
            return error.code().name
        return "won"

    outcomes = await asyncio.gather(*(attempt(number) for number in range(8)))
    await asyncio.gather(
        *(put(tenant, "shared", mode=pb.STATE_MODE_MERGE, state_data=data(**{f"k{n}": n})) for n in range(8))
    )

    assert sorted(outcomes) == [*["ABORTED"] * 7, "won"]
    assert (await get(tenant, "shared")).state_data == data(**{f"k{n}": n for n in range(8)})


def later(**values: float) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(datetime.now(UTC) + timedelta(**values))
    return made


async def test_the_time_of_a_state_is_given_as_an_end_or_a_lifetime(tenant: Tenant) -> None:
    end = later(hours=1)

    ending = await put(tenant, state_data=data(n=1), expire_time=end)
    merged = await put(tenant, mode=pb.STATE_MODE_MERGE, state_data=data(m=1))
    living = await put(tenant, state_data=data(n=1), ttl=Duration(seconds=60))
    lasting = await put(tenant, state_data=data(n=1))

    assert ending.expire_time.ToMicroseconds() == merged.expire_time.ToMicroseconds() == end.ToMicroseconds()
    assert living.expire_time.ToMicroseconds() - living.update_time.ToMicroseconds() == 60_000_000
    assert not lasting.HasField("expire_time")


@pytest.mark.parametrize(
    "fields",
    [
        {"ttl": Duration()},
        {"ttl": Duration(seconds=-1)},
        {"ttl": Duration(nanos=1)},
        {"ttl": Duration(seconds=200 * 366 * 86_400)},
        {"ttl": Duration(seconds=60), "expire_time": Timestamp(seconds=4_000_000_000)},
        {"expire_time": Timestamp(seconds=1)},
        {"expire_time": Timestamp(seconds=253_402_300_800)},
    ],
)
async def test_a_time_that_makes_no_sense_is_refused(tenant: Tenant, fields: dict[str, Any]) -> None:
    with refused(*INVALID):
        await put(tenant, state_data=data(n=1), **fields)


async def test_an_expired_state_is_not_there_whether_it_was_swept_or_not(cluster: Cluster, tenant: Tenant) -> None:
    old = await put(tenant, state_data=data(n=1), ttl=Duration(seconds=60))
    await put(tenant, "other", state_data=data(n=1), ttl=Duration(seconds=60))
    await expire(cluster, tenant, "agent_states")

    with refused(*MISSING):
        await get(tenant)
    with refused(*MISSING):
        await drop(tenant)
    with refused(*MISSING):
        await put(tenant, state_data=data(n=2), revision=old.revision)
    assert await listed(tenant) == []
    new = await put(tenant, mode=pb.STATE_MODE_MERGE, must_not_exist=True, state_data=data(m=1))

    assert new.state_data == data(m=1)
    assert new.create_time.ToMicroseconds() > old.create_time.ToMicroseconds()
    assert await sweep(cluster, tenant) == 1
    assert await sweep(cluster, tenant) == 0
    assert await get(tenant) == new


async def test_states_are_listed_by_agent_by_session_and_all(tenant: Tenant, other_tenant: Tenant) -> None:
    one, two = await session(tenant, "one"), await session(tenant, "two")
    for agent_id in ("a", "b", "c"):
        for name in ("", one, two):
            await put(tenant, agent_id, name, state_data=data(n=1))
    await put(other_tenant, "a", state_data=data(n=1))

    assert await listed(tenant) == [(agent_id, name) for agent_id in "abc" for name in ("", one, two)]
    assert await listed(tenant, agent_id="b") == [("b", ""), ("b", one), ("b", two)]
    assert await listed(tenant, session_id=two) == [("a", two), ("b", two), ("c", two)]
    assert await listed(tenant, agent_id="c", session_id=one) == [("c", one)]
    assert await listed(tenant, session_id="unknown") == []


@pytest.mark.system
async def test_a_page_of_the_largest_states_fits_an_answer(tenant: Tenant) -> None:
    for number in range(16):
        await put(tenant, f"agent {number:02}", state_data=data(text="x" * 250_000))

    page = await tenant.sessions.ListAgentStates(pb.ListAgentStatesRequest(page_size=1000))
    counts = [len(page.states)]
    while page.next_page_token:
        page = await tenant.sessions.ListAgentStates(
            pb.ListAgentStatesRequest(page_size=1000, page_token=page.next_page_token)
        )
        counts.append(len(page.states))

    assert counts == [6, 6, 4]


async def test_a_state_outlives_the_deletion_of_its_session(tenant: Tenant) -> None:
    name = await session(tenant)
    kept = await put(tenant, session_id=name, state_data=data(n=1))
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=name))

    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await put(tenant, session_id=name, state_data=data(n=2))

    assert await get(tenant, session_id=name) == kept
    assert await listed(tenant) == [("planner", name)]
    await drop(tenant, session_id=name)
    assert await listed(tenant) == []
