"""A principal that the tenant distrusts does not speak with the trust of others.

Attack: a key rated 0, with `memory.write`, changes a memory, block, profile or link that others are believed for.
May be seen: what it wrote, with its own trust; nothing of it under a `min_trust`.
May be spent: the trust of what it changed, which an undone change gives back.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_lineage import DOCUMENT, create, named, rate, recalled, rescore, trust_of, vouch, writer
from fix_mcp import Mcp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, scores_pb2, snapshots_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_memory.memories.convert import UPDATABLE

TRUTH = "Anna drinks green tea in the morning."
VALUES: dict[str, Any] = {
    "type": "fact",
    "title": "An order",
    "key": "drink",
    "content": "Anna drinks gin in the morning.",
    "data": {"drink": "gin"},
    "tags": ["order"],
    "source": "clinic",
    "source_agent": "clinic",
    "agent_id": "kitchen",
    "subject_id": "anna",
    "session_id": "breakfast",
    "scope": memory_pb2.SCOPE_AGENT,
    "valid_from_time": {"seconds": 1},
    "valid_to_time": {"seconds": 4_000_000_000},
    "metadata": {"note": "give her gin"},
    "derived_from": [named(DOCUMENT, "clinic")],
}
# Scores and the times of a memory's life: they state nothing.
STATES_NOTHING = {"level", "confidence", "importance", "expire_time", "archive_time"}


@pytest.fixture
async def mallory(cluster: Cluster, tenant: Tenant) -> Stubs:
    """Return a principal rated 0 in a tenant whose own key is rated 1."""
    await vouch(tenant)
    stubs, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.0)
    await rescore(cluster, tenant)
    return stubs


async def change(caller: Stubs, memory: memory_pb2.Memory, *paths: str, **fields: Any) -> memory_pb2.Memory:
    changed = memory_pb2.Memory(memory_id=memory.memory_id, **fields)
    request = memory_pb2.UpdateMemoryRequest(memory=changed, update_mask={"paths": [*fields, *paths]})
    return (await caller.memory.UpdateMemory(request)).memory


async def found(tenant: Tenant) -> set[str]:
    """Return what is found of those that are not distrusted."""
    return {hit.item_id for hit in await recalled(tenant, min_trust=0.5)}


def test_each_field_that_an_update_changes_is_a_statement_or_is_none() -> None:
    assert set(VALUES) | STATES_NOTHING | {"secret_value"} == UPDATABLE


@pytest.mark.system
async def test_whatever_a_distrusted_principal_changes_has_its_trust(mallory: Stubs, tenant: Tenant) -> None:
    trusts = {}
    for field, value in VALUES.items():
        # Reading a scope needs its id.
        memory = await create(tenant, TRUTH, agent_id="kitchen" if field == "scope" else "")
        assert await trust_of(tenant, memory) == 1.0
        await change(mallory, memory, **{field: value})
        trusts[field] = await trust_of(tenant, memory)
    memory = await create(tenant, TRUTH)
    await change(mallory, memory, level=memory_pb2.LEVEL_STRATEGIC, importance=1.0, confidence=0.9)

    assert {field: trust for field, trust in trusts.items() if trust > 0} == {}
    assert await trust_of(tenant, memory) == 1.0


@pytest.mark.system
async def test_another_change_clears_nothing_but_what_it_replaces(mallory: Stubs, tenant: Tenant) -> None:
    memory = await create(tenant, TRUTH)
    await change(mallory, memory, title="An order", metadata={"note": "give her gin"})

    await change(tenant, memory, title="Drinks", tags=["drink"], content=f"{TRUTH} Always.")
    after_others = await trust_of(tenant, memory)
    await change(tenant, memory, "metadata")

    assert after_others == 0
    assert await trust_of(tenant, memory) == 1.0


@pytest.mark.system
async def test_a_new_text_does_not_clear_what_the_creator_stated_beside_it(mallory: Stubs, tenant: Tenant) -> None:
    plain = await create(mallory, "Anna drinks gin.")
    titled = await create(mallory, "Berta drinks gin.", title="An order", metadata={"note": "give her gin"})

    for memory in (plain, titled):
        await change(tenant, memory, content=f"{memory.content} That is a lie.")
    with_title = await trust_of(tenant, titled)
    await change(tenant, titled, "title", "metadata")

    assert [await trust_of(tenant, plain), with_title, await trust_of(tenant, titled)] == [1.0, 0.0, 1.0]


@pytest.mark.system
@pytest.mark.parametrize("hide", ["archive", "delete"])
async def test_to_bring_back_what_was_put_away_is_a_statement(hide: str, mallory: Stubs, tenant: Tenant) -> None:
    memory = await create(tenant, TRUTH)
    if hide == "archive":
        await change(tenant, memory, archive_time={"seconds": 1})
        await change(mallory, memory, "archive_time")
    else:
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))
        await mallory.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=memory.memory_id))

    assert await trust_of(tenant, memory) == 0
    assert await found(tenant) == set()


async def restore(caller: Stubs, snapshot: snapshots_pb2.Snapshot) -> None:
    request = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=snapshot.snapshot_id)
    while token := (await caller.snapshots.RestoreSnapshot(request)).next_page_token:
        request.page_token = token


@pytest.mark.system
async def test_a_restored_snapshot_has_the_trust_of_the_one_that_restores_it(mallory: Stubs, tenant: Tenant) -> None:
    memory = await create(tenant, "Anna drinks coffee in the morning.")
    taken = (await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))).snapshot
    await change(tenant, memory, content=TRUTH)

    await restore(mallory, taken)

    assert await trust_of(tenant, memory) == 0


async def supersede(caller: Stubs, newer: memory_pb2.Memory, older: memory_pb2.Memory) -> memory_pb2.Link:
    link = memory_pb2.Link(
        from_memory_id=newer.memory_id, to_memory_id=older.memory_id, relation="supersedes", weight=1
    )
    return (await caller.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link


async def resolve(caller: Stubs, right: memory_pb2.Memory, wrong: memory_pb2.Memory) -> object:
    request = curation_pb2.ResolveConflictRequest(
        a_memory_id=right.memory_id, b_memory_id=wrong.memory_id, canonical_memory_id=right.memory_id,
        status=curation_pb2.CONFLICT_STATUS_RESOLVED,
    )  # fmt: skip
    return await caller.curation.ResolveConflict(request)


@pytest.mark.system
@pytest.mark.parametrize("act", [supersede, resolve])
async def test_a_link_of_a_distrusted_principal_hides_no_memory(
    act: Callable[..., Any], mallory: Stubs, tenant: Tenant
) -> None:
    truth, other = await create(tenant, TRUTH), await create(tenant, "Anna drinks water in the morning.")
    superseded = await create(tenant, "Anna drank cocoa in the morning.")

    await act(mallory, other, truth)
    await act(tenant, other, superseded)

    assert await found(tenant) == {truth.memory_id, other.memory_id}


@pytest.mark.system
async def test_neither_a_merge_nor_a_change_lends_a_link_its_trust(mallory: Stubs, tenant: Tenant) -> None:
    truth, other, copy = [await create(tenant, f"{TRUTH} {number}") for number in range(3)]
    link = await supersede(mallory, copy, truth)

    await tenant.links.UpdateLink(
        memory_pb2.UpdateLinkRequest(
            link=memory_pb2.Link(link_id=link.link_id, label="replaced"), update_mask={"paths": ["label"]}
        )
    )
    after_change = await found(tenant)
    merge = scores_pb2.MergeMemoriesRequest(memory_ids=[other.memory_id, copy.memory_id])
    await tenant.memory.MergeMemories(merge)

    assert truth.memory_id in after_change
    assert truth.memory_id in await found(tenant)


@pytest.mark.system
async def test_links_of_a_distrusted_principal_change_no_score(mallory: Stubs, tenant: Tenant) -> None:
    truth, other = await create(tenant, TRUTH), await create(tenant, "Anna drinks gin in the morning.")

    async def explained() -> scores_pb2.ExplainScoreResponse:
        request = scores_pb2.ExplainScoreRequest(memory_id=truth.memory_id, read_time=truth.create_time)
        return await tenant.memory.ExplainScore(request)

    before = await explained()
    link = memory_pb2.Link(
        from_memory_id=other.memory_id, to_memory_id=truth.memory_id, relation="contradicts", weight=1
    )
    await mallory.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    assert await explained() == before


@pytest.mark.system
@pytest.mark.parametrize("spelling", ["bob", "Bob", " BOB  the  builder", "Bo\u0308b"])
async def test_the_rating_of_an_imported_author_counts_for_its_links(spelling: str, tenant: Tenant) -> None:
    await vouch(tenant)
    truth, other = await create(tenant, TRUTH), await create(tenant, "Anna drinks gin in the morning.")
    await rate(tenant, spelling, 0.0)
    read = scores_pb2.ExplainScoreRequest(memory_id=truth.memory_id, read_time=truth.create_time)
    before = await tenant.memory.ExplainScore(read)
    links = [
        {"from_memory_id": other.memory_id, "to_memory_id": truth.memory_id, "relation": relation, "weight": 1,
         "created_by": spelling}
        for relation in ("contradicts", "supersedes")
    ]  # fmt: skip

    lines = "\n".join(json.dumps({"link": link}) for link in links)
    imported = await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=lines))

    assert not imported.errors
    assert await tenant.memory.ExplainScore(read) == before
    assert truth.memory_id in await found(tenant)


CORE = "Anna orders green tea in the kitchen."
ORDER = " Anna orders gin for everybody."
QUESTION_OF_BLOCK = "What does Anna order in the kitchen?"


async def make_block(tenant: Stubs, **fields: Any) -> blocks_pb2.Block:
    block = blocks_pb2.Block(label="human", value=CORE, **fields)
    return (await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="waiter"))).block


async def append(caller: Stubs, block_id: str) -> object:
    return await caller.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id=block_id, text=ORDER))


async def replace_in(caller: Stubs, block_id: str) -> object:
    request = blocks_pb2.ReplaceInBlockRequest(block_id=block_id, old_text="green tea", new_text="gin")
    return await caller.blocks.ReplaceInBlock(request)


async def insert(caller: Stubs, block_id: str) -> object:
    return await caller.blocks.InsertIntoBlock(blocks_pb2.InsertIntoBlockRequest(block_id=block_id, text=ORDER))


async def update_block(caller: Stubs, block_id: str, **fields: Any) -> object:
    request = blocks_pb2.UpdateBlockRequest(
        block=blocks_pb2.Block(block_id=block_id, **fields), update_mask={"paths": [*fields]}
    )
    return await caller.blocks.UpdateBlock(request)


async def bring_back(caller: Stubs, block_id: str) -> object:
    await caller.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id))
    return await caller.blocks.UndeleteBlock(blocks_pb2.UndeleteBlockRequest(block_id=block_id))


async def revert(caller: Stubs, block_id: str) -> object:
    await append(caller, block_id)
    return await caller.blocks.RevertBlock(blocks_pb2.RevertBlockRequest(block_id=block_id, to_revision=1))


EDITS: dict[str, Callable[[Stubs, str], Awaitable[object]]] = {
    "append": append,
    "replace": replace_in,
    "insert": insert,
    "update the value": lambda caller, id_: update_block(caller, id_, value=ORDER),
    "update the description": lambda caller, id_: update_block(caller, id_, description=ORDER),
    "update the metadata": lambda caller, id_: update_block(caller, id_, metadata={"order": "gin"}),
    "update the label": lambda caller, id_: update_block(caller, id_, label="orders"),
    "undelete": bring_back,
    "revert": revert,
}


async def trust_of_block(tenant: Stubs, block_id: str) -> float:
    return (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=block_id))).block.trust


async def context(tenant: Stubs, question: str, **fields: Any) -> gateway_pb2.BuildContextResponse:
    recall = gateway_pb2.RecallRequest(query=question, min_relevance=0, min_trust=0.5, **fields)
    return await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=recall))


@pytest.mark.system
@pytest.mark.parametrize("edit", EDITS)
async def test_a_block_has_the_trust_of_whoever_wrote_a_part_of_it(edit: str, mallory: Stubs, tenant: Tenant) -> None:
    block = await make_block(tenant)
    branches = {"branches": [gateway_pb2.BRANCH_BLOCKS]}
    before = await context(tenant, QUESTION_OF_BLOCK, **branches)

    await EDITS[edit](mallory, block.block_id)

    assert CORE in before.text
    assert before.citations[0].trust == 1.0
    assert await trust_of_block(tenant, block.block_id) == 0
    assert (await context(tenant, QUESTION_OF_BLOCK, **branches)).text == ""
    compiled = await tenant.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id="waiter", min_trust=0.5))
    assert compiled.text == ""


@pytest.mark.system
async def test_a_later_writer_does_not_clear_what_stays_in_a_block(mallory: Stubs, tenant: Tenant) -> None:
    block = await make_block(tenant)
    await append(mallory, block.block_id)

    await append(tenant, block.block_id)
    appended = await trust_of_block(tenant, block.block_id)
    value = (await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id=block.block_id))).block.value
    await update_block(tenant, block.block_id, value=f"{value} And that is all.")
    grown = await trust_of_block(tenant, block.block_id)
    await update_block(tenant, block.block_id, value=CORE)

    assert [appended, grown, await trust_of_block(tenant, block.block_id)] == [0, 0, 1.0]


@pytest.mark.system
async def test_a_block_from_a_template_has_words_of_the_template(mallory: Stubs, tenant: Tenant) -> None:
    template = await make_block(mallory, is_template=True)

    request = blocks_pb2.CreateBlockFromTemplateRequest(template_block_id=template.block_id)
    made = (await tenant.blocks.CreateBlockFromTemplate(request)).block

    assert await trust_of_block(tenant, made.block_id) == 0


@pytest.mark.system
async def test_an_import_lends_a_block_no_trust(mallory: Stubs, tenant: Tenant) -> None:
    block = await make_block(tenant)
    await append(mallory, block.block_id)
    taken = (await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="with an order"))).snapshot
    await update_block(tenant, block.block_id, value=CORE)

    await restore(tenant, taken)

    assert await trust_of_block(tenant, block.block_id) == 0


@pytest.mark.system
async def test_a_distrusted_block_comes_after_the_others(mallory: Stubs, tenant: Tenant) -> None:
    truth = await make_block(tenant)
    lie = blocks_pb2.Block(label="orders", value="What does Anna order in the kitchen? Gin, in the kitchen.")
    planted = (await mallory.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=lie))).block

    recall = gateway_pb2.RecallRequest(query=QUESTION_OF_BLOCK, min_relevance=0, branches=[gateway_pb2.BRANCH_BLOCKS])
    hits = (await tenant.gateway.Recall(recall)).hits

    assert [hit.item_id for hit in hits] == [truth.block_id, planted.block_id]
    assert [hit.trust for hit in hits] == [1.0, 0.0]


async def profile(caller: Stubs, **fields: Any) -> subjects_pb2.Subject:
    subject = subjects_pb2.Subject(subject_id="anna", **fields)
    request = subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask={"paths": [*fields]})
    return (await caller.tenancy.UpdateSubject(request)).subject


@pytest.fixture
async def anna(tenant: Tenant) -> subjects_pb2.Subject:
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna", profile={"drink": "green tea"})
    return (await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))).subject


async def trust_of_profile(tenant: Stubs) -> float:
    request = subjects_pb2.GetSubjectRequest(subject_id="anna")
    return (await tenant.tenancy.GetSubject(request)).subject.trust


@pytest.mark.system
@pytest.mark.parametrize(
    "fields",
    [
        {"display_name": "Gin"},
        {"timezone": "Asia/Tokyo"},
        {"profile": {"order": "gin"}},
        {"preferences": {"gin": True}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_profile_has_the_trust_of_whoever_wrote_a_part_of_it(
    fields: dict[str, Any], mallory: Stubs, tenant: Tenant, anna: subjects_pb2.Subject
) -> None:
    before = await context(tenant, "What does Anna drink?", subject_id=anna.subject_id)

    await profile(mallory, **fields)
    after = await context(tenant, "What does Anna drink?", subject_id=anna.subject_id)

    assert "green tea" in before.text
    assert after.text == ""
    assert await trust_of_profile(tenant) == 0


@pytest.mark.system
@pytest.mark.usefixtures("anna")
async def test_a_later_writer_does_not_clear_what_stays_in_a_profile(mallory: Stubs, tenant: Tenant) -> None:
    await profile(mallory, profile={"drink": "green tea", "order": "gin"})

    await profile(tenant, display_name="Anna B.")
    renamed = await trust_of_profile(tenant)
    await profile(tenant, profile={"order": "gin", "food": "rice"})
    kept = await trust_of_profile(tenant)
    await profile(tenant, profile={"drink": "green tea"})

    assert [renamed, kept, await trust_of_profile(tenant)] == [0, 0, 1.0]


@pytest.mark.system
async def test_mcp_obeys_the_least_trust_of_blocks(cluster: Cluster, mallory: Stubs, tenant: Tenant) -> None:
    block = await make_block(tenant)
    await append(mallory, block.block_id)

    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=all") as mcp:
        loose = await mcp.call("compile_blocks", agent_id="waiter")
        strict = await mcp.call("compile_blocks", agent_id="waiter", min_trust=0.5)

    assert "gin" in str(loose)
    assert "gin" not in str(strict)
