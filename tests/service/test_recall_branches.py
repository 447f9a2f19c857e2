"""Recall over everything that a tenant knows, through the gateway and all services behind it."""

from __future__ import annotations

from typing import Any

from fix_cluster import Tenant

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2


async def block(tenant: Tenant, value: str, *, agent_id: str = "", **fields: Any) -> str:
    made = blocks_pb2.Block(**{"label": "human", "value": value, **fields})
    request = blocks_pb2.CreateBlockRequest(block=made, agent_id=agent_id)
    return (await tenant.blocks.CreateBlock(request)).block.block_id


async def subject(tenant: Tenant, subject_id: str, display_name: str) -> None:
    made = subjects_pb2.Subject(subject_id=subject_id, display_name=display_name)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=made))


async def recalled(
    tenant: Tenant, query: str, branches: list[pb.Branch] | None = None, **condition: Any
) -> pb.RecallResponse:
    request = pb.RecallRequest(query=query, branches=branches or [], filter=memory_pb2.MemoryFilter(**condition))
    return await tenant.gateway.Recall(request)


def values(response: pb.RecallResponse) -> list[str]:
    return [hit.block.value for hit in response.hits if hit.kind == recall_pb2.ITEM_KIND_BLOCK]


def seen_by(agent_id: str = "", subject_id: str = "") -> memory_pb2.ScopeContext:
    return memory_pb2.ScopeContext(agent_id=agent_id, subject_id=subject_id)


async def test_an_agent_finds_its_own_blocks_among_what_is_remembered(tenant: Tenant, other_tenant: Tenant) -> None:
    await block(tenant, "The guest likes green tea", agent_id="butler")
    await block(tenant, "The guest likes black tea", agent_id="cook")
    await block(other_tenant, "A secret tea of theirs", agent_id="butler")
    await tenant.gateway.Remember(pb.RememberRequest(memories=[memory_pb2.Memory(content="Tea is served at five")]))

    response = await recalled(tenant, "Which tea do guests like?", agent_id="butler")
    seen = await recalled(tenant, "Which tea do guests like?", visible_to=seen_by("butler"))

    assert values(response) == values(seen) == ["The guest likes green tea"]
    assert {hit.kind for hit in seen.hits} == {recall_pb2.ITEM_KIND_BLOCK, recall_pb2.ITEM_KIND_MEMORY}
    assert [hit.score for hit in seen.hits] == sorted((hit.score for hit in seen.hits), reverse=True)
    assert all(0 <= hit.score <= 1 for hit in seen.hits)
    assert {branch.state for branch in seen.branches} == {pb.BRANCH_STATE_OK}


async def test_blocks_about_another_person_are_not_found(tenant: Tenant) -> None:
    await block(tenant, "Anna likes tea", agent_id="butler", subject_id="anna")
    await block(tenant, "Ben likes tea", agent_id="butler", subject_id="ben")
    await block(tenant, "Everybody likes tea", agent_id="butler")

    anna = await recalled(tenant, "tea", visible_to=seen_by("butler", "anna"))
    without_a_subject = await recalled(tenant, "tea", visible_to=seen_by("butler"))
    without_an_agent = await recalled(tenant, "tea", [pb.BRANCH_BLOCKS], visible_to=seen_by("", "ben"))

    assert sorted(values(anna)) == ["Anna likes tea", "Everybody likes tea"]
    assert values(without_a_subject) == ["Everybody likes tea"]
    assert sorted(values(without_an_agent)) == ["Ben likes tea", "Everybody likes tea"]


async def test_a_deleted_block_is_gone_from_recall(tenant: Tenant) -> None:
    block_id = await block(tenant, "The guest likes green tea", agent_id="butler")

    before = await recalled(tenant, "tea", agent_id="butler")
    await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id))
    after = await recalled(tenant, "tea", agent_id="butler")

    assert [len(values(response)) for response in (before, after)] == [1, 0]


async def test_the_profile_of_the_subject_comes_with_the_hits(tenant: Tenant, other_tenant: Tenant) -> None:
    await subject(tenant, "anna", "Anna Berg")
    await subject(other_tenant, "ben", "Ben of another tenant")

    anna = await recalled(tenant, "tea", visible_to=seen_by("", "anna"))
    ben = await recalled(tenant, "tea", visible_to=seen_by("", "ben"))
    alone = await tenant.gateway.Recall(pb.RecallRequest(branches=[pb.BRANCH_PROFILE], subject_id="anna"))

    assert anna.profile.display_name == alone.profile.display_name == "Anna Berg"
    assert not ben.HasField("profile")
    assert [branch.state for branch in ben.branches] == [pb.BRANCH_STATE_OK] * 3


async def test_the_condition_that_emptied_an_answer_is_named(tenant: Tenant) -> None:
    await tenant.gateway.Remember(pb.RememberRequest(memories=[memory_pb2.Memory(content="Anna drinks tea")]))

    response = await recalled(tenant, "tea", types=["fact"])

    assert not response.hits
    assert list(response.emptied_by) == ["types"]
    assert all(branch.filter_emptied for branch in response.branches)
    assert response.formula
    assert response.dense_path


async def test_a_recall_by_keyword_finds_what_contains_the_word_and_nothing_else(tenant: Tenant) -> None:
    await tenant.gateway.Remember(
        pb.RememberRequest(
            session_id="trip",
            messages=[
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="How did you get to the coast?"),
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, content="We took the automobile."),
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="That is a long way to go by car."),
            ],
        )
    )

    async def recall_contents(query: str, mode: recall_pb2.SearchMode) -> list[str]:
        response = await tenant.gateway.Recall(pb.RecallRequest(query=query, mode=mode))
        return [hit.message.content for hit in response.hits]

    assert await recall_contents("automobiles", recall_pb2.SEARCH_MODE_KEYWORD) == ["We took the automobile."]
    assert await recall_contents("zeppelin", recall_pb2.SEARCH_MODE_KEYWORD) == []
    assert len(await recall_contents("automobiles", recall_pb2.SEARCH_MODE_SEMANTIC)) == 3
    assert len(await recall_contents("automobiles", recall_pb2.SEARCH_MODE_UNSPECIFIED)) == 3


async def test_a_context_is_made_of_what_its_recalls_mode_finds(tenant: Tenant) -> None:
    await tenant.gateway.Remember(
        pb.RememberRequest(
            memories=[memory_pb2.Memory(content="We took the automobile."), memory_pb2.Memory(content="My car is red.")]
        )
    )

    by_keyword = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(recall=pb.RecallRequest(query="automobile", mode=recall_pb2.SEARCH_MODE_KEYWORD))
    )

    assert "We took the automobile." in by_keyword.text
    assert "My car is red." not in by_keyword.text
