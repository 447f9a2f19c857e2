"""Receipts of answers: which answers get one, what it pins, and that no change of it goes unnoticed."""

from __future__ import annotations

import random
import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_receipts import (
    TOPICS,
    get_context_receipt,
    get_receipt,
    list_receipts,
    listed_ids,
    logged_recalls,
    published_keys,
    recall_with_receipt,
)
from google.protobuf.timestamp_pb2 import Timestamp

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit import recall_receipts


@pytest.mark.system
async def test_an_answer_has_a_receipt_that_pins_its_hits_and_their_signals(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the neighbours of the mill.", tags=[topic])

    response = await recall_with_receipt(tenant, "whose is the kettle?", limit=5, min_relevance=0)
    receipt = await get_receipt(tenant, response.receipt_id)

    statement = receipt.statement
    assert receipt.query == "whose is the kettle?"
    assert receipt.request.limit == 5
    ids = [str(uuid.UUID(bytes=statement.item_ids[start : start + 16])) for start in range(0, 80, 16)]
    assert ids == [hit.item_id for hit in response.hits]
    assert list(statement.revisions) == [hit.memory.revision for hit in response.hits]
    assert list(statement.scores) == [hit.score for hit in response.hits]
    assert (statement.model, statement.formula, statement.dense_path) == (
        response.model,
        response.formula,
        response.dense_path,
    )
    for index, hit in enumerate(response.hits):
        raws = {component.signal: component.raw for component in hit.components}
        for signal in ("dense", "context", "lexical"):
            assert abs(getattr(statement, signal)[index] - raws[signal]) < 1e-6
    assert statement.snapshot_start > 0


@pytest.mark.system
async def test_a_receipt_is_small(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    for number in range(60):
        await tenant.remember(f"The {TOPICS[number % 8]} of house {number} was yesterday at the mill.")
    sizes = {}

    for limit in (1, 10, 50):
        response = await recall_with_receipt(
            tenant, "when was the kettle at the mill of the harbour?", limit=limit, min_relevance=0
        )
        receipt = await get_receipt(tenant, response.receipt_id)
        sizes[len(response.hits)] = len(receipt.content) + len(receipt.signature)

    assert all(size <= 300 + 64 * hits for hits, size in sizes.items()), sizes


@pytest.mark.system
async def test_a_receipt_of_a_long_query_is_as_small(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    text = " ".join(f"wort{chr(97 + number % 26)}{chr(97 + number // 26)}x" for number in range(200))
    await tenant.remember(text)

    response = await recall_with_receipt(tenant, text, limit=1)
    receipt = await get_receipt(tenant, response.receipt_id)

    assert len(receipt.term_documents) == 200
    assert len(receipt.content) + len(receipt.signature) <= 300 + 60 * len(response.hits)


async def test_the_published_keys_verify_the_file_of_a_receipt(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "kettle")

    receipt = await get_receipt(tenant, response.receipt_id)
    read = recall_receipts.read(receipt.document.encode())

    assert read.verify(await published_keys(tenant)) == receipt.statement


async def test_every_flipped_bit_of_a_stored_receipt_is_noticed(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    receipt = await get_receipt(tenant, (await recall_with_receipt(tenant, "kettle", limit=3)).receipt_id)
    keys, chosen = await published_keys(tenant), random.Random(1)
    original = recall_receipts.read(receipt.document.encode())
    fields = {name: getattr(original, name) for name in ("content", "signature", "request")}
    noticed = flipped = 0

    for name, value in fields.items():
        for bit in range(8 * len(value)):
            changed = bytearray(value)
            changed[bit // 8] ^= 1 << bit % 8
            values = {"query": original.query, "key_id": original.key_id, **fields, name: bytes(changed)}
            altered = recall_receipts.SignedReceipt(
                tenant_id=original.tenant_id, receipt_id=original.receipt_id, **values
            )
            flipped += 1
            try:
                altered.verify(keys)
            except recall_receipts.ReceiptInvalid:
                noticed += 1
    assert noticed == flipped

    async with cluster.superuser() as connection:
        for column in ("content", "signature", "request", "query"):
            where = "WHERE tenant_id = $1 AND receipt_id = $2"
            before = await connection.fetchval(
                f"SELECT {column} FROM recall.receipts {where}",  # noqa: S608 - constants.
                tenant.tenant_id,
                original.receipt_id,
            )
            after = bytearray(before.encode() if column == "query" else before)
            bit = chosen.randrange(7) if column == "query" else chosen.randrange(8 * len(after))
            after[bit // 8] ^= 1 << bit % 8
            value = after.decode() if column == "query" else bytes(after)
            for stored in (value, before):
                await connection.execute(
                    f"UPDATE recall.receipts SET {column} = $3 {where}",  # noqa: S608
                    tenant.tenant_id,
                    original.receipt_id,
                    stored,
                )
                if stored is not before:
                    with refused(grpc.StatusCode.DATA_LOSS, "RECEIPT_ALTERED"):
                        await get_receipt(tenant, receipt.receipt_id)
    assert (await get_receipt(tenant, receipt.receipt_id)) == receipt


async def test_a_receipt_of_another_tenant_or_id_is_not_valid(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    receipt = await get_receipt(tenant, (await recall_with_receipt(tenant, "kettle")).receipt_id)
    keys, original = await published_keys(tenant), recall_receipts.read(receipt.document.encode())
    values = {
        name: getattr(original, name)
        for name in ("tenant_id", "receipt_id", "content", "signature", "key_id", "request", "query")
    }

    for name in ("tenant_id", "receipt_id"):
        altered = recall_receipts.SignedReceipt(**{**values, name: uuid.uuid4()})
        try:
            altered.verify(keys)
        except recall_receipts.ReceiptInvalid as error:
            assert error.part == "signature"  # noqa: PT017
        else:
            raise AssertionError(name)


async def test_without_the_policy_there_are_no_receipts(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.remember("The kettle is red.")

    response = await tenant.search("kettle")

    assert response.receipt_id == ""
    async with cluster.superuser() as connection:
        count = await connection.fetchval("SELECT count(*) FROM recall.receipts WHERE tenant_id = $1", tenant.tenant_id)
    assert count == 0


async def test_a_receipt_has_a_digest_of_the_query_unless_the_policy_keeps_texts(
    tenant: Tenant, cluster: Cluster
) -> None:
    await tenant.set_policy(recall_receipts="all")
    response = await recall_with_receipt(tenant, "who hid the violin?")

    receipt = await get_receipt(tenant, response.receipt_id)

    assert receipt.query == ""
    assert len(receipt.statement.query_digest) == recall_receipts.QUERY_DIGEST_BYTES
    assert b"violin" not in receipt.content
    async with cluster.superuser() as connection:
        row = await connection.fetchrow(
            "SELECT request, query FROM recall.receipts WHERE receipt_id = $1", uuid.UUID(response.receipt_id)
        )
    assert row is not None
    assert row["query"] is None
    assert b"violin" not in row["request"]


async def test_callers_see_their_own_receipts_and_auditors_see_all(
    tenant: Tenant, other_tenant: Tenant, cluster: Cluster
) -> None:
    await tenant.set_policy(recall_receipts="all")
    response = await recall_with_receipt(tenant, "kettle")
    request = auth_pb2.CreateApiKeyRequest(display_name="agent", permissions=["recall.read", "memory.read"])
    agent = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)

    with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await get_receipt(agent, response.receipt_id)
    with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await get_receipt(other_tenant, response.receipt_id)
    of_agent = await recall_with_receipt(agent, "kettle")
    assert (await get_receipt(agent, of_agent.receipt_id)).receipt_id == of_agent.receipt_id
    assert (await get_receipt(tenant, of_agent.receipt_id)).receipt_id == of_agent.receipt_id


@pytest.mark.system
async def test_receipts_are_listed_newest_first_by_time_and_in_pages(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    ids = [(await recall_with_receipt(tenant, f"kettle {number}")).receipt_id for number in range(5)]
    receipts = [await get_receipt(tenant, id_) for id_ in ids]

    first = await list_receipts(tenant, page_size=3)
    rest = await list_receipts(tenant, page_size=3, page_token=first.next_page_token)
    middle = await list_receipts(
        tenant, start_time=first.receipts[2].create_time, end_time=first.receipts[0].create_time
    )

    listed = [*first.receipts, *rest.receipts]
    assert [one.receipt_id for one in listed] == ids[::-1]
    assert (len(rest.receipts), rest.next_page_token) == (2, "")
    assert [one.receipt_id for one in middle.receipts] == [ids[3], ids[2]]
    for one, receipt in zip(listed, receipts[::-1], strict=True):
        assert (one.principal, one.query, one.hit_count, one.model, one.formula, one.altered) == (
            receipt.principal,
            receipt.query,
            1,
            receipt.statement.model,
            receipt.statement.formula,
            False,
        )


async def test_callers_list_their_own_receipts_and_auditors_those_of_all(
    tenant: Tenant, other_tenant: Tenant, cluster: Cluster
) -> None:
    await tenant.set_policy(recall_receipts="all")
    own = await get_receipt(tenant, (await recall_with_receipt(tenant, "kettle")).receipt_id)
    request = auth_pb2.CreateApiKeyRequest(display_name="agent", permissions=["recall.read", "memory.read"])
    agent = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)
    of_agent = await get_receipt(agent, (await recall_with_receipt(agent, "kettle")).receipt_id)

    assert await listed_ids(tenant) == [of_agent.receipt_id, own.receipt_id]
    assert await listed_ids(tenant, principal=of_agent.principal) == [of_agent.receipt_id]
    assert await listed_ids(agent) == [of_agent.receipt_id]
    assert await listed_ids(agent, principal=of_agent.principal) == [of_agent.receipt_id]
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await list_receipts(agent, principal=own.principal)
    assert await listed_ids(other_tenant) == []
    assert await listed_ids(other_tenant, principal=own.principal) == []


async def test_an_altered_receipt_is_listed_as_altered(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(recall_receipts="all")
    ids = [(await recall_with_receipt(tenant, "kettle")).receipt_id for _ in range(3)]
    receipts = [await get_receipt(tenant, id_) for id_ in ids]
    request = auth_pb2.CreateApiKeyRequest(display_name="agent", permissions=["recall.read", "memory.read"])
    agent = cluster.with_key((await tenant.auth.CreateApiKey(request)).secret)
    of_agent = await get_receipt(agent, (await recall_with_receipt(agent, "kettle")).receipt_id)

    async with cluster.superuser() as connection:
        update = "UPDATE recall.receipts SET {} WHERE tenant_id = $1 AND receipt_id = $2"
        content = bytearray(receipts[0].content)
        content[-1] ^= 1
        await connection.execute(update.format("content = $3"), tenant.tenant_id, uuid.UUID(ids[0]), bytes(content))
        # Of another principal than it says, so it would show that one's answer.
        await connection.execute(
            update.format("principal = $3"), tenant.tenant_id, uuid.UUID(ids[1]), of_agent.principal
        )
    listed = {one.receipt_id: one.altered for one in (await list_receipts(tenant)).receipts}
    of_principal = {one.receipt_id: one for one in (await list_receipts(agent)).receipts}

    assert listed == {ids[0]: True, ids[1]: False, ids[2]: False, of_agent.receipt_id: False}
    assert {id_: one.altered for id_, one in of_principal.items()} == {ids[1]: True, of_agent.receipt_id: False}
    assert of_principal[ids[1]].model == ""


@pytest.mark.system
async def test_a_receipt_has_its_hits_and_their_signals_by_name(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    for topic in TOPICS:
        await tenant.remember(f"The {topic} belongs to the neighbours of the mill.", tags=[topic])

    for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC):
        response = await recall_with_receipt(tenant, "whose is the kettle?", min_relevance=0, mode=mode)
        receipt = await get_receipt(tenant, response.receipt_id)

        assert [(hit.item_id, hit.kind, hit.revision, hit.score) for hit in receipt.hits] == [
            (hit.item_id, hit.kind, hit.memory.revision, hit.score) for hit in response.hits
        ]
        for hit, shown in zip(receipt.hits, response.hits, strict=True):
            raws = {signal.signal: signal.raw for signal in hit.signals}
            assert raws == pytest.approx({one.signal: one.raw for one in shown.components}, abs=1e-5)


@pytest.mark.system
async def test_the_erasure_of_a_person_erases_the_queries_of_receipts_that_stay_valid(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    subject = subjects_pb2.Subject(subject_id="anna-7", display_name="Anna Berg")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await tenant.remember("Anna keeps the red kettle.", subject_id="anna-7")
    await tenant.remember("The violin is in the attic.")
    requests: dict[str, dict[str, Any]] = {
        "of her memory": {"query": "who keeps the red kettle?"},
        "about her": {"query": "the attic", "filter": memory_pb2.MemoryFilter(subject_id="anna-7")},
        "with her name": {"query": "is Anna Berg in the attic?", "min_relevance": 0.9},
    }
    ids = {name: (await recall_with_receipt(tenant, **fields)).receipt_id for name, fields in requests.items()}
    receipts = {name: await get_receipt(tenant, id_) for name, id_ in ids.items()}
    assert all(receipt.query for receipt in receipts.values())

    # The access log knows which answers had which memories; later calls are cleared half a minute after the erasure.
    await logged_recalls(tenant, len(requests))
    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="anna-7"))

    for name, id_ in ids.items():
        receipt = await get_receipt(tenant, id_)
        assert (receipt.query, receipt.request_erased) == ("", True), name
        assert receipt.statement == receipts[name].statement


@pytest.mark.system
async def test_the_erasure_of_a_person_reaches_answers_that_the_access_log_does_not_know(
    cluster: Cluster, tenant: Tenant
) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    session = session_pb2.Session(session_id="choir", subject_id="anna-7", agent_id="kitchen")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(
        role=session_pb2.MESSAGE_ROLE_USER, content="On Mondays the choir rehearses a requiem."
    )
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="choir", messages=[message]))
    await tenant.remember("The red kettle stands on the stove.", subject_id="anna-7")
    await tenant.remember("The violin is in the attic.")
    queries = {"message": "when are the rehearsals?", "memory": "which kettle?", "other": "where is the violin?"}
    kinds = {"message": pb.ITEM_KIND_MESSAGE, "memory": pb.ITEM_KIND_MEMORY, "other": pb.ITEM_KIND_MEMORY}
    ids = {
        name: (await recall_with_receipt(tenant, query, kinds=[kinds[name]], limit=1)).receipt_id
        for name, query in queries.items()
    }
    search = gateway_pb2.RecallRequest(query=queries["message"], branches=[gateway_pb2.BRANCH_MESSAGES])
    built = await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=search))
    ids["context"] = built.receipt_id
    await get_context_receipt(tenant, built.receipt_id)
    await logged_recalls(tenant, len(ids))
    async with cluster.superuser() as connection:
        await connection.execute("DELETE FROM memory.access_log WHERE tenant_id = $1", tenant.tenant_id)

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="anna-7"))

    receipts = {name: await get_receipt(tenant, id_) for name, id_ in ids.items()}
    assert {name: (receipt.query, receipt.request_erased) for name, receipt in receipts.items()} == {
        "message": ("", True),
        "memory": ("", True),
        "context": ("", True),
        "other": (queries["other"], False),
    }
    assert receipts["context"].context.inputs_erased


async def test_the_time_of_a_receipt_is_between_the_call_and_its_answer(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all")
    await recall_with_receipt(tenant, "kettle")
    start, end = Timestamp(), Timestamp()

    start.GetCurrentTime()
    response = await tenant.search("kettle")
    end.GetCurrentTime()

    receipt = await get_receipt(tenant, response.receipt_id)
    assert start.ToDatetime() <= receipt.create_time.ToDatetime() <= end.ToDatetime()
