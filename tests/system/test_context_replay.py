"""Replays of contexts: the same text byte for byte, or what of it cannot be had any more."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused, running_cluster, test_environment
from fix_contexts import (
    AGENT,
    PERSON,
    SESSION,
    Household,
    build,
    build_with_receipt,
    context_request,
    is_same,
    random_request,
    replay_context,
    replay_failures,
)
from fix_receipts import get_receipt, published_keys, recall_with_receipt
from fix_world import identity

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import access_log_pb2, blocks_pb2, memory_pb2
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import archives_pb2, session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit import recall_receipts

PURGED, ERASED, ARCHIVED = (
    recall_pb2.REPLAY_GAP_REASON_ITEMS_PURGED,
    recall_pb2.REPLAY_GAP_REASON_REQUEST_ERASED,
    recall_pb2.REPLAY_GAP_REASON_ITEMS_ARCHIVED,
)


async def household_of(tenant: Tenant, seed: int = 1, **policy: Any) -> Household:
    await tenant.set_policy(**{"recall_receipts": "all", "audit_query_text": True, **policy})
    return await Household.fill(tenant, random.Random(seed), memories=20)


def gaps_of(response: pb.ReplayContextResponse) -> dict[int, list[str]]:
    return {gap.reason: list(gap.item_ids) for gap in response.gaps}


async def change_everything(household: Household, chosen: random.Random) -> None:
    """Change every block, the profile, every message and every memory."""
    tenant = household.tenant
    for block_id in household.block_ids:
        block = blocks_pb2.Block(block_id=block_id, value="Another value.", label=f"new-{block_id}")
        request = blocks_pb2.UpdateBlockRequest(block=block, update_mask={"paths": ["value", "label"]})
        await tenant.blocks.UpdateBlock(request)
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=household.block_ids[0]))
    await household.change_profile(chosen)
    for message_id in household.message_ids:
        message = session_pb2.Message(message_id=message_id, content="Another text.", name="Bea")
        await tenant.sessions.UpdateMessage(
            session_pb2.UpdateMessageRequest(message=message, update_mask={"paths": ["content", "name"]})
        )
        await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message_id))
    for memory_id in household.memory_ids[::2]:
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
    await household.append(chosen, count=3)


async def test_contexts_of_every_format_replay_byte_for_byte_after_everything_changed(tenant: Tenant) -> None:
    household, chosen = await household_of(tenant), random.Random(2)
    requests = [
        context_request("whose is the kettle of the garden?", format=format_, order=order, token_budget=budget)
        for format_ in (pb.CONTEXT_FORMAT_MARKDOWN, pb.CONTEXT_FORMAT_TEXT)
        for order in (pb.CONTEXT_ORDER_OLDEST_FIRST, pb.CONTEXT_ORDER_NEWEST_FIRST)
        for budget in (150, 3000)
    ]
    await build_with_receipt(tenant, requests[0])
    responses = [await build(tenant, request) for request in requests]
    kinds = {citation.kind for response in responses for citation in response.citations}

    await change_everything(household, chosen)

    assert kinds == {
        recall_pb2.ITEM_KIND_BLOCK,
        recall_pb2.ITEM_KIND_PROFILE,
        recall_pb2.ITEM_KIND_MEMORY,
        recall_pb2.ITEM_KIND_MESSAGE,
    }
    assert len({response.text for response in responses}) == len(responses)
    assert await replay_failures(tenant, responses, requests) == []
    now = await build(tenant, requests[1])
    assert now.text != responses[1].text


@pytest.mark.essential
async def test_random_contexts_during_writes_replay(tenant: Tenant) -> None:
    household, chosen, stop = await household_of(tenant), random.Random(3), asyncio.Event()
    await build_with_receipt(tenant, random_request(chosen))
    writers = [asyncio.create_task(household.write_until(stop, seed)) for seed in range(3)]
    requests = [random_request(chosen) for _ in range(40)]

    responses = [await build(tenant, request) for request in requests]
    stop.set()
    writes = await asyncio.gather(*writers)

    assert all(writes)
    assert await replay_failures(tenant, responses, requests) == []


async def test_a_context_as_of_a_time_replays(tenant: Tenant) -> None:
    household, chosen = await household_of(tenant), random.Random(4)
    request = context_request("whose is the kettle?")
    past = (await build_with_receipt(tenant, request)).text
    request.recall.as_of_time.GetCurrentTime()
    await change_everything(household, chosen)
    response = await build(tenant, request)
    for _ in range(10):
        await household.write(chosen)

    replayed = await replay_context(tenant, response.receipt_id)

    assert response.text == past
    assert is_same(response, replayed), replayed


async def test_contexts_replay_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restarted")
    request = context_request("whose is the violin?")
    async with running_cluster(folder, test_environment()) as first:
        tenant = await first.new_tenant()
        household = await household_of(tenant)
        await build_with_receipt(tenant, request)
        # Stored when the services end.
        response = await build(tenant, request)
        await household.change_block(random.Random(5))

    async with running_cluster(folder, test_environment()) as second:
        replayed = await replay_context(second.with_key(tenant.api_key), response.receipt_id)

    assert is_same(response, replayed), replayed


async def test_a_context_with_the_digest_of_its_query_replays_with_the_text(tenant: Tenant) -> None:
    await household_of(tenant, audit_query_text=False)
    response = await build_with_receipt(tenant, context_request("whose is the kettle?"))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "QUERY_TEXT_NEEDED"):
        await replay_context(tenant, response.receipt_id)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_TEXT_MISMATCH"):
        await replay_context(tenant, response.receipt_id, query="whose is the violin?")
    replayed = await replay_context(tenant, response.receipt_id, query="whose is the kettle?")

    assert is_same(response, replayed), replayed


async def test_the_receipt_shows_what_a_text_was_packed_from(tenant: Tenant) -> None:
    household = await household_of(tenant)
    response = await build_with_receipt(
        tenant, context_request("the kettle", token_budget=700, format=pb.CONTEXT_FORMAT_TEXT)
    )
    await replay_context(tenant, response.receipt_id)

    context = (await get_receipt(tenant, response.receipt_id)).context

    inputs = context.inputs
    assert (inputs.token_budget, inputs.plain_text, inputs.newest_first) == (700, True, False)
    assert (inputs.session_id, inputs.subject_id) == (SESSION, PERSON)
    assert {(pin.item_id, pin.revision) for pin in inputs.blocks} <= {(id_, 1) for id_ in household.block_ids}
    assert (inputs.profile.item_id, inputs.profile.revision) == (PERSON, 1)
    assert [str(uuid.UUID(bytes=inputs.message_ids[start : start + 16])) for start in (0, 16)] == (
        household.message_ids[-len(inputs.message_revisions) :][:2]
    )
    assert context.statement.token_count == response.token_count
    assert len(context.content) < 120


async def test_what_was_purged_of_a_context_is_named_and_the_rest_is_packed(tenant: Tenant) -> None:
    household = await household_of(tenant)
    response = await build_with_receipt(tenant, context_request("the kettle of the garden", token_budget=20_000))
    cited = {citation.item_id for citation in response.citations}
    block_id = next(id_ for id_ in household.block_ids if id_ in cited)
    message_id = household.message_ids[-1]
    await replay_context(tenant, response.receipt_id)

    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id))
    await tenant.blocks.PurgeBlock(blocks_pb2.PurgeBlockRequest(block_id=block_id))
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message_id]))
    # Another block with the id of the purged one is not the one of the text.
    block = blocks_pb2.Block(block_id=block_id, label="other", value="The kettle of the garden is new.")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id=AGENT))
    replayed = await replay_context(tenant, response.receipt_id)

    missing = {id_ for gap in replayed.gaps if gap.reason == PURGED for id_ in gap.item_ids}
    assert missing == {block_id, message_id}
    assert not replayed.identical
    assert {citation.item_id for citation in replayed.citations} >= cited - missing
    assert "The kettle of the garden is new." not in replayed.text


async def test_the_erasure_of_a_person_takes_the_inputs_and_leaves_a_valid_receipt(tenant: Tenant) -> None:
    await household_of(tenant)
    requests: dict[str, pb.BuildContextRequest] = {
        "profile and blocks": context_request("the kettle"),
        "window": pb.BuildContextRequest(recall=pb.RecallRequest(query="the garden"), session_id="of-anna"),
    }
    session = session_pb2.Session(session_id="of-anna", subject_id=PERSON)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I keep the violin.")
    await tenant.gateway.Remember(pb.RememberRequest(session_id="of-anna", messages=[message]))
    receipts = {name: (await build_with_receipt(tenant, request)).receipt_id for name, request in requests.items()}
    before = {}
    for name, receipt_id in receipts.items():
        await replay_context(tenant, receipt_id)
        before[name] = await get_receipt(tenant, receipt_id)
    await logged_calls(tenant, "GetRecentWindow", len(requests))

    await tenant.gateway.Forget(pb.ForgetRequest(subject_id=PERSON))

    for name, receipt_id in receipts.items():
        after = await get_receipt(tenant, receipt_id)
        assert not before[name].context.inputs_erased
        assert after.context.inputs_erased, name
        assert not after.context.HasField("inputs")
        assert after.context.statement == before[name].context.statement
        recall_receipts.read(after.document.encode()).verify(await published_keys(tenant))
        replayed = await replay_context(tenant, receipt_id)
        assert ERASED in gaps_of(replayed)
        assert (replayed.identical, replayed.text) == (False, "")


async def logged_calls(tenant: Tenant, method: str, count: int) -> None:
    request = access_log_pb2.ListAccessLogRequest(page_size=1000)
    while True:
        events = (await tenant.history.ListAccessLog(request)).access_events
        if sum(event.method == method for event in events) >= count:
            return
        await asyncio.sleep(0.05)


async def test_every_flipped_bit_of_a_context_is_noticed(tenant: Tenant, cluster: Cluster) -> None:
    await household_of(tenant)
    response = await build_with_receipt(tenant, context_request("the kettle", token_budget=200))
    await replay_context(tenant, response.receipt_id)
    receipt = await get_receipt(tenant, response.receipt_id)
    keys, original = await published_keys(tenant), recall_receipts.read(receipt.document.encode())
    assert original.context is not None
    fields: dict[str, Any] = {
        name: getattr(original.context, name) for name in ("content", "signature", "salted_inputs")
    }
    noticed = flipped = 0

    for name, value in fields.items():
        for bit in range(8 * len(value)):
            values = {"key_id": original.context.key_id, **fields, name: flip(value, bit)}
            flipped += 1
            try:
                recall_receipts.SignedContext(**values).verify(keys, original.tenant_id, original.receipt_id)
            except recall_receipts.ReceiptInvalid:
                noticed += 1
    assert noticed == flipped > 1000

    where = "WHERE tenant_id = $1 AND receipt_id = $2 AND is_context"
    async with cluster.superuser() as connection:
        for column, name in (("content", "content"), ("signature", "signature"), ("request", "salted_inputs")):
            for value in (flip(fields[name], 77), fields[name]):
                await connection.execute(
                    f"UPDATE recall.receipts SET {column} = $3 {where}",  # noqa: S608 - constants.
                    tenant.tenant_id,
                    original.receipt_id,
                    value,
                )
                if value != fields[name]:
                    for call in (get_receipt, replay_context):
                        with refused(grpc.StatusCode.DATA_LOSS, "RECEIPT_ALTERED"):
                            await call(tenant, response.receipt_id)
    assert await get_receipt(tenant, response.receipt_id) == receipt


def flip(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


async def test_a_context_belongs_to_its_receipt(tenant: Tenant) -> None:
    await household_of(tenant)
    files = []
    for topic in ("kettle", "violin"):
        response = await build_with_receipt(tenant, context_request(f"the {topic}"))
        await replay_context(tenant, response.receipt_id)
        files.append(recall_receipts.read((await get_receipt(tenant, response.receipt_id)).document.encode()))
    keys, (one, other) = await published_keys(tenant), files
    assert other.context is not None
    one.verify(keys)

    with pytest.raises(recall_receipts.ReceiptInvalid):
        other.context.verify(keys, one.tenant_id, one.receipt_id)
    # Nor is a signed context the content of a receipt.
    with pytest.raises(recall_receipts.ReceiptInvalid):
        recall_receipts.SignedReceipt(
            tenant_id=other.tenant_id,
            receipt_id=other.receipt_id,
            content=other.context.content,
            key_id=other.context.key_id,
            signature=other.context.signature,
            request=None,
            query=None,
        ).verify(keys)


async def test_callers_replay_their_own_contexts_and_auditors_all(
    tenant: Tenant, other_tenant: Tenant, cluster: Cluster
) -> None:
    await household_of(tenant)
    request = context_request("the kettle")
    response = await build_with_receipt(tenant, request)

    async def caller(*permissions: str) -> Any:
        key = auth_pb2.CreateApiKeyRequest(display_name="agent", permissions=list(permissions))
        return cluster.with_key((await tenant.auth.CreateApiKey(key)).secret)

    reads = ("recall.read", "memory.read", "session.read", "subject.read")
    agent, auditor = await caller(*reads), await caller(*reads, "audit.read")
    for each in (agent, other_tenant):
        with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
            await replay_context(each, response.receipt_id)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await replay_context(await caller("recall.read", "audit.read"), response.receipt_id)
    of_agent = await build_with_receipt(agent, request)

    assert is_same(of_agent, await replay_context(agent, of_agent.receipt_id))
    assert is_same(response, await replay_context(auditor, response.receipt_id))


async def test_the_receipt_of_a_recall_has_no_context(tenant: Tenant) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "kettle")

    assert not (await get_receipt(tenant, response.receipt_id)).HasField("context")
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "RECEIPT_WITHOUT_CONTEXT"):
        await replay_context(tenant, response.receipt_id)


async def test_a_text_of_another_packer_names_the_version(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await tenant.remember("The kettle is red.")
    response = await recall_with_receipt(tenant, "kettle", min_relevance=0)
    token = await identity(cluster, tenant.api_key, str(tenant.tenant_id))
    # The first one is kept, and a repeat changes nothing.
    for packer in ("context-0", "context-9"):
        statement = recall_pb2.ContextStatement(packer=packer, text_digest=bytes(32))
        record = recall_pb2.ContextRecord(
            receipt_id=response.receipt_id,
            statement=statement,
            salt=bytes(16),
            inputs=recall_pb2.ContextInputs(token_budget=100, hit_count=1),
        )
        async with cluster.direct("recall") as channel:
            stub = recall_pb2_grpc.RecallInternalServiceStub(channel)
            await stub.RecordContexts(
                recall_pb2.RecordContextsRequest(records=[record]), metadata=(("authorization", f"Bearer {token}"),)
            )
        replayed = await replay_context(tenant, response.receipt_id)

        gaps = {gap.reason: gap.name for gap in replayed.gaps}
        assert gaps == {recall_pb2.REPLAY_GAP_REASON_PACKER_CHANGED: "context-0"}
        assert not replayed.identical
        assert "The kettle is red." in replayed.text


async def test_messages_in_cold_storage_are_named(tenant: Tenant) -> None:
    household = await household_of(tenant)
    response = await build_with_receipt(tenant, context_request("the kettle"))
    await replay_context(tenant, response.receipt_id)
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id=SESSION))
    await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id=SESSION))

    replayed = await replay_context(tenant, response.receipt_id)
    await tenant.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id=SESSION))
    again = await replay_context(tenant, response.receipt_id)

    archived = gaps_of(replayed)[ARCHIVED]
    assert archived == household.message_ids[-len(archived) :]
    assert not replayed.identical
    assert is_same(response, again), again


async def test_each_revision_can_be_read(tenant: Tenant) -> None:
    household, chosen = await household_of(tenant), random.Random(6)
    block_id, message_id = household.block_ids[0], household.message_ids[0]
    block = (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=block_id))).block
    message = (await tenant.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message_id))).message
    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id=PERSON))).subject

    await change_everything(household, chosen)
    await tenant.tenancy.DeleteSubject(subjects_pb2.DeleteSubjectRequest(subject_id=PERSON))

    of_block = blocks_pb2.GetBlockRequest(block_id=block_id, revision=1)
    assert (await tenant.blocks.GetBlock(of_block)).block == block
    of_message = session_pb2.GetMessageRequest(message_id=message_id, revision=1)
    assert (await tenant.sessions.GetMessage(of_message)).message == message
    of_subject = subjects_pb2.GetSubjectRequest(subject_id=PERSON, revision=1)
    assert (await tenant.tenancy.GetSubject(of_subject)).subject == subject
    of_message.revision = of_block.revision = of_subject.revision = 99
    with refused(grpc.StatusCode.NOT_FOUND, "BLOCK_REVISION_NOT_FOUND"):
        await tenant.blocks.GetBlock(of_block)
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await tenant.sessions.GetMessage(of_message)
    with refused(grpc.StatusCode.NOT_FOUND, "SUBJECT_NOT_FOUND"):
        await tenant.tenancy.GetSubject(of_subject)
