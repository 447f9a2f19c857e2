"""What is purged is gone for good: no table holds anything of it, nothing takes its place, the rest stays whole."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_states import data, session, superuser, waiting
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Value
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.session.v1 import states_pb2 as pb
from skein.tenancy.v1 import limits_pb2

if TYPE_CHECKING:
    from fix_states import Connection

NO_SESSION = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    connection = await superuser(cluster)
    yield connection
    await connection.close()


async def holding(connection: Connection, marker: str) -> list[str]:
    """Return every table of the database, partitions included, in which a text or bytes hold the marker."""
    columns = await connection.fetch(
        """
        SELECT format('%I.%I', n.nspname, c.relname) AS name,
               string_agg(CASE WHEN a.atttypid = 'bytea'::regtype
                               THEN format('encode(%I, ''escape'')', a.attname)
                               ELSE format('%I::text', a.attname) END, ', ') AS texts
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        GROUP BY 1 ORDER BY 1
        """
    )
    results = []
    for column in columns:
        question = f"SELECT EXISTS (SELECT FROM {column['name']} WHERE concat_ws(' ', {column['texts']}) ILIKE $1)"  # noqa: S608
        if await connection.fetchval(question, f"%{marker}%"):
            results.append(column["name"])
    return results


def marked() -> str:
    """Return a text that occurs nowhere else; one word, so that the search index has it as it is."""
    return f"marker{uuid.uuid4().hex}"


def message(content: str, **fields: Any) -> session_pb2.Message:
    return session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content, **fields)


async def say(tenant: Tenant, session_id: str, *messages: session_pb2.Message, **fields: Any) -> list[str]:
    request = session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages, **fields)
    return [made.message_id for made in (await tenant.sessions.AppendMessages(request)).messages]


async def fill(tenant: Tenant, marker: str, session_id: str, **fields: Any) -> None:
    """Let a session hold the marker wherever one can hold anything, stored answers included."""
    opened = session_pb2.Session(
        session_id=session_id, title=marker, summary=marker, metadata=data(note=marker), **fields
    )
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=opened, request_id=uuid.uuid4().hex))
    await say(
        tenant,
        session_id,
        message(marker, name=marker, metadata=data(note=marker), external_id=f"{marker} {session_id}"),
        message(f"once more {marker}", external_id=f"{marker} again {session_id}"),
        request_id=uuid.uuid4().hex,
    )
    state = pb.AgentState(agent_id="agent", session_id=session_id, state_data=data(thought=marker))
    await tenant.sessions.PutAgentState(pb.PutAgentStateRequest(state=state, request_id=uuid.uuid4().hex))
    item = pb.PutSessionItemRequest(
        session_id=session_id, key=f"key of {marker}", value=Value(string_value=marker), request_id=uuid.uuid4().hex
    )
    await tenant.sessions.PutSessionItem(item)
    change = session_pb2.UpdateSessionRequest(
        session=session_pb2.Session(session_id=session_id, summary=f"so {marker}"),
        update_mask=FieldMask(paths=["summary"]),
        request_id=uuid.uuid4().hex,
    )
    await tenant.sessions.UpdateSession(change)


async def purge(tenant: Tenant, session_id: str, **fields: Any) -> pb.PurgeReceipt:
    return (await tenant.sessions.PurgeSession(pb.PurgeSessionRequest(session_id=session_id, **fields))).receipt


async def purge_subject(tenant: Tenant, subject_id: str, **fields: Any) -> pb.PurgeReceipt:
    return (await tenant.sessions.PurgeSubject(pb.PurgeSubjectRequest(subject_id=subject_id, **fields))).receipt


async def purge_messages(tenant: Tenant, *names: str, **fields: Any) -> pb.PurgeReceipt:
    return (await tenant.sessions.PurgeMessages(pb.PurgeMessagesRequest(message_ids=names, **fields))).receipt


async def sequences(tenant: Tenant, session_id: str) -> list[tuple[int, str]]:
    listed = await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id=session_id))
    return [(message.sequence, message.content) for message in listed.messages]


async def usage(connection: Connection, tenant: Tenant) -> dict[str, int]:
    rows = await connection.fetch(
        "SELECT kind, sum(amount)::bigint AS amount FROM session.usage WHERE tenant_id = $1 GROUP BY kind",
        tenant.tenant_id,
    )
    return {row["kind"]: row["amount"] for row in rows if row["amount"]}


@pytest.mark.system
@pytest.mark.parametrize("deleted_before", [False, True])
async def test_a_purged_session_leaves_its_marker_in_no_table(
    tenant: Tenant, connection: Connection, *, deleted_before: bool
) -> None:
    marker, name = marked(), uuid.uuid4().hex
    await fill(tenant, marker, name)
    await fill(tenant, "nothing much", f"{name} neighbour")
    tables = await holding(connection, marker)
    if deleted_before:
        await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=name))

    receipt = await purge(tenant, name)

    assert {"session.sessions", "session.agent_states", "session.items", "session.requests"} < set(tables)
    assert {"recall.postings", "session.message_external_ids", "session.session_properties"} < set(tables)
    assert any(table.startswith("session.messages_") for table in tables)
    # The agent's state outlives the conversation.
    assert await holding(connection, marker) == ["session.agent_states"]
    assert list(receipt.session_ids) == [name]
    assert len(receipt.message_ids) == receipt.counts["session.messages"] == 2
    assert (receipt.counts.get("session.agent_states", 0), receipt.counts["session.sessions"]) == (0, 1)
    assert receipt.counts.get("session.items", 0) == (0 if deleted_before else 1)
    assert not receipt.more
    assert len(await sequences(tenant, f"{name} neighbour")) == 2
    assert await usage(connection, tenant) == {"sessions": 1, "messages": 2, "agent_states": 2, "session_items": 1}


@pytest.mark.system
async def test_the_states_of_a_purged_session_become_those_outside_of_sessions(tenant: Tenant) -> None:
    names = [await session(tenant) for _ in range(2)]
    for number, name in enumerate(names):
        state = pb.AgentState(agent_id="agent", session_id=name, state_data=data(number=number))
        await tenant.sessions.PutAgentState(pb.PutAgentStateRequest(state=state))

    expected = [dict((await purge(tenant, name, dry_run=True)).counts) for name in names[:1]]
    first, second = [await purge(tenant, name) for name in names]

    listed = (await tenant.sessions.ListAgentStates(pb.ListAgentStatesRequest())).states
    assert expected == [{"session.sessions": 1}]
    assert [(state.session_id, dict(state.state_data)) for state in listed] == [("", {"number": 0})]
    assert [receipt.counts.get("session.agent_states", 0) for receipt in (first, second)] == [0, 1]


def only_names(receipt: pb.PurgeReceipt) -> bool:
    """Return whether a receipt has the digest of the person and nothing else."""
    digest = receipt.subject_tombstone
    return bool(digest) and receipt == pb.PurgeReceipt(tombstones=[digest], subject_tombstone=digest)


@pytest.mark.system
async def test_a_long_session_takes_several_calls_and_is_gone_from_the_first_on(tenant: Tenant) -> None:
    name = await session(tenant)
    await say(tenant, name, *(message(f"turn {number} of the kettle") for number in range(10)))

    first = await purge(tenant, name, limit=4)
    with refused(*NO_SESSION):
        await sequences(tenant, name)
    search = session_pb2.SearchMessagesRequest(query="kettle")
    assert not (await tenant.sessions.SearchMessages(search)).hits
    with refused(*NO_SESSION):
        await say(tenant, name, message("late"))
    second, third = await purge(tenant, name, limit=4), await purge(tenant, name, limit=4)

    receipts = (first, second, third)
    assert [receipt.counts["session.messages"] for receipt in receipts] == [4, 4, 2]
    assert [receipt.more for receipt in receipts] == [True, True, False]
    assert [list(receipt.session_ids) for receipt in receipts] == [[], [], [name]]
    with refused(*NO_SESSION):
        await purge(tenant, name)


async def test_a_limit_that_fits_exactly_leaves_nothing(tenant: Tenant) -> None:
    name = await session(tenant)
    await say(tenant, name, message("one"), message("two"))

    receipt = await purge(tenant, name, limit=2)

    assert (receipt.more, list(receipt.session_ids)) == (False, [name])


async def test_a_dry_run_counts_and_removes_nothing(tenant: Tenant) -> None:
    name = uuid.uuid4().hex
    await fill(tenant, "kettle", name, subject_id="anna")
    other = await session(tenant, subject_id="ben")
    (elsewhere,) = await say(tenant, other, message("anna says", subject_id="anna"))

    of_session = await purge(tenant, name, dry_run=True)
    of_subject = await purge_subject(tenant, "anna", dry_run=True)
    of_messages = await purge_messages(tenant, elsewhere, "unknown", dry_run=True)

    whole = {"session.sessions": 1, "session.messages": 2, "session.agent_states": 1, "session.items": 1}
    assert dict(of_session.counts) == {table: count for table, count in whole.items() if "state" not in table}
    assert dict(of_subject.counts) == {**whole, "session.messages": 3}
    assert list(of_messages.message_ids) == [elsewhere]
    assert len(await sequences(tenant, name)) == 2
    assert len(await sequences(tenant, other)) == 1


@pytest.mark.system
async def test_nothing_takes_the_place_of_what_was_purged(tenant: Tenant, other_tenant: Tenant) -> None:
    name = uuid.uuid4().hex
    await fill(tenant, "kettle", name)
    await purge(tenant, name)
    other = await session(tenant)
    taken = (grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await session(tenant, name)
    with refused(*NO_SESSION):
        await say(tenant, name, message("again"), create_session=True)
    with refused(*taken) as caught:
        await say(tenant, other, message("again", external_id="new"), message("x", external_id=f"kettle {name}"))

    assert f"kettle {name}" in str(caught.value.trailing_metadata())
    assert await sequences(tenant, other) == []
    assert await session(other_tenant, name) == name
    await say(other_tenant, name, message("x", external_id=f"kettle {name}"))


async def test_repeated_requests_do_nothing_after_a_purge(tenant: Tenant) -> None:
    name = await session(tenant)
    request = session_pb2.AppendMessagesRequest(
        session_id=name, messages=[message("kettle")], create_session=True, request_id="a"
    )
    await tenant.sessions.AppendMessages(request)
    first = await purge(tenant, name, request_id="p")

    assert await purge(tenant, name, request_id="p") == first
    assert await tenant.sessions.AppendMessages(request) == session_pb2.AppendMessagesResponse()
    with refused(*NO_SESSION):
        await sequences(tenant, name)


@pytest.mark.system
async def test_a_purge_of_a_person_leaves_the_marker_in_no_table(tenant: Tenant, connection: Connection) -> None:
    marker, person = marked(), uuid.uuid4().hex
    for number in range(3):
        await fill(tenant, marker, f"{person} {number}", subject_id=person)
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=f"{person} 1"))
    other = await session(tenant, subject_id="somebody else")
    ids = await say(
        tenant,
        other,
        message(f"  {marker} and so on", subject_id=person, external_id=f"{marker} elsewhere"),
        message("not this one"),
        message(f"deleted {marker}", subject_id=person),
        request_id="r",
    )
    await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=ids[2]))
    await tenant.sessions.SummarizeSession(
        session_pb2.SummarizeSessionRequest(session_id=other, store=True, request_id="s")
    )
    assert (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=other))).session.title

    receipts = [await purge_subject(tenant, person, limit=3)]
    while receipts[-1].more:
        receipts.append(await purge_subject(tenant, person, limit=3))

    assert len(receipts) > 2
    assert await holding(connection, marker) == []
    assert sorted(name for receipt in receipts for name in receipt.session_ids) == [f"{person} {n}" for n in range(3)]
    assert sum(receipt.counts["session.messages"] for receipt in receipts) == 8
    assert {name for receipt in receipts for name in receipt.message_ids} > {ids[0], ids[2]}
    assert await sequences(tenant, other) == [(2, "not this one")]
    kept = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=other))).session
    assert (kept.title, kept.summary, kept.message_count, kept.last_sequence) == ("", "", 1, 3)
    assert only_names(await purge_subject(tenant, person))
    assert await usage(connection, tenant) == {"sessions": 1, "messages": 1}
    await say(tenant, other, message("next"))
    assert await sequences(tenant, other) == [(2, "not this one"), (4, "next")]


@pytest.mark.system
async def test_purged_messages_leave_the_others_and_a_title_that_was_chosen(
    tenant: Tenant, connection: Connection
) -> None:
    marker = marked()
    name = await session(tenant, title="tea")
    ids = await say(tenant, name, message(f"tea {marker}"), message("stays"), message(marker, external_id=marker))

    receipt = await purge_messages(tenant, ids[0], marker, "unknown", str(uuid.uuid4()))
    again = await purge_messages(tenant, ids[0], ids[2])

    assert list(receipt.message_ids) == [ids[0], ids[2]]
    assert again == pb.PurgeReceipt()
    assert await holding(connection, marker) == []
    assert await sequences(tenant, name) == [(2, "stays")]
    kept = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=name))).session
    assert (kept.title, kept.message_count) == ("tea", 1)
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await tenant.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=ids[0]))


@pytest.mark.system
async def test_messages_of_a_deleted_session_are_purged_with_the_summary_made_of_them(
    tenant: Tenant, connection: Connection
) -> None:
    marker, name = marked(), await session(tenant)
    ids = await say(tenant, name, message(f"the {marker} boils in the kitchen"))
    await tenant.sessions.SummarizeSession(session_pb2.SummarizeSessionRequest(session_id=name, store=True))
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=name))

    await purge_messages(tenant, *ids)

    assert await holding(connection, marker) == []


@pytest.mark.system
async def test_a_title_follows_the_message_that_it_is_made_of(tenant: Tenant, connection: Connection) -> None:
    marker = marked()
    name = await session(tenant)
    ids = await say(tenant, name, message(f" {marker} "))

    corrected = session_pb2.Message(message_id=ids[0], content="coffee")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=corrected, update_mask=FieldMask(paths=["content"]))
    )

    kept = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=name))).session
    assert (kept.title, kept.revision) == ("coffee", 2)
    await purge_messages(tenant, *ids)
    assert await holding(connection, marker) == []


async def test_a_replaced_title_leaves_no_terms(tenant: Tenant, connection: Connection) -> None:
    marker = marked()
    name = await session(tenant, title=marker)
    ids = await say(tenant, name, message(marker))

    corrected = session_pb2.Message(message_id=ids[0], content="coffee")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=corrected, update_mask=FieldMask(paths=["content"]))
    )

    assert (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=name))).session.title == "coffee"
    assert await connection.fetch("SELECT term FROM session.title_terms WHERE session_id = $1", name) == []


@pytest.mark.system
async def test_nothing_takes_the_place_of_what_is_being_purged(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    name, other, third = [await session(tenant) for _ in range(3)]
    external_id = uuid.uuid4().hex
    await say(tenant, other, message("tea", external_id=external_id))
    blocking = await superuser(cluster)

    try:
        async with blocking.transaction():
            await blocking.execute("LOCK TABLE session.tombstones IN SHARE MODE")
            purges = [
                asyncio.ensure_future(purge(tenant, name)),
                asyncio.ensure_future(purge_messages(tenant, external_id)),
            ]
            await waiting(connection, 2)
            created = asyncio.ensure_future(session(tenant, name))
            append = asyncio.ensure_future(say(tenant, third, message("coffee", external_id=external_id)))
            await waiting(connection, 4)
        await asyncio.gather(*purges)
    finally:
        await blocking.close()

    with refused(grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS"):
        await created
    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
        await append


@pytest.mark.system
async def test_appends_and_a_purge_at_once_leave_nothing(tenant: Tenant, connection: Connection) -> None:
    marker, name = marked(), await session(tenant, subject_id="anna")

    async def speak(number: int) -> None:
        with suppress(aio.AioRpcError):
            await say(tenant, name, message(f"{marker} {number}"), create_session=True)

    await asyncio.gather(*(speak(number) for number in range(6)), purge(tenant, name), *map(speak, range(6)))
    await purge_subject(tenant, "anna")

    assert await holding(connection, marker) == []


@pytest.mark.system
async def test_two_purges_of_a_person_at_once_leave_nothing(tenant: Tenant, connection: Connection) -> None:
    marker = marked()
    for number in range(6):
        name = await session(tenant, subject_id="anna")
        await say(tenant, name, message(f"{marker} {number}"))

    async def purge_all() -> None:
        while (await purge_subject(tenant, "anna", limit=1)).more:
            pass

    await asyncio.gather(purge_all(), purge_all(), purge_all())

    assert await holding(connection, marker) == []


async def exported(tenant: Tenant, subject_id: str, page_size: int) -> list[session_pb2.SubjectRecord]:
    results: list[session_pb2.SubjectRecord] = []
    token = ""
    while True:
        request = session_pb2.ExportSubjectRequest(subject_id=subject_id, page_size=page_size, page_token=token)
        page = await tenant.sessions.ExportSubject(request)
        assert len(page.records) <= page_size
        results += page.records
        token = page.next_page_token
        if not token:
            return results


@pytest.mark.system
async def test_an_export_holds_all_that_a_purge_removes_and_nothing_else(tenant: Tenant) -> None:
    for name in ("a", "b"):
        await fill(tenant, f"of {name}", name, subject_id="anna")
    await fill(tenant, "other", "c", subject_id="ben")
    await say(tenant, "c", message("elsewhere", subject_id="anna"), message("own", subject_id="ben"))
    await say(tenant, "a", message("in her own", subject_id="anna"))
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="b"))

    whole = await exported(tenant, "anna", 1000)
    receipt = await purge_subject(tenant, "anna", dry_run=True)

    assert [record.WhichOneof("record") for record in whole] == [
        "session", "message", "message", "message", "state", "item",
        "session", "message", "message", "state",
        "message",
    ]  # fmt: skip
    assert [record.message.content for record in whole if record.HasField("message")] == [
        "of a", "once more of a", "in her own", "of b", "once more of b", "elsewhere",
    ]  # fmt: skip
    assert [record.deleted for record in whole] == [False] * 6 + [True] * 3 + [False] * 2
    for size in (1, 2, 3):
        assert await exported(tenant, "anna", size) == whole
    kinds = [record.WhichOneof("record") for record in whole]
    assert [kinds.count(kind) for kind in ("session", "message", "state", "item")] == [
        receipt.counts[f"session.{table}"] for table in ("sessions", "messages", "agent_states", "items")
    ]
    assert await exported(tenant, "nobody", 10) == []


@pytest.mark.system
async def test_an_export_of_large_messages_fits_its_answers(tenant: Tenant) -> None:
    name = await session(tenant, subject_id="anna")
    for _ in range(6):
        await say(tenant, name, *(message("x" * 100_000) for _ in range(10)))

    assert len(await exported(tenant, "anna", 1000)) == 61


async def test_a_purge_makes_room_in_the_quota(cluster: Cluster, tenant: Tenant) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    await acting.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(sessions=1), update_mask=FieldMask(paths=["sessions"]))
    )
    first = await session(tenant)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await session(tenant)

    await purge(tenant, first)

    assert await session(tenant)


@pytest.mark.system
async def test_a_purged_session_takes_the_memories_of_its_conversation_and_no_other(
    tenant: Tenant,
) -> None:
    name = await session(tenant)
    other = await session(tenant)
    memories: dict[str, dict[str, Any]] = {
        "its scope": {"session_id": name, "scope": memory_pb2.SCOPE_SESSION},
        "its entries": {"session_id": name, "type": "conversation"},
        "learned": {"session_id": name},
        "another": {"session_id": other, "type": "conversation"},
    }
    made = {
        key: (
            await tenant.memory.CreateMemory(
                memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=f"of {key}", **fields))
            )
        ).memory.memory_id
        for key, fields in memories.items()
    }
    request = pb.PurgeSessionRequest(session_id=name, request_id="r" * 255)

    trial = await tenant.sessions.PurgeSession(pb.PurgeSessionRequest(session_id=name, dry_run=True))
    purged = await tenant.sessions.PurgeSession(request)
    again = await tenant.sessions.PurgeSession(request)

    taken = {made["its scope"], made["its entries"]}
    assert set(trial.memory_ids) == set(purged.memory_ids) == set(again.memory_ids) == taken
    listed = await tenant.memory.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=made.values()))
    assert {memory.memory_id for memory in listed.memories} == set(made.values()) - taken
    with refused(*NO_SESSION):
        await purge(tenant, name)
