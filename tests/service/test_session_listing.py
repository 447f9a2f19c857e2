"""ListSessions: by what they are and by their metadata, and lists that end while everything changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct, Value

from skein.session.v1 import session_pb2 as pb


def facts(**values: Any) -> Struct:
    return json_format.ParseDict(values, Struct())


def property_of(path: str, value: Any) -> pb.SessionProperty:
    return pb.SessionProperty(path=path, value=json_format.ParseDict(value, Value()))


async def opened(tenant: Tenant, session_id: str, **fields: Any) -> pb.Session:
    session = pb.Session(session_id=session_id, **fields)
    return (await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))).session


async def updated(tenant: Tenant, session: pb.Session, *paths: str) -> None:
    await tenant.sessions.UpdateSession(
        pb.UpdateSessionRequest(session=session, update_mask=FieldMask(paths=list(paths)))
    )


async def walked(tenant: Tenant, *, size: int = 2, **filters: Any) -> list[str]:
    results: list[str] = []
    token = ""
    while True:
        page = await tenant.sessions.ListSessions(pb.ListSessionsRequest(page_size=size, page_token=token, **filters))
        results += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            return results


async def test_sessions_of_several_states_are_listed(tenant: Tenant) -> None:
    await opened(tenant, "a")
    await opened(tenant, "p", state=pb.SESSION_STATE_PAUSED)
    await opened(tenant, "c", state=pb.SESSION_STATE_COMPLETED)

    assert await walked(tenant, states=[pb.SESSION_STATE_PAUSED, pb.SESSION_STATE_COMPLETED]) == ["c", "p"]
    assert await walked(tenant, state=pb.SESSION_STATE_ACTIVE, states=[pb.SESSION_STATE_PAUSED]) == ["p", "a"]


async def test_sessions_are_listed_by_type_and_by_when_they_were_opened(tenant: Tenant) -> None:
    for year in (2001, 2010, 2020):
        session = pb.Session(session_id=str(year), session_type="task" if year == 2010 else "")
        session.create_time.FromDatetime(datetime(year, 6, 1, tzinfo=UTC))
        await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))

    assert await walked(tenant, session_type="task") == ["2010"]
    assert await walked(tenant, session_type="conversation") == ["2020", "2001"]
    assert await walked(tenant, start_time=datetime(2010, 6, 1, tzinfo=UTC)) == ["2020", "2010"]
    assert await walked(tenant, end_time=datetime(2010, 6, 1, tzinfo=UTC)) == ["2001"]


async def test_sessions_are_found_by_their_metadata(tenant: Tenant, other_tenant: Tenant) -> None:
    await opened(tenant, "a", metadata=facts(device={"room": "kitchen", "floor": 2}, tags=["x", "y"], muted=False))
    await opened(tenant, "b", metadata=facts(device={"room": "kitchen", "floor": 1.5}, tags=["y"]), subject_id="ada")
    await opened(tenant, "c", metadata=facts(device={"room": "Kitchen"}))
    await opened(other_tenant, "d", metadata=facts(device={"room": "kitchen"}))

    async def listed_ids(*properties: tuple[str, Any], **filters: Any) -> list[str]:
        return await walked(tenant, properties=[property_of(path, value) for path, value in properties], **filters)

    assert await listed_ids(("metadata.device.room", "kitchen")) == ["b", "a"]
    assert await listed_ids(("metadata.device.room", "kitchen"), ("metadata.device.floor", 2)) == ["a"]
    assert await listed_ids(("metadata.device.floor", 1.5)) == ["b"]
    assert await listed_ids(("metadata.tags", "y")) == ["b", "a"]
    assert await listed_ids(("metadata.tags", "y"), ("metadata.tags", "x")) == ["a"]
    assert await listed_ids(("metadata.muted", False)) == ["a"]
    assert await listed_ids(("metadata.device.room", "kitchen"), subject_id="ada") == ["b"]
    assert await listed_ids(("metadata.device.room", "kitch%")) == []


async def test_a_session_s_search_properties_follow_its_metadata(tenant: Tenant) -> None:
    kitchen, cellar = ([property_of("metadata.room", room)] for room in ("kitchen", "cellar"))
    await opened(tenant, "s", metadata=facts(room="kitchen"))

    await updated(tenant, pb.Session(session_id="s", title="t"), "title")
    assert await walked(tenant, properties=kitchen) == ["s"]

    await updated(tenant, pb.Session(session_id="s", metadata=facts(room="cellar")), "metadata")
    assert await walked(tenant, properties=kitchen) == []
    assert await walked(tenant, properties=cellar) == ["s"]

    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))
    assert await walked(tenant, properties=cellar) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"properties": [property_of("room", "kitchen")]},
        {"properties": [property_of("metadata..room", "kitchen")]},
        {"properties": [property_of("metadata.room", ["kitchen"])]},
        {"properties": [property_of("metadata.room", None)]},
        {"properties": [property_of("metadata.room", "x")] * 6},
        {"states": [pb.SESSION_STATE_UNSPECIFIED]},
        {"page_size": 1001},
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(tenant: Tenant, wrong: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.sessions.ListSessions(pb.ListSessionsRequest(**wrong))


async def test_metadata_of_too_many_values_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await opened(tenant, "s", metadata=facts(numbers=list(range(501))))


@pytest.mark.system
async def test_a_list_ends_and_misses_nothing_although_every_session_changes_all_the_time(tenant: Tenant) -> None:
    names = [f"s{number}" for number in range(7)]
    for name in names:
        await opened(tenant, name)
    seen: list[str] = []
    token = ""
    pages = 0
    while pages == 0 or token:
        page = await tenant.sessions.ListSessions(pb.ListSessionsRequest(page_size=2, page_token=token))
        seen += [session.session_id for session in page.sessions]
        token = page.next_page_token
        pages += 1
        # Whatever comes next leaves its place, and something new takes the front.
        for name in names:
            await updated(tenant, pb.Session(session_id=name, title=f"after page {pages}"), "title")
        await opened(tenant, f"new {pages}")
        assert pages < 20

    assert set(names) <= set(seen)
    # Two passes at most.
    assert all(seen.count(name) <= 2 for name in names)


async def test_a_list_that_nothing_disturbs_shows_everything_once(tenant: Tenant) -> None:
    names = [f"s{number}" for number in range(7)]
    for name in names:
        await opened(tenant, name)

    assert await walked(tenant) == names[::-1]
    assert await walked(tenant, size=1000) == names[::-1]


@pytest.mark.system
async def test_a_rare_session_is_found_behind_thousands(cluster: Cluster, tenant: Tenant) -> None:
    await opened(tenant, "rare", state=pb.SESSION_STATE_COMPLETED, metadata=facts(call="c-1", room="kitchen"))
    async with cluster.superuser() as connection:
        await connection.execute(
            "INSERT INTO session.sessions"
            " (tenant_id, session_id, state, session_type, create_time, update_time, active_time, created_by)"
            " SELECT $1, 'n' || n, 'active', 'conversation', now(), now() + make_interval(secs => n), now(), 'test'"
            " FROM generate_series(1, 2500) AS n",
            tenant.tenant_id,
        )
        await connection.execute(
            "INSERT INTO session.session_properties (tenant_id, path, value, session_id)"
            " SELECT $1, 'metadata.room', '\"kitchen\"', 'n' || n FROM generate_series(1, 2500) AS n",
            tenant.tenant_id,
        )
    by_room, by_call = property_of("metadata.room", "kitchen"), property_of("metadata.call", "c-1")

    first = await tenant.sessions.ListSessions(pb.ListSessionsRequest(states=[pb.SESSION_STATE_COMPLETED]))
    rare = await tenant.sessions.ListSessions(pb.ListSessionsRequest(properties=[by_room, by_call]))

    # A page looks at so many, and says that there are more.
    assert (len(first.sessions), bool(first.next_page_token)) == (0, True)
    assert await walked(tenant, states=[pb.SESSION_STATE_COMPLETED]) == ["rare"]
    # A rare property is asked first.
    assert [session.session_id for session in rare.sessions] == ["rare"]
    common = await walked(tenant, size=1000, properties=[by_room])
    assert len(common) == len(set(common)) == 2501
