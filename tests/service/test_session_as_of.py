"""Messages, terms of titles and policies as they were at a time, until they are purged."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_database import TestDatabase
from fix_session_archives import Deployment, house_of
from fix_states import session, superuser
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import states_pb2
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.ids import now
from skein_kit.policies.store import DEFAULT, Policy, read_policy_as_of

if TYPE_CHECKING:
    from fix_states import Connection

MESSAGES = Query.parse(
    "messages",
    "SELECT content, subject_id, is_active FROM as_of.messages"
    " WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY sequence",
)
TITLE_TERMS = Query.parse(
    "title_terms",
    "SELECT term FROM as_of.title_terms WHERE tenant_id = :tenant_id AND session_id = :session_id ORDER BY term",
)
HISTORIES = ("session.messages_history", "session.title_terms_history")


@asynccontextmanager
async def opened(url: str, service: str) -> AsyncIterator[Database]:
    """Open the database as the role of a service."""
    async with Database.open(url, service=service, size=1, timeout=30.0) as database:
        yield database


@pytest.fixture
async def database_of_session(cluster: Cluster) -> AsyncIterator[Database]:
    async with opened(cluster.postgres.url(user="postgres", database="skein"), "session") as opened_database:
        yield opened_database


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    result = await superuser(cluster)
    yield result
    await result.close()


@pytest.fixture
async def deployment(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with house_of(database, tmp_path) as result:
        yield result


async def shown(
    database: Database, tenant_id: uuid.UUID, query: Query, at: datetime | None, session_id: str
) -> list[tuple[Any, ...]]:
    """Return what a view shows of a session at a time."""
    async with database.transaction(tenant_id, TxOptions(as_of_time=at, read_only=True)) as tx:
        return [tuple(row) for row in await tx.rows(query, tenant_id=tenant_id, session_id=session_id)]


async def say(tenant: Tenant, session_id: str, *texts: str, **fields: Any) -> list[str]:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=text, **fields) for text in texts]
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages)
    return [message.message_id for message in (await tenant.sessions.AppendMessages(request)).messages]


async def edit(tenant: Tenant, message_id: str, content: str) -> None:
    request = pb.UpdateMessageRequest(
        message=pb.Message(message_id=message_id, content=content), update_mask=FieldMask(paths=["content"])
    )
    await tenant.sessions.UpdateMessage(request)


async def change_session(tenant: Tenant, session_id: str, **fields: str) -> None:
    request = pb.UpdateSessionRequest(
        session=pb.Session(session_id=session_id, **cast("Any", fields)), update_mask=FieldMask(paths=list(fields))
    )
    await tenant.sessions.UpdateSession(request)


async def former_rows(connection: Connection, tenant: Tenant) -> list[int]:
    """Count the former messages and terms of titles of a tenant."""
    return [
        await connection.fetchval(
            f"SELECT count(*) FROM {table} WHERE tenant_id = $1",  # noqa: S608 - constants.
            tenant.tenant_id,
        )
        for table in HISTORIES
    ]


async def test_a_message_is_shown_with_the_words_that_it_had(tenant: Tenant, database_of_session: Database) -> None:
    name = await session(tenant)
    before = now()
    first, _ = await say(tenant, name, "green tea", "black tea")
    said = now()
    await edit(tenant, first, "coffee")
    edited = now()
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=first))

    pages = [
        await shown(database_of_session, tenant.tenant_id, MESSAGES, at, name) for at in (before, said, edited, now())
    ]

    other = ("black tea", None, True)
    assert pages == [
        [],
        [("green tea", None, True), other],
        [("coffee", None, True), other],
        [("coffee", None, False), other],
    ]


async def test_messages_of_a_deleted_session_are_shown_as_of_before(
    tenant: Tenant, database_of_session: Database
) -> None:
    name = await session(tenant, title="Breakfast")
    await say(tenant, name, "green tea")
    before = now()
    await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id=name))
    after = now()

    messages = [await shown(database_of_session, tenant.tenant_id, MESSAGES, at, name) for at in (before, after)]
    terms = [await shown(database_of_session, tenant.tenant_id, TITLE_TERMS, at, name) for at in (before, after)]

    assert messages == [[("green tea", None, True)], [("green tea", None, False)]]
    assert terms == [[("breakfast",)], []]


async def test_a_message_has_its_inherited_subject_from_the_inheritance_on(
    tenant: Tenant, database_of_session: Database
) -> None:
    name = await session(tenant)
    await say(tenant, name, "green tea")
    before = now()
    await change_session(tenant, name, subject_id="ann")

    pages = [await shown(database_of_session, tenant.tenant_id, MESSAGES, at, name) for at in (before, now())]

    assert pages == [[("green tea", None, True)], [("green tea", "ann", True)]]


async def test_a_former_title_has_its_terms(tenant: Tenant, database_of_session: Database) -> None:
    name = await session(tenant, title="Breakfast in Graz")
    before = now()
    await change_session(tenant, name, title="Supper in Graz")

    pages = [await shown(database_of_session, tenant.tenant_id, TITLE_TERMS, at, name) for at in (before, now())]

    assert pages == [[("breakfast",), ("graz",)], [("graz",), ("supper",)]]


async def test_without_a_time_the_views_are_empty_and_of_other_tenants_they_show_nothing(
    tenant: Tenant, other_tenant: Tenant, database_of_session: Database
) -> None:
    name = await session(tenant)
    (message_id,) = await say(tenant, name, "green tea")
    await edit(tenant, message_id, "coffee")

    assert await shown(database_of_session, tenant.tenant_id, MESSAGES, None, name) == []
    async with database_of_session.transaction(other_tenant.tenant_id, TxOptions(as_of_time=now())) as tx:
        assert await tx.rows(MESSAGES, tenant_id=tenant.tenant_id, session_id=name) == []


async def test_a_message_of_an_old_month_keeps_its_former_versions_too(
    tenant: Tenant, database_of_session: Database
) -> None:
    name = await session(tenant)
    old = pb.Message(role=pb.MESSAGE_ROLE_USER, content="green tea")
    old.create_time.FromJsonString("2019-05-01T00:00:00Z")
    request = pb.AppendMessagesRequest(session_id=name, messages=[old])
    (message,) = (await tenant.sessions.AppendMessages(request)).messages
    before = now()
    await edit(tenant, message.message_id, "coffee")

    pages = [await shown(database_of_session, tenant.tenant_id, MESSAGES, at, name) for at in (before, now())]

    assert pages == [[("green tea", None, True)], [("coffee", None, True)]]


@pytest.mark.system
async def test_an_archived_message_is_shown_at_no_time_and_an_unarchived_one_at_its_own(
    deployment: Deployment,
) -> None:
    async with deployment.sessions() as sessions, opened(deployment.server.database.url, "session") as database:
        await sessions.hide()
        hidden = now()
        await sessions.archive()
        archived = await shown(database, deployment.server.tenant_id, MESSAGES, hidden, "s")
        await sessions.unarchive()
        unarchived = await shown(database, deployment.server.tenant_id, MESSAGES, hidden, "s")

    assert archived == []
    assert [content for content, *_ in unarchived] == ["a heron named marker", "", "what stays"]


async def test_purged_messages_leave_no_former_versions(tenant: Tenant, connection: Connection) -> None:
    name = await session(tenant, title="Breakfast")
    first, second = await say(tenant, name, "green tea", "black tea")
    for message_id in (first, second):
        await edit(tenant, message_id, "coffee")
    await change_session(tenant, name, title="Supper")
    before = await former_rows(connection, tenant)

    request = states_pb2.PurgeMessagesRequest(message_ids=[first])
    receipt = (await tenant.sessions.PurgeMessages(request)).receipt

    assert before == [2, 1]
    assert await former_rows(connection, tenant) == [1, 0]
    assert (receipt.counts["session.messages"], receipt.counts["session.messages_history"]) == (1, 1)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_purged_session_leaves_no_former_versions(
    tenant: Tenant, connection: Connection, *, is_deleted: bool
) -> None:
    name = await session(tenant, title="Breakfast")
    (message_id,) = await say(tenant, name, "green tea")
    await edit(tenant, message_id, "coffee")
    await change_session(tenant, name, title="Supper")
    if is_deleted:
        await tenant.sessions.DeleteSession(pb.DeleteSessionRequest(session_id=name))

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id=name))

    assert await former_rows(connection, tenant) == [0, 0]


@pytest.mark.system
async def test_a_purged_person_has_no_former_versions_in_sessions_of_others(
    tenant: Tenant, connection: Connection
) -> None:
    own = await session(tenant, title="Breakfast", subject_id="ann")
    other = await session(tenant, title="Dinner", subject_id="ben")
    message_ids = [*await say(tenant, own, "green tea"), *await say(tenant, other, "black tea", subject_id="ann")]
    (stays,) = await say(tenant, other, "water")
    for message_id in (*message_ids, stays):
        await edit(tenant, message_id, "coffee")

    await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="ann"))

    rows = await connection.fetch(
        "SELECT message_id, content FROM session.messages_history WHERE tenant_id = $1", tenant.tenant_id
    )
    assert [tuple(row) for row in rows] == [(uuid.UUID(stays), "water")]


async def test_an_export_of_a_person_has_the_former_versions_of_messages(tenant: Tenant) -> None:
    own = await session(tenant, subject_id="ann")
    other = await session(tenant, subject_id="ben")
    message_ids = [*await say(tenant, own, "tea", "water"), *await say(tenant, other, "wine", subject_id="ann")]
    for content in ("coffee", "cocoa"):
        await edit(tenant, message_ids[0], content)
    await edit(tenant, message_ids[2], "juice")

    exported = await tenant.sessions.ExportSubject(pb.ExportSubjectRequest(subject_id="ann"))

    records = [record for record in exported.records if record.HasField("message")]
    versions = [[version.message.content for version in record.former_versions] for record in records]
    assert [record.message.content for record in records] == ["cocoa", "water", "juice"]
    assert versions == [["coffee", "tea"], [], ["wine"]]
    until_times = [version.until_time.ToDatetime() for version in records[0].former_versions]
    assert until_times == sorted(until_times, reverse=True)
    assert not any(record.truncated for record in records)


@pytest.mark.system
async def test_an_export_has_at_most_a_hundred_former_versions_of_a_message(tenant: Tenant) -> None:
    name = await session(tenant, subject_id="ann")
    (message_id,) = await say(tenant, name, "tea")
    for number in range(101):
        await edit(tenant, message_id, f"tea {number}")

    exported = await tenant.sessions.ExportSubject(pb.ExportSubjectRequest(subject_id="ann"))

    (record,) = [record for record in exported.records if record.HasField("message")]
    assert [version.message.content for version in record.former_versions] == [
        f"tea {number}" for number in range(99, -1, -1)
    ]
    assert record.truncated


async def test_a_policy_is_the_one_that_held_at_the_time(tenant: Tenant, cluster: Cluster) -> None:
    start = now()
    await tenant.set_policy(decay_days=7)
    first = now()
    await tenant.set_policy(decay_days=9, search_language="german")
    second = now()
    policies = []

    for service in ("session", "memory", "recall"):
        async with opened(cluster.postgres.url(user="postgres", database="skein"), service) as database:
            for at in (start, first, second):
                options = TxOptions(as_of_time=at, read_only=True)
                async with database.transaction(tenant.tenant_id, options) as tx:
                    policies.append(await read_policy_as_of(tx, tenant.tenant_id))

    assert policies == [DEFAULT, Policy(decay_days=7), Policy(decay_days=9, search_language="german")] * 3


def as_of(moment: datetime) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(moment)
    return result


async def test_messages_are_listed_and_read_as_they_were_at_a_time(tenant: Tenant) -> None:
    name = await session(tenant)
    first, second, _ = await say(tenant, name, "green tea", "black tea", "white tea")
    then = as_of(now())
    await edit(tenant, first, "coffee")
    await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=second))
    await say(tenant, name, "water")

    async def texts(**fields: Any) -> list[str]:
        request = pb.ListMessagesRequest(session_id=name, page_size=2, **fields)
        found: list[str] = []
        while True:
            page = await tenant.sessions.ListMessages(request)
            found += [message.content for message in page.messages]
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    read = [
        (await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message_id, as_of_time=then))).message.content
        for message_id in (first, second)
    ]

    assert await texts(as_of_time=then) == ["green tea", "black tea", "white tea"]
    assert await texts(as_of_time=then, newest_first=True) == ["white tea", "black tea", "green tea"]
    assert await texts() == ["coffee", "white tea", "water"]
    assert read == ["green tea", "black tea"]


async def test_reads_of_messages_refuse_times_that_have_no_answer(tenant: Tenant) -> None:
    name = await session(tenant)
    before = as_of(now())
    (message_id,) = await say(tenant, name, "green tea")
    past, future = as_of(now() - timedelta(days=1)), as_of(now() + timedelta(hours=1))

    for moment, code, reason in [
        (future, StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        (past, StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"),
    ]:
        with refused(code, reason):
            await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message_id, as_of_time=moment))
        with refused(code, reason):
            await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id=name, as_of_time=moment))
    with refused(StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message_id, as_of_time=before))
    assert not (await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id=name, as_of_time=before))).messages
