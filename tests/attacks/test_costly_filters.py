"""Attack: conditions on text, fifty at a time, over many long memories or messages, with a deadline of minutes.
May be seen: pages that hold less than was asked for, and READ_TOO_COSTLY with what to narrow.
May be spent: 64 MiB of text times conditions for one call, and sixteen seconds' worth of the tenant's rate in a burst.
"""

from __future__ import annotations

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant, refused
from fix_states import superuser
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_kit.admission.scan_budget import MAX_SHARE_OF_CALL, MEBIBYTE
from skein_kit.errors import ReadTooCostly

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
MEMORIES = attack_size(26, 5_000)
# Those that pages are read of: together they cost less than a tenant may scan at once.
MEMORIES_READ = min(MEMORIES, 40)
CHARACTERS = 100_000
CONDITIONS = 50
FIFTY = " OR ".join(f'content:"needle {number}"' for number in range(CONDITIONS))
FORTY_NINE = FIFTY.partition(" OR ")[2]
DEADLINE_SECONDS = 300.0
SHORT_DEADLINE_SECONDS = 0.25
# A few reads that are cut off are all that a tenant may have at once; on a slow machine some do not get as far.
MAX_CUT_OFF_READS = 200
# The most memories of one page: those that fit, and the one that passes the budget.
MAX_PAGE_MEMORIES = MAX_SHARE_OF_CALL // (CHARACTERS * CONDITIONS) + 1


@pytest.fixture
async def full_tenant(cluster: Cluster, tenant: Tenant) -> Tenant:
    """A tenant with long memories; the oldest holds what is looked for."""
    for start in range(0, MEMORIES, 1000):
        batch = [memory_pb2.Memory(content=f"note {number}") for number in range(start, min(start + 1000, MEMORIES))]
        request = memory_pb2.BatchCreateMemoriesRequest(memories=batch, defer_embedding=True)
        await tenant.memory.BatchCreateMemories(request)
    connection = await superuser(cluster)
    try:
        await connection.execute(
            "UPDATE memory.memories SET content = left(repeat(md5(memory_id::text), 3200), $2) WHERE tenant_id = $1",
            tenant.tenant_id,
            CHARACTERS,
        )
        await connection.execute(
            "UPDATE memory.memories SET content = left(content, $2 - 8) || 'NEEDLE 7' WHERE tenant_id = $1"
            " AND memory_id = (SELECT min(memory_id::text)::uuid FROM memory.memories WHERE tenant_id = $1)",
            tenant.tenant_id,
            CHARACTERS,
        )
    finally:
        await connection.close()
    return tenant


def listing(where: str, page_token: str = "", order_by: str = "") -> memory_pb2.ListMemoriesRequest:
    filter_ = memory_pb2.MemoryFilter(where=where)
    return memory_pb2.ListMemoriesRequest(filter=filter_, page_size=100, page_token=page_token, order_by=order_by)


@pytest.mark.parametrize("order_by", ["", "importance desc"])
async def test_a_page_ends_where_its_conditions_have_scanned_enough(full_tenant: Tenant, order_by: str) -> None:
    result, pages, token = 0, 0, ""
    while True:
        page = await full_tenant.memory.ListMemories(listing(FIFTY, token, order_by), timeout=DEADLINE_SECONDS)
        result, pages, token = result + len(page.memories), pages + 1, page.next_page_token
        if not token or pages * MAX_PAGE_MEMORIES >= MEMORIES_READ:
            break

    assert pages >= MEMORIES_READ // MAX_PAGE_MEMORIES
    # Every memory is reached by and by.
    assert token or result == 1


@pytest.mark.system
async def test_a_tenant_that_scans_more_than_its_share_is_refused_and_told_when_to_come_back(
    full_tenant: Tenant, other_tenant: Tenant
) -> None:
    scanned = 0
    refusal: aio.AioRpcError | None = None
    while refusal is None and scanned < 100 * MAX_SHARE_OF_CALL:
        try:
            await full_tenant.memory.ListMemories(listing(FIFTY), timeout=DEADLINE_SECONDS)
        except aio.AioRpcError as error:
            refusal = error
        scanned += MAX_SHARE_OF_CALL - CHARACTERS * CONDITIONS

    assert refusal is not None
    assert (refusal.code(), refusal.details()) == (EXHAUSTED, ReadTooCostly().message)
    # What came back meanwhile is not much: a call takes longer than the budget of a call needs to fill up again.
    assert scanned >= 256 * MEBIBYTE - MAX_SHARE_OF_CALL
    # Conditions that scan nothing long go on, and so do other tenants.
    filter_ = memory_pb2.MemoryFilter(where='type = "none"')
    assert not (await full_tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=filter_))).memories
    assert not (await other_tenant.memory.ListMemories(listing(FIFTY))).memories


@pytest.mark.system
async def test_a_recall_whose_condition_would_scan_too_much_is_refused(full_tenant: Tenant) -> None:
    request = recall_pb2.RecallRequest(
        query="note", mode=recall_pb2.SEARCH_MODE_KEYWORD, filter=memory_pb2.MemoryFilter(where=FIFTY)
    )

    with refused(EXHAUSTED, "READ_TOO_COSTLY"):
        await full_tenant.recall.Recall(request, timeout=DEADLINE_SECONDS)


@pytest.mark.system
async def test_a_recall_whose_condition_would_scan_too_many_messages_is_refused(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    async def recall(of: Tenant, where: str) -> recall_pb2.RecallResponse:
        request = recall_pb2.RecallRequest(
            query="note", mode=recall_pb2.SEARCH_MODE_KEYWORD, filter=memory_pb2.MemoryFilter(where=where)
        )
        return await of.recall.Recall(request, timeout=DEADLINE_SECONDS)

    for start in range(0, MEMORIES, 1000):
        messages = [
            session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"note {number}")
            for number in range(start, min(start + 1000, MEMORIES))
        ]
        await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id="s1", create_session=True, messages=messages, defer_embedding=True
            )
        )
    connection = await superuser(cluster)
    try:
        await connection.execute(
            "UPDATE session.messages SET content = left(repeat(md5(message_id::text), 3200), $2) WHERE tenant_id = $1",
            tenant.tenant_id,
            CHARACTERS,
        )
    finally:
        await connection.close()

    with refused(EXHAUSTED, "READ_TOO_COSTLY"):
        await recall(tenant, FIFTY)
    with refused(EXHAUSTED, "READ_TOO_COSTLY"):
        await recall(tenant, f"type = fact OR {FORTY_NINE}")
    # What excludes all messages scans none of them, and other fields cost nothing.
    assert not (await recall(tenant, f"type = fact AND ({FORTY_NINE})")).hits
    assert (await recall(tenant, "role = user")).hits
    assert not (await recall(other_tenant, FIFTY)).hits


@pytest.mark.system
@pytest.mark.parametrize("order_by", ["", "importance desc"])
async def test_reads_that_are_cut_off_count_as_much_as_those_that_end(
    cluster: Cluster, full_tenant: Tenant, order_by: str
) -> None:
    codes: list[grpc.StatusCode] = []
    connection = await superuser(cluster)
    try:
        async with connection.transaction():
            # No scan can end before its deadline, on a machine of any speed.
            await connection.execute("LOCK TABLE memory.memories IN ACCESS EXCLUSIVE MODE")
            while EXHAUSTED not in codes and len(codes) < MAX_CUT_OFF_READS:
                with pytest.raises(aio.AioRpcError) as caught:
                    await full_tenant.memory.ListMemories(
                        listing(FIFTY, order_by=order_by), timeout=SHORT_DEADLINE_SECONDS
                    )
                codes.append(caught.value.code())
    finally:
        await connection.close()

    assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED, EXHAUSTED}
