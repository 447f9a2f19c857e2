from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.memory.v1 import blocks_pb2 as pb

NOT_FOUND = grpc.StatusCode.NOT_FOUND
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXISTS = grpc.StatusCode.ALREADY_EXISTS
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION


async def attach(tenant: Tenant, block_id: str, agent_id: str) -> None:
    await tenant.blocks.AttachBlock(pb.AttachBlockRequest(block_id=block_id, agent_id=agent_id))


async def prompt(tenant: Tenant, agent_id: str, **fields: Any) -> pb.CompileBlocksResponse:
    return await tenant.blocks.CompileBlocks(pb.CompileBlocksRequest(agent_id=agent_id, **fields))


async def revisions(tenant: Tenant, block_id: str) -> list[pb.BlockRevision]:
    request = pb.ListBlockRevisionsRequest(block_id=block_id, page_size=2)
    results: list[pb.BlockRevision] = []
    while True:
        page = await tenant.blocks.ListBlockRevisions(request)
        results += page.revisions
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


async def test_a_block_comes_back_as_it_was_given(tenant: Tenant) -> None:
    metadata = Struct()
    metadata.update({"why": ["because", 1]})
    fields: dict[str, Any] = {
        "description": "who they are",
        "subject_id": "anna",
        "template_name": "t",
        "read_only": True,
    }

    made = await tenant.create_block("human", " likes tea\n", block_id="mine", limit=11, metadata=metadata, **fields)

    assert (made.block_id, made.label, made.value, made.limit, made.metadata) == (
        "mine", "human", " likes tea\n", 11, metadata,
    )  # fmt: skip
    assert {name: getattr(made, name) for name in fields} == fields
    assert (made.revision, made.character_count, made.nearly_full) == (1, 11, True)
    assert made.created_by == made.updated_by
    assert await tenant.get_block("mine") == made


@pytest.mark.parametrize("label", ["persona", "human", "system", "diary"])
async def test_a_block_of_any_label_holds_2000_characters_unless_it_says_otherwise(tenant: Tenant, label: str) -> None:
    limit = 2000
    full = await tenant.create_block(label, "ü" * limit)

    assert (full.limit, full.nearly_full) == (limit, True)
    with refused(INVALID, "BLOCK_TOO_LONG"):
        await tenant.create_block(label, "ü" * (limit + 1))
    with refused(INVALID, "BLOCK_TOO_LONG"):
        await tenant.append_to_block(full.block_id, "x")
    with refused(INVALID, "BLOCK_TOO_LONG"):
        await tenant.update_block(full.block_id, limit=limit - 1)
    assert (await tenant.create_block(label, "x" * 100_000, limit=100_000)).character_count == 100_000
    assert not (await tenant.update_block(full.block_id, limit=limit * 2)).nearly_full


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"label": ""}, "INVALID_FIELD"),
        ({"label": " human"}, "INVALID_FIELD"),
        ({"label": "a\nb"}, "INVALID_FIELD"),
        ({"label": "x" * 51}, "INVALID_FIELD"),
        ({"limit": 100_001}, "INVALID_FIELD"),
        ({"limit": -1}, "INVALID_FIELD"),
        ({"block_id": "x" * 256}, "INVALID_FIELD"),
        ({"block_id": "\0"}, "TEXT_NOT_STORABLE"),
        ({"value": "\0"}, "TEXT_NOT_STORABLE"),
    ],
)
async def test_a_block_obeys_its_rules(tenant: Tenant, fields: dict[str, Any], reason: str) -> None:
    with refused(INVALID, reason):
        await tenant.create_block(**fields)


async def test_an_id_is_taken_once_even_by_a_deleted_block(tenant: Tenant, other_tenant: Tenant) -> None:
    await tenant.create_block(block_id="b")
    await tenant.blocks.DeleteBlock(pb.DeleteBlockRequest(block_id="b"))

    with refused(EXISTS, "BLOCK_EXISTS"):
        await tenant.create_block(block_id="b")

    assert (await other_tenant.create_block(block_id="b")).block_id == "b"


async def test_appended_text_is_joined_by_a_newline(tenant: Tenant) -> None:
    made = await tenant.create_block()

    await tenant.append_to_block(made.block_id, "likes tea")
    changed = await tenant.append_to_block(made.block_id, "from Graz")

    assert (changed.value, changed.revision) == ("likes tea\nfrom Graz", 3)
    assert await tenant.get_block(made.block_id) == changed


@pytest.mark.system
async def test_all_of_many_appends_at_once_arrive(tenant: Tenant) -> None:
    made = await tenant.create_block()

    await asyncio.gather(*(tenant.append_to_block(made.block_id, f"line {n}") for n in range(12)))

    assert sorted((await tenant.get_block(made.block_id)).value.split("\n")) == sorted(f"line {n}" for n in range(12))
    assert len(await revisions(tenant, made.block_id)) == 12


async def test_text_is_replaced_where_it_occurs_exactly_once(tenant: Tenant) -> None:
    made = await tenant.create_block(value="tea, then coffee, then tea")

    async def replace(old: str, new: str) -> pb.Block:
        request = pb.ReplaceInBlockRequest(block_id=made.block_id, old_text=old, new_text=new)
        return (await tenant.blocks.ReplaceInBlock(request)).block

    for old in ("tea", "water"):
        with refused(PRECONDITION, "BLOCK_TEXT_NOT_UNIQUE"):
            await replace(old, "x")
    assert (await replace("then coffee, ", "")).value == "tea, then tea"


async def test_text_is_put_between_lines(tenant: Tenant) -> None:
    made = await tenant.create_block(value="a\nb")

    async def insert(text: str, **fields: Any) -> pb.Block:
        request = pb.InsertIntoBlockRequest(block_id=made.block_id, text=text, **fields)
        return (await tenant.blocks.InsertIntoBlock(request)).block

    await insert("0", line=0)
    await insert("end")
    assert (await insert("1", line=2)).value == "0\na\n1\nb\nend"
    with refused(INVALID, "BLOCK_LINE_MISSING"):
        await insert("x", line=6)


async def test_a_read_only_block_is_written_only_after_it_is_made_writable(tenant: Tenant) -> None:
    made = await tenant.create_block(value="tea", read_only=True)

    with refused(PRECONDITION, "BLOCK_READ_ONLY"):
        await tenant.append_to_block(made.block_id, "x")
    with refused(PRECONDITION, "BLOCK_READ_ONLY"):
        await tenant.blocks.ReplaceInBlock(
            pb.ReplaceInBlockRequest(block_id=made.block_id, old_text="tea", new_text="x")
        )
    with refused(PRECONDITION, "BLOCK_READ_ONLY"):
        await tenant.blocks.InsertIntoBlock(pb.InsertIntoBlockRequest(block_id=made.block_id, text="x"))
    with refused(PRECONDITION, "BLOCK_READ_ONLY"):
        await tenant.update_block(made.block_id, value="x")
    assert (await tenant.update_block(made.block_id, description="d")).value == "tea"
    with refused(PRECONDITION, "BLOCK_READ_ONLY"):
        await tenant.blocks.RevertBlock(pb.RevertBlockRequest(block_id=made.block_id, to_revision=1))
    opened = await tenant.update_block(made.block_id, value="x", read_only=False)
    assert (opened.value, opened.read_only) == ("x", False)


async def test_a_deleted_block_is_hidden_and_comes_back_with_its_agents(tenant: Tenant) -> None:
    made = await tenant.create_block(value="tea", agent_id="a")
    blocks = tenant.blocks

    await blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=made.block_id))

    for call in (
        blocks.GetBlock(pb.GetBlockRequest(block_id=made.block_id)),
        blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=made.block_id)),
        blocks.AppendToBlock(pb.AppendToBlockRequest(block_id=made.block_id, text="x")),
        blocks.AttachBlock(pb.AttachBlockRequest(block_id=made.block_id, agent_id="b")),
        blocks.ListBlockAgents(pb.ListBlockAgentsRequest(block_id=made.block_id)),
    ):
        with refused(NOT_FOUND, "BLOCK_NOT_FOUND"):
            await call
    assert (await prompt(tenant, "a")).text == ""
    assert not (await blocks.ListBlocks(pb.ListBlocksRequest())).blocks
    assert not (await blocks.ListAgentBlocks(pb.ListAgentBlocksRequest(agent_id="a"))).blocks
    shown = await blocks.ListBlocks(pb.ListBlocksRequest(show_deleted=True))
    assert [block.HasField("delete_time") for block in shown.blocks] == [True]
    restored = (await blocks.UndeleteBlock(pb.UndeleteBlockRequest(block_id=made.block_id))).block
    assert (restored.value, restored.revision) == ("tea", 3)
    assert (await blocks.UndeleteBlock(pb.UndeleteBlockRequest(block_id=made.block_id))).block == restored
    assert list((await prompt(tenant, "a")).block_ids) == [made.block_id]


async def test_an_agent_has_one_block_with_a_label_for_each_person_and_one_without_a_person(tenant: Tenant) -> None:
    first = await tenant.create_block("human", "somebody", agent_id="a")
    second = await tenant.create_block("human", "Anna", subject_id="anna", agent_id="a")

    for subject_id in ("", "anna"):
        other = await tenant.create_block("human", subject_id=subject_id)
        with refused(EXISTS, "BLOCK_LABEL_TAKEN"):
            await attach(tenant, other.block_id, "a")
        with refused(EXISTS, "BLOCK_LABEL_TAKEN"):
            await tenant.create_block("human", subject_id=subject_id, agent_id="a")
    with refused(EXISTS, "BLOCK_LABEL_TAKEN"):
        await tenant.update_block(second.block_id, subject_id="")
    await attach(tenant, first.block_id, "a")
    await tenant.blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=first.block_id))
    heir = await tenant.create_block("human", "heir", agent_id="a")
    await tenant.blocks.UndeleteBlock(pb.UndeleteBlockRequest(block_id=first.block_id))
    assert list((await prompt(tenant, "a")).block_ids) == [heir.block_id]


async def test_a_new_label_counts_wherever_the_block_is_attached(tenant: Tenant) -> None:
    made = await tenant.create_block("human", "x", agent_id="a")
    gone = await tenant.create_block("diary", "y", agent_id="a")
    await tenant.blocks.DeleteBlock(pb.DeleteBlockRequest(block_id=gone.block_id))

    await tenant.update_block(made.block_id, label="diary")

    assert 'label="diary"' in (await prompt(tenant, "a")).text
    assert (await tenant.create_block("human", "z", agent_id="a")).label == "human"
    with refused(EXISTS, "BLOCK_LABEL_TAKEN"):
        await tenant.update_block(made.block_id, label="human")


async def test_one_block_is_shared_by_several_agents(tenant: Tenant) -> None:
    made = await tenant.create_block("persona", "I am Ada", agent_id="a1")
    for agent_id in ("a2", "a3"):
        await attach(tenant, made.block_id, agent_id)

    await tenant.append_to_block(made.block_id, "and kind")

    for agent_id in ("a1", "a2", "a3"):
        assert "| I am Ada\n| and kind" in (await prompt(tenant, agent_id)).text
    request = pb.ListBlockAgentsRequest(block_id=made.block_id, page_size=2)
    page = await tenant.blocks.ListBlockAgents(request)
    request.page_token = page.next_page_token
    response = await tenant.blocks.ListBlockAgents(request)
    assert [agent.agent_id for agent in (*page.agents, *response.agents)] == ["a1", "a2", "a3"]
    await tenant.blocks.DetachBlock(pb.DetachBlockRequest(block_id=made.block_id, agent_id="a2"))
    assert (await prompt(tenant, "a2")).text == ""
    with refused(NOT_FOUND, "BLOCK_NOT_ATTACHED"):
        await tenant.blocks.DetachBlock(pb.DetachBlockRequest(block_id=made.block_id, agent_id="a2"))


async def test_no_two_people_agents_or_tenants_share_a_block_unasked(tenant: Tenant, other_tenant: Tenant) -> None:
    await tenant.create_block("human", "Anna likes tea", subject_id="anna", agent_id="a")
    await tenant.create_block("human", "Ben likes coffee", subject_id="ben", agent_id="a")
    await tenant.create_block("human", "a stranger", agent_id="a")
    await tenant.create_block("persona", "I am Ada", agent_id="a")
    await other_tenant.create_block("human", "of another tenant", subject_id="anna", agent_id="a")

    anna, ben, general = [(await prompt(tenant, "a", subject_id=subject_id)).text for subject_id in ("anna", "ben", "")]
    elsewhere = (await prompt(other_tenant, "a", subject_id="anna")).text

    assert ("tea" in anna, "coffee" in anna, "stranger" in anna, "Ada" in anna) == (True, False, False, True)
    assert ("tea" in ben, "coffee" in ben, "stranger" in ben, "Ada" in ben) == (False, True, False, True)
    assert ("tea" in general, "coffee" in general, "stranger" in general) == (False, False, True)
    assert "of another tenant" in elsewhere
    assert not any(word in elsewhere for word in ("tea", "coffee", "Ada"))
    assert (await prompt(tenant, "b", subject_id="anna")).text == ""
    listed = await tenant.blocks.ListAgentBlocks(pb.ListAgentBlocksRequest(agent_id="a", subject_id="ben"))
    assert sorted(block.value for block in listed.blocks) == ["Ben likes coffee", "I am Ada", "a stranger"]
    alone = await tenant.blocks.ListAgentBlocks(pb.ListAgentBlocksRequest(agent_id="a", hide_other_subjects=True))
    assert sorted(block.value for block in alone.blocks) == ["I am Ada", "a stranger"]


async def test_a_template_makes_blocks(tenant: Tenant) -> None:
    template = await tenant.create_block(
        "human", "{{name}} lives in {{ city }}", is_template=True, template_name="person"
    )

    async def made(variables: dict[str, str], **fields: Any) -> pb.Block:
        request = pb.CreateBlockFromTemplateRequest(template_block_id=template.block_id, variables=variables, **fields)
        return (await tenant.blocks.CreateBlockFromTemplate(request)).block

    anna = await made({"name": "Anna", "city": "Graz"}, block=pb.Block(subject_id="anna"), agent_id="a")

    assert (anna.value, anna.label, anna.is_template) == ("Anna lives in Graz", "human", False)
    assert (anna.template_name, anna.subject_id, anna.revision) == ("person", "anna", 1)
    assert "Anna lives in Graz" in (await prompt(tenant, "a", subject_id="anna")).text
    with refused(INVALID, "BLOCK_VARIABLE_MISSING"):
        await made({"name": "Anna"})
    with refused(INVALID, "INVALID_FIELD"):
        await made({"name": "Anna", "city": "Graz", "street": "x"})
    with refused(INVALID, "INVALID_FIELD"):
        await made({"name": "Anna", "city": "Graz"}, block=pb.Block(value="x"))
    with refused(INVALID, "BLOCK_TOO_LONG"):
        await made({"name": "Anna" * 500, "city": "Graz"})
    with refused(NOT_FOUND, "BLOCK_TEMPLATE_NOT_FOUND"):
        await tenant.blocks.CreateBlockFromTemplate(pb.CreateBlockFromTemplateRequest(template_block_id=anna.block_id))
    listed = await tenant.blocks.ListBlocks(pb.ListBlocksRequest(template_name="person", is_template=True))
    assert [block.block_id for block in listed.blocks] == [template.block_id]


async def test_a_prompt_is_compiled_in_order_with_variables(tenant: Tenant) -> None:
    diary = await tenant.create_block("diary", "x" * 18, limit=20, agent_id="a")
    human = await tenant.create_block("human", "{{today}}", is_template=True, agent_id="a")
    system = await tenant.create_block("system", "be kind", agent_id="a")

    compiled = await prompt(tenant, "a", variables={"today": "Monday", "unused": "x"})

    assert list(compiled.block_ids) == [system.block_id, human.block_id, diary.block_id]
    assert list(compiled.nearly_full_block_ids) == [diary.block_id]
    assert compiled.text.index("be kind") < compiled.text.index("Monday") < compiled.text.index("x" * 18)
    assert compiled.character_count == len(compiled.text)
    assert await prompt(tenant, "a", variables={"today": "Monday"}) == compiled
    assert list((await prompt(tenant, "a", labels=["diary", "none"])).block_ids) == [diary.block_id]
    with refused(INVALID, "BLOCK_VARIABLE_MISSING"):
        await prompt(tenant, "a")


async def test_a_prompt_that_no_answer_can_hold_is_refused(tenant: Tenant) -> None:
    for n in range(11):
        await tenant.create_block(f"part {n}", "語" * 100_000, limit=100_000, agent_id="a")

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"):
        await prompt(tenant, "a")

    request = pb.ListAgentBlocksRequest(agent_id="a")
    page = await tenant.blocks.ListAgentBlocks(request)
    request.page_token = page.next_page_token
    response = await tenant.blocks.ListAgentBlocks(request)
    assert len({block.block_id for block in (*page.blocks, *response.blocks)}) == 11


@pytest.mark.system
async def test_an_agent_carries_so_many_blocks_and_no_more(tenant: Tenant) -> None:
    await asyncio.gather(*(tenant.create_block(f"l{n}", agent_id="a") for n in range(100)))

    with refused(PRECONDITION, "AGENT_BLOCKS_FULL"):
        await tenant.create_block("one more", agent_id="a")

    assert (await tenant.create_block("one more", subject_id="anna", agent_id="a")).subject_id == "anna"


async def test_every_change_can_be_undone(tenant: Tenant) -> None:
    made = await tenant.create_block("human", "one")
    await tenant.append_to_block(made.block_id, "two")
    changed = await tenant.update_block(made.block_id, value="three", description="d", limit=50)

    former = await revisions(tenant, made.block_id)
    reverted = await tenant.blocks.RevertBlock(pb.RevertBlockRequest(block_id=made.block_id, to_revision=2))

    assert [(one.block.revision, one.block.value) for one in former] == [(2, "one\ntwo"), (1, "one")]
    assert former[1].block == made
    assert former[0].until_time == changed.update_time
    assert (reverted.block.value, reverted.block.description, reverted.block.limit) == ("one\ntwo", "", 2000)
    assert reverted.block.revision == 4
    undone = await tenant.blocks.RevertBlock(pb.RevertBlockRequest(block_id=made.block_id, to_revision=3))
    assert undone.block.value == "three"
    for missing in (5, 99):
        with refused(NOT_FOUND, "BLOCK_REVISION_NOT_FOUND"):
            await tenant.blocks.RevertBlock(pb.RevertBlockRequest(block_id=made.block_id, to_revision=missing))
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.blocks.RevertBlock(pb.RevertBlockRequest(block_id=made.block_id, to_revision=1, revision=4))


async def test_blocks_are_listed_page_by_page_and_filtered(tenant: Tenant) -> None:
    for name in "edcba":
        await tenant.create_block(
            "human" if name < "d" else "diary", block_id=name, subject_id="anna" if name == "b" else ""
        )

    async def listed(**fields: Any) -> str:
        request = pb.ListBlocksRequest(page_size=2, **fields)
        result = ""
        while True:
            page = await tenant.blocks.ListBlocks(request)
            result += "".join(block.block_id for block in page.blocks)
            if not page.next_page_token:
                return result
            request.page_token = page.next_page_token

    assert await listed() == "abcde"
    assert await listed(label="human") == "abc"
    assert await listed(subject_id="anna") == "b"
    assert await listed(is_template=True) == ""
    first = await tenant.blocks.ListBlocks(pb.ListBlocksRequest(page_size=2))
    with refused(INVALID, "PAGE_TOKEN_INVALID"):
        await tenant.blocks.ListBlocks(pb.ListBlocksRequest(label="human", page_token=first.next_page_token))


async def test_one_block_of_many_with_equal_ids_at_once_is_made(tenant: Tenant) -> None:
    outcomes = await asyncio.gather(*(tenant.create_block(block_id="b") for _ in range(5)), return_exceptions=True)

    codes = [outcome.code() for outcome in outcomes if isinstance(outcome, aio.AioRpcError)]
    assert codes == [EXISTS] * 4
