"""What the access log knows of a person after Forget: that calls were made, and nothing of whom they were about."""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

import asyncpg
import pytest
from fix_cluster import Cluster, Tenant
from fix_world import system_identity
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


async def forget(tenant: Tenant, subject_id: str) -> gateway_pb2.ForgetResponse:
    return await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=subject_id))


async def keep_words(tenant: Tenant) -> None:
    """Have searches recorded with their words, before each answer."""
    policy = subjects_pb2.Policy(audit_query_text=True, audit_strict=True)
    mask = FieldMask(paths=["audit_query_text", "audit_strict"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))


async def finish(cluster: Cluster, connection: Connection, tenant: Tenant) -> None:
    """Let the minutes pass in which calls are recorded late, and the worker come by."""
    await connection.execute(
        "UPDATE memory.erasures SET erase_time = erase_time - interval '10 minutes' WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    identity = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        await stub.DeleteExpired(memory_pb2.DeleteExpiredRequest(), metadata=(("authorization", f"Bearer {identity}"),))


async def accesses(tenant: Tenant, method: str, count: int) -> list[access_log_pb2.AccessEvent]:
    """Return the accesses of a method when there are so many, newest first."""
    async with asyncio.timeout(60):
        while True:
            page = await tenant.history.ListAccessLog(access_log_pb2.ListAccessLogRequest(page_size=100))
            results = [entry for entry in page.access_events if entry.method == method]
            if len(results) >= count:
                return results


async def queries(tenant: Tenant) -> list[Any]:
    """Return what is recorded of the words of searches, newest first."""
    page = await tenant.history.ListAccessLog(access_log_pb2.ListAccessLogRequest(page_size=100))
    return [
        json_format.MessageToDict(entry.request_data).get("query")
        for entry in page.access_events
        if entry.method == "Recall"
    ]


async def test_a_call_that_is_recorded_after_the_erasure_loses_the_person_half_a_minute_later(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    await tenant.remember("likes tea", subject_id="ann", session_id="ann's")
    await tenant.remember("likes coffee", subject_id="bob", session_id="ann's")
    for subject_id in ("ann", "bob"):
        where = memory_pb2.MemoryFilter(subject_id=subject_id)
        await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=where))

    await forget(tenant, "ann")
    await accesses(tenant, "ListMemories", 2)
    await finish(cluster, connection, tenant)

    listed = await accesses(tenant, "ListMemories", 2)
    created = await accesses(tenant, "CreateMemory", 2)
    assert [(entry.subject_id, entry.item_count, entry.success) for entry in listed] == [
        ("bob", 1, True), ("", 1, True),
    ]  # fmt: skip
    assert [entry.subject_id for entry in created] == ["bob", ""]
    assert not listed[1].HasField("request_data")
    assert (listed[1].client_address, listed[1].call_request_id) == ("", "")
    assert await connection.fetchval("SELECT count(*) FROM memory.erasures WHERE tenant_id = $1", tenant.tenant_id) == 0


@pytest.mark.system
async def test_a_purge_that_is_repeated_clears_what_the_first_call_left(tenant: Tenant, connection: Connection) -> None:
    await tenant.remember("likes tea", subject_id="ann")
    where = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="ann"))
    request = memory_pb2.PurgeMemoriesRequest(selection=where, request_id="r")
    first = await tenant.memory.PurgeMemories(request)
    await accesses(tenant, "CreateMemory", 1)
    # As if the process had died before it cleared the log.
    await connection.execute(
        "UPDATE memory.access_log SET subject_id = 'ann' WHERE tenant_id = $1 AND method = 'CreateMemory'",
        tenant.tenant_id,
    )

    again = await tenant.memory.PurgeMemories(request)

    assert again.receipt.receipt_id == first.receipt.receipt_id
    assert [entry.subject_id for entry in await accesses(tenant, "CreateMemory", 1)] == [""]


async def open_session(tenant: Tenant, session_id: str, subject_id: str) -> None:
    opened = session_pb2.Session(session_id=session_id, subject_id=subject_id)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=opened))


async def recorded(connection: Connection, tenant: Tenant, method: str) -> list[tuple[str | None, str | None]]:
    """Return the person and the session of each access of a method, in their order."""
    rows = await connection.fetch(
        "SELECT subject_id, coalesce(session_id, claimed_session_id) AS session_id FROM memory.access_log"
        " WHERE tenant_id = $1 AND method = $2 ORDER BY access_event_id",
        tenant.tenant_id,
        method,
    )
    return [(row["subject_id"], row["session_id"]) for row in rows]


async def test_a_purged_session_leaves_what_is_recorded_of_other_people_under_its_name(
    tenant: Tenant, connection: Connection
) -> None:
    await open_session(tenant, "chat", "ann")
    await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="chat"))
    for subject_id in ("ann", "bob"):
        where = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(subject_id=subject_id))
        await tenant.memory.ListMemories(where, metadata=(("skein-session-id", "chat"),))
    for method, count in (("CreateSession", 1), ("GetSession", 1), ("ListMemories", 2)):
        await accesses(tenant, method, count)

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="chat"))

    assert await recorded(connection, tenant, "CreateSession") == [(None, None)]
    assert await recorded(connection, tenant, "GetSession") == [(None, None)]
    assert await recorded(connection, tenant, "ListMemories") == [(None, None), ("bob", "chat")]


@pytest.mark.system
async def test_a_call_that_is_recorded_after_its_session_was_purged_loses_person_and_session(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    for session_id, subject_id in (("chat", "ann"), ("other", "ann")):
        await open_session(tenant, session_id, subject_id)
    await accesses(tenant, "CreateSession", 2)
    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="chat"))
    # As if the call had been recorded only now.
    await connection.execute(
        "UPDATE memory.access_log SET subject_id = 'ann', session_id = 'chat'"
        " WHERE tenant_id = $1 AND method = 'CreateSession' AND session_id IS NULL",
        tenant.tenant_id,
    )

    await finish(cluster, connection, tenant)

    assert await recorded(connection, tenant, "CreateSession") == [(None, None), ("ann", "other")]


@pytest.mark.system
async def test_a_purge_of_a_persons_sessions_takes_the_person_out_of_the_access_log(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    for session_id, subject_id in (("chat", "ann"), ("talk", "bob")):
        await open_session(tenant, session_id, subject_id)
        where = session_pb2.ListSessionsRequest(subject_id=subject_id)
        await tenant.sessions.ListSessions(where)
    for method in ("CreateSession", "ListSessions"):
        await accesses(tenant, method, 2)

    await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="ann"))
    at_once = [await recorded(connection, tenant, method) for method in ("CreateSession", "ListSessions")]
    # As if a call had been recorded only now.
    await connection.execute(
        "UPDATE memory.access_log SET subject_id = 'ann' WHERE tenant_id = $1 AND method = 'ListSessions'"
        " AND subject_id IS NULL",
        tenant.tenant_id,
    )
    await finish(cluster, connection, tenant)

    assert at_once == [[(None, None), ("bob", "talk")], [(None, None), ("bob", None)]]
    assert await recorded(connection, tenant, "ListSessions") == [(None, None), ("bob", None)]


@pytest.mark.system
async def test_the_calls_that_erase_do_not_name_the_person(tenant: Tenant) -> None:
    await tenant.remember("likes tea", subject_id="ann")

    await forget(tenant, "ann")

    purges = [*await accesses(tenant, "PurgeMemories", 2), *await accesses(tenant, "PurgeSubject", 1)]
    assert {entry.subject_id for entry in purges} == {""}
    assert "ann" not in str(purges)


async def test_recorded_words_go_where_they_found_or_name_the_person_and_stay_elsewhere(tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="u-17", display_name="Ann Miller")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    subject.display_name = "Ann Baker"
    renaming = subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["display_name"]))
    await tenant.tenancy.UpdateSubject(renaming)
    await tenant.remember("zanzibar is where she was born", subject_id="u-17")
    await keep_words(tenant)
    queries_then = (
        "zanzibar", "what about ann miller?", "what about Ann Baker?", "and U-17", "annotations of millers", "weather",
    )  # fmt: skip
    for query in queries_then:
        await tenant.recall.Recall(recall_pb2.RecallRequest(query=query, mode=recall_pb2.SEARCH_MODE_KEYWORD))

    await forget(tenant, "u-17")

    # A search that found something is recorded in two rows.
    assert await queries(tenant) == ["weather", "annotations of millers", *[None] * 5]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_a_name_goes_from_recorded_words_with_accents_of_either_form(
    tenant: Tenant, form: Literal["NFC", "NFD"]
) -> None:
    name = unicodedata.normalize(form, "Jürgen Müller")
    subject = subjects_pb2.Subject(subject_id="u-17", display_name=name)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await keep_words(tenant)
    for query in (f"Where is {name}?", "weather"):
        await tenant.recall.Recall(recall_pb2.RecallRequest(query=query, mode=recall_pb2.SEARCH_MODE_KEYWORD))

    await forget(tenant, "u-17")

    assert await queries(tenant) == ["weather", None]


async def test_a_name_that_the_history_keeps_no_more_goes_from_recorded_words(
    tenant: Tenant, connection: Connection
) -> None:
    subject = subjects_pb2.Subject(subject_id="u-17", display_name="Ann Miller")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    for name in ("Ann Baker", "Ann Cook"):
        subject.display_name = name
        renaming = subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["display_name"]))
        await tenant.tenancy.UpdateSubject(renaming)
    # As the retention does, and as on Citus, which keeps no former rows.
    await connection.execute("DELETE FROM tenancy.subjects_history WHERE tenant_id = $1", tenant.tenant_id)
    await keep_words(tenant)
    for query in ("Ann Miller?", "ann baker", "Ann Cook", "weather"):
        await tenant.recall.Recall(recall_pb2.RecallRequest(query=query, mode=recall_pb2.SEARCH_MODE_KEYWORD))

    await forget(tenant, "u-17")

    assert await queries(tenant) == ["weather", None, None, None]


@pytest.mark.system
async def test_the_key_of_the_hashes_of_searches_is_secret_and_goes_with_a_person(
    tenant: Tenant, connection: Connection
) -> None:
    async def hash_of(count: int) -> str:
        await tenant.recall.Recall(recall_pb2.RecallRequest(query="tea"))
        newest = (await accesses(tenant, "Recall", count))[0]
        result: str = json_format.MessageToDict(newest.request_data)["query"]["hash"]
        return result

    before = [await hash_of(count) for count in (1, 2)]
    key = await connection.fetchval("SELECT secret FROM memory.access_keys WHERE tenant_id = $1", tenant.tenant_id)
    await forget(tenant, "ann")
    count, after = 3, await hash_of(3)
    async with asyncio.timeout(60):
        # A process holds a destroyed key for seconds.
        while after == before[0]:
            count += 1
            after = await hash_of(count)

    public = hashlib.blake2b(b"tea", digest_size=16, key=tenant.tenant_id.bytes).hexdigest()
    secret = hashlib.blake2b(b"tea", digest_size=16, key=key).hexdigest()
    assert before == [secret, secret]
    assert public not in (before[0], after)
    access_key = await connection.fetchval(
        "SELECT secret FROM memory.access_keys WHERE tenant_id = $1", tenant.tenant_id
    )
    assert access_key != key


async def test_the_receipt_says_until_when_dead_copies_may_hold_the_person(tenant: Tenant) -> None:
    await tenant.remember("likes tea", subject_id="ann")

    dry = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann", dry_run=True))
    response = await forget(tenant, "ann")

    assert not dry.HasField("remains")
    remains = response.remains
    assert remains.settle_time.ToDatetime() > response.forget_time.ToDatetime()
    assert "VACUUM FULL" in remains.dead_rows_until
    assert "before log_position" in remains.log_until
    assert "Later segments may hold the person" in remains.log_until
    assert "CHECKPOINT" in remains.log_until
    assert "/" in remains.log_position
    assert "purges" in remains.backups_until


async def test_an_emptied_answer_keeps_no_hash_of_its_request(tenant: Tenant, connection: Connection) -> None:
    memory = memory_pb2.Memory(content="likes tea", subject_id="ann")
    request = memory_pb2.CreateMemoryRequest(memory=memory, request_id="r")
    await tenant.memory.CreateMemory(request)

    await forget(tenant, "ann")

    row = await connection.fetchrow(
        "SELECT fingerprint, response FROM memory.requests WHERE tenant_id = $1 AND request_id = 'r'", tenant.tenant_id
    )
    assert row is not None
    assert tuple(row) == (b"", b"")
    assert await tenant.memory.CreateMemory(request) == memory_pb2.CreateMemoryResponse()


@pytest.mark.system
async def test_a_purged_session_leaves_what_was_done_for_others_under_its_name(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.create_session("hers", subject_id="ann")
    await tenant.remember("likes coffee", subject_id="bob")
    claiming = cluster.with_key(tenant.api_key, **{"skein-session-id": "hers"})
    for subject_id in ("ann", "bob"):
        await claiming.memory.ListMemories(
            memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(subject_id=subject_id))
        )
    await accesses(tenant, "ListMemories", 2)

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="hers"))

    logged = await accesses(tenant, "ListMemories", 2)
    assert [(entry.subject_id, entry.claimed_session_id) for entry in logged] == [("bob", "hers"), ("", "")]
