"""Recall and BuildContext as of a time: what is asked later about a moment is what was answered at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from fix_marker import Connection

ANYTHING = pb.RecallRequest(query="What does Anna drink?", limit=20, min_relevance=0)
ALL_BRANCHES = [pb.BRANCH_MEMORIES, pb.BRANCH_MESSAGES, pb.BRANCH_BLOCKS, pb.BRANCH_PROFILE]
EVERYWHERE = {
    "of an agent": pb.RecallRequest(
        query="What does Anna drink?",
        limit=20,
        branches=ALL_BRANCHES,
        filter={"visible_to": {"agent_id": "butler", "subject_id": "anna"}},
    ),
    "of a person": pb.RecallRequest(query="tea or coffee", limit=20, branches=ALL_BRANCHES, subject_id="anna"),
    "of everything": pb.RecallRequest(query="what is there to drink", limit=20, branches=ALL_BRANCHES, min_relevance=0),
}


def as_of(request: pb.RecallRequest, moment: datetime) -> pb.RecallRequest:
    asked = pb.RecallRequest(as_of_time=to_timestamp(moment))
    asked.MergeFrom(request)
    return asked


async def remember(tenant: Tenant, *contents: str, **fields: Any) -> list[memory_pb2.Memory]:
    memories = [memory_pb2.Memory(content=content, **fields) for content in contents]
    return list((await tenant.gateway.Remember(pb.RememberRequest(memories=memories))).memories)


async def say(tenant: Tenant, *contents: str, session_id: str = "kitchen") -> list[session_pb2.Message]:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=content) for content in contents]
    request = pb.RememberRequest(session_id=session_id, messages=messages)
    return list((await tenant.gateway.Remember(request)).messages)


def context_requests(moment: datetime | None = None) -> list[pb.BuildContextRequest]:
    """Return requests of contexts with all branches, a window and origins; as of a moment, if there is one."""
    return [
        pb.BuildContextRequest(
            recall=request if moment is None else as_of(request, moment),
            session_id="kitchen",
            token_budget=budget,
            cite_origins=True,
        )
        for request in EVERYWHERE.values()
        for budget in (2000, 120)
    ]


def shown(response: pb.RecallResponse) -> list[Any]:
    """Return what a response shows, without what depends on caches: last digits of scores, paths and durations."""
    return [
        *(
            (hit.kind, hit.item_id, hit.memory, hit.message, hit.block, list(hit.duplicate_ids), round(hit.score, 3))
            for hit in response.hits
        ),
        response.profile,
        [(branch.branch, branch.state, branch.hit_count) for branch in response.branches],
        (response.formula, response.model, response.nothing_relevant, list(response.emptied_by)),
    ]


def citations(response: pb.BuildContextResponse) -> list[Any]:
    return [
        (one.number, one.kind, one.item_id, one.truncated, list(one.duplicate_ids), one.trust, list(one.origins))
        for one in response.citations
    ]


@dataclass
class Household:
    """A tenant's knowledge that changes step by step, each step in another way."""

    tenant: Tenant

    async def steps(self) -> AsyncIterator[str]:
        """Change the tenant; yield the name of each step after it."""
        tenant = self.tenant
        fields = {"subject_id": "anna", "scope": memory_pb2.SCOPE_USER}
        tea, coffee = await remember(
            tenant, "Anna drinks green tea in the morning.", "Anna never drinks coffee.", type="fact", **fields
        )
        first, second = await say(tenant, "What is there to drink?", "Lemonade, and the tea that Anna drinks.")
        yield "memories and messages"
        subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg", timezone="Europe/Rome")
        await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        yield "a profile"
        block = blocks_pb2.Block(block_id="guest", label="human", value="Anna is the guest, and drinks slowly.")
        await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="butler"))
        yield "a block"
        changed = memory_pb2.Memory(memory_id=tea.memory_id, content="Anna drinks black tea.", importance=0.9)
        mask = FieldMask(paths=["content", "importance"])
        await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))
        yield "an edited memory"
        edited = session_pb2.Message(message_id=second.message_id, content="Water, and the tea that Anna drinks.")
        mask = FieldMask(paths=["content"])
        await tenant.sessions.UpdateMessage(session_pb2.UpdateMessageRequest(message=edited, update_mask=mask))
        yield "an edited message"
        await say(tenant, "Does Anna still take sugar with her tea?")
        summary = session_pb2.Session(session_id="kitchen", summary="They talk about drinks.")
        mask = FieldMask(paths=["summary"])
        await tenant.sessions.UpdateSession(session_pb2.UpdateSessionRequest(session=summary, update_mask=mask))
        yield "a summary"
        subject.display_name = "Anna Lind"
        await tenant.tenancy.UpdateSubject(subjects_pb2.UpdateSubjectRequest(subject=subject))
        block = blocks_pb2.Block(block_id="guest", value="Anna lives here, and drinks tea slowly.")
        mask = FieldMask(paths=["value"])
        await tenant.blocks.UpdateBlock(blocks_pb2.UpdateBlockRequest(block=block, update_mask=mask))
        yield "an edited profile and block"
        sources = [memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=first.message_id)]
        (newer,) = await remember(tenant, "Anna drinks coffee on Sundays.", type="fact", derived_from=sources, **fields)
        link = memory_pb2.Link(from_memory_id=newer.memory_id, to_memory_id=coffee.memory_id, relation="supersedes")
        await tenant.links.UpsertLink(memory_pb2.UpsertLinkRequest(link=link))
        yield "a superseded memory"
        policy = subjects_pb2.Policy(recall_fusion="ranks")
        mask = FieldMask(paths=["recall_fusion"])
        await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
        yield "a policy"
        await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=first.message_id))
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=tea.memory_id))
        yield "deletions"
        detach = blocks_pb2.DetachBlockRequest(agent_id="butler", block_id="guest")
        await tenant.blocks.DetachBlock(detach)
        await tenant.tenancy.DeleteSubject(subjects_pb2.DeleteSubjectRequest(subject_id="anna"))
        yield "a detached block and a deleted profile"
        await tenant.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="guest"))
        yield "a deleted block"


async def drain(tenant: Tenant) -> None:
    """Wait until every item has its vectors."""
    async with asyncio.timeout(60):
        while (await tenant.gateway.Recall(ANYTHING)).pending_embedding_count:
            pass


@pytest.mark.system
async def test_every_branch_and_every_context_answer_later_as_they_answered_then(tenant: Tenant) -> None:
    then: list[tuple[str, datetime, list[pb.RecallResponse], list[pb.BuildContextResponse]]] = []
    async for step in Household(tenant).steps():
        await drain(tenant)
        # A change of the policy takes effect within a second.
        while step == "a policy" and not (await tenant.gateway.Recall(ANYTHING)).formula.startswith("ranks"):
            pass
        moment = now()
        answers = [await tenant.gateway.Recall(request) for request in EVERYWHERE.values()]
        contexts = [await tenant.gateway.BuildContext(request) for request in context_requests()]
        then.append((step, moment, answers, contexts))

    for step, moment, answers, contexts in then:
        for (name, request), answer in zip(EVERYWHERE.items(), answers, strict=True):
            again = await tenant.gateway.Recall(as_of(request, moment))
            assert shown(again) == shown(answer), (step, name)
        for context_request, context in zip(context_requests(moment), contexts, strict=True):
            again_context = await tenant.gateway.BuildContext(context_request)
            assert again_context.text == context.text, step
            assert citations(again_context) == citations(context), step
    texts = [contexts[0].text for *_, contexts in then]
    assert len(set(texts)) > len(texts) - 3, "most steps change the text"


async def test_the_profile_of_then_is_shown_and_a_later_one_is_not(tenant: Tenant) -> None:
    before = now()
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg", timezone="Europe/Rome")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    created = now()
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Lind", timezone="Europe/Rome")
    await tenant.tenancy.UpdateSubject(subjects_pb2.UpdateSubjectRequest(subject=subject))
    updated = now()
    await tenant.tenancy.DeleteSubject(subjects_pb2.DeleteSubjectRequest(subject_id="anna"))
    request = pb.RecallRequest(query="tea", branches=[pb.BRANCH_PROFILE], subject_id="anna")

    names = [
        (await tenant.gateway.Recall(as_of(request, moment))).profile.display_name
        for moment in (before, created, updated, now())
    ]

    assert names == ["", "Anna Berg", "Anna Lind", ""]


async def test_a_purged_profile_shows_at_no_time(tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="anna", display_name="Anna Berg")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await tenant.tenancy.UpdateSubject(subjects_pb2.UpdateSubjectRequest(subject=subject))
    known = now()
    await tenant.tenancy.PurgeSubject(subjects_pb2.PurgeSubjectRequest(subject_id="anna"))

    with refused(grpc.StatusCode.NOT_FOUND, "SUBJECT_NOT_FOUND"):
        await tenant.tenancy.GetSubject(
            subjects_pb2.GetSubjectRequest(subject_id="anna", as_of_time=to_timestamp(known))
        )


@pytest.mark.system
async def test_what_was_purged_since_is_counted_and_not_shown(tenant: Tenant) -> None:
    first, second = await remember(tenant, "Anna drinks green tea.", "Anna drinks coffee on Sundays.")
    await say(tenant, "Anna drinks lemonade.")
    known = now()
    (third,) = await remember(tenant, "Anna drinks water.")
    await tenant.memory.PurgeMemories(
        memory_pb2.PurgeMemoriesRequest(selection={"memory_ids": [first.memory_id, third.memory_id]})
    )
    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="kitchen"))

    response = await tenant.gateway.Recall(as_of(ANYTHING, known))
    context = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=as_of(ANYTHING, known)))
    later = await tenant.gateway.Recall(as_of(ANYTHING, now()))
    live = await tenant.gateway.Recall(ANYTHING)

    assert [hit.item_id for hit in response.hits] == [second.memory_id]
    assert [response.purged_count, context.purged_count, later.purged_count, live.purged_count] == [2, 2, 0, 0]


@pytest.mark.parametrize(
    "branches", [[pb.BRANCH_MEMORIES], [pb.BRANCH_PROFILE], [pb.BRANCH_BLOCKS]], ids=["index", "profile", "blocks"]
)
async def test_the_future_and_the_time_before_the_tenant_are_refused(tenant: Tenant, branches: list[pb.Branch]) -> None:
    request = pb.RecallRequest(query="tea", branches=branches, subject_id="anna")
    tomorrow, yesterday = now() + timedelta(days=1), now() - timedelta(days=1)
    created = await tenant.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=str(tenant.tenant_id)))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as future:
        await tenant.gateway.Recall(as_of(request, tomorrow))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN") as early:
        await tenant.gateway.Recall(as_of(request, yesterday))
    first = await tenant.gateway.Recall(as_of(request, created.tenant.create_time.ToDatetime(UTC)))

    assert "as_of_time: lies in the future" in str(future.value.details())
    assert created.tenant.create_time.ToJsonString() in str(early.value.details())
    assert not first.hits


async def test_the_future_and_the_time_before_the_tenant_are_refused_for_contexts(tenant: Tenant) -> None:
    await say(tenant, "Tea, please.")
    tomorrow, yesterday = now() + timedelta(days=1), now() - timedelta(days=1)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=as_of(ANYTHING, tomorrow)))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=as_of(ANYTHING, yesterday)))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        await tenant.sessions.GetRecentWindow(
            session_pb2.GetRecentWindowRequest(session_id="kitchen", as_of_time=to_timestamp(yesterday))
        )


async def test_two_clocks_tell_what_was_true_and_what_was_known_of_it(tenant: Tenant) -> None:
    moved, later = now() - timedelta(days=365), now() - timedelta(days=30)
    home = memory_pb2.Memory(content="Anna lives in Paris.", type="fact", key="home", subject_id="anna")
    home.valid_from_time.FromDatetime(moved)
    (paris,) = (await tenant.gateway.Remember(pb.RememberRequest(memories=[home]))).memories
    before_news = now()
    # The news of a move a month ago arrives now.
    ended = memory_pb2.Memory(memory_id=paris.memory_id, valid_to_time=to_timestamp(later))
    mask = FieldMask(paths=["valid_to_time"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=ended, update_mask=mask))
    await remember(tenant, "Anna lives in Rome.", type="fact", valid_from_time=to_timestamp(later))

    async def answers(valid_at: datetime | None, known_at: datetime | None) -> set[str]:
        filter_ = memory_pb2.MemoryFilter(types=["fact"], valid_at_time=to_timestamp(valid_at))
        request = pb.RecallRequest(query="Where does Anna live?", min_relevance=0, filter=filter_)
        if known_at is not None:
            request.as_of_time.FromDatetime(known_at)
        return {hit.memory.content for hit in (await tenant.gateway.Recall(request)).hits}

    week_ago, then = now() - timedelta(days=7), moved + timedelta(days=1)
    assert await answers(None, None) == {"Anna lives in Rome."}
    assert await answers(then, None) == {"Anna lives in Paris."}
    assert await answers(week_ago, None) == {"Anna lives in Rome."}
    assert await answers(None, before_news) == {"Anna lives in Paris."}
    assert await answers(week_ago, before_news) == {"Anna lives in Paris."}
    assert await answers(moved - timedelta(days=1), before_news) == set()


@pytest.mark.system
async def test_validity_is_judged_at_the_time_of_the_answer(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="The kitchen is being painted.")
    memory.valid_to_time.FromDatetime(now() + timedelta(seconds=2))
    await tenant.gateway.Remember(pb.RememberRequest(memories=[memory]))
    request = pb.RecallRequest(query="Is the kitchen being painted?", min_relevance=0)
    known = now()
    async with asyncio.timeout(30):
        while (await tenant.gateway.Recall(request)).hits:
            pass

    then = await tenant.gateway.Recall(as_of(request, known))

    assert [hit.memory.content for hit in then.hits] == ["The kitchen is being painted."]


@pytest.mark.system
async def test_what_is_alike_is_what_was_alike_then(tenant: Tenant) -> None:
    tea, cup, train = await remember(
        tenant, "Anna drinks green tea.", "The green tea is in the cupboard.", "The train to Rome leaves at noon."
    )
    await drain(tenant)
    request = recall_pb2.FindSimilarRequest(item_id=tea.memory_id, limit=1)
    alike = await tenant.recall.FindSimilar(request)
    known = now()
    changed = memory_pb2.Memory(memory_id=tea.memory_id, content="Anna takes the train to Rome.")
    mask = FieldMask(paths=["content"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=cup.memory_id))
    await drain(tenant)
    request.as_of_time.FromDatetime(known)

    then = await tenant.recall.FindSimilar(request)
    request.ClearField("as_of_time")
    today = await tenant.recall.FindSimilar(request)

    assert [hit.item_id for hit in then.hits] == [hit.item_id for hit in alike.hits] == [cup.memory_id]
    assert then.hits[0].score == pytest.approx(alike.hits[0].score, abs=1e-4)
    assert [hit.item_id for hit in today.hits] == [train.memory_id]


async def test_an_erased_source_shows_as_erased_at_every_time(tenant: Tenant) -> None:
    (message,) = await say(tenant, "I drink only tea, says Anna.")
    sources = [memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MESSAGE, id=message.message_id)]
    (memory,) = await remember(tenant, "Anna drinks only tea.", derived_from=sources)
    known = now()
    # The declared sources change, so that the message is a former one.
    changed = memory_pb2.Memory(memory_id=memory.memory_id)
    changed.derived_from.add(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="notes")
    mask = FieldMask(paths=["derived_from"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))
    request = curation_pb2.GetLineageRequest(memory_ids=[memory.memory_id], as_of_time=to_timestamp(known))
    before = await tenant.curation.GetLineage(request)

    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="kitchen"))
    after = await tenant.curation.GetLineage(request)

    assert [node.label for node in before.nodes] == ["Anna drinks only tea.", "I drink only tea, says Anna."] or (
        before.nodes[1].state == curation_pb2.LINEAGE_STATE_SHOWN
    )
    assert before.nodes[1].id == message.message_id
    assert [node.state for node in after.nodes] == [
        curation_pb2.LINEAGE_STATE_SHOWN,
        curation_pb2.LINEAGE_STATE_ERASED,
    ]


async def test_the_time_before_the_retention_is_refused(tenant: Tenant, connection: Connection) -> None:
    await connection.execute(
        "UPDATE tenancy.tenants SET create_time = create_time - interval '10 days' WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    policy, mask = subjects_pb2.Policy(retention_days=2), FieldMask(paths=["retention_days"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    before = now() - timedelta(days=3)

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN") as early:
        # A change of the policy takes effect within a second.
        async with asyncio.timeout(30):
            while True:
                await tenant.gateway.Recall(as_of(ANYTHING, before))
    kept = await tenant.gateway.Recall(as_of(ANYTHING, now() - timedelta(days=1)))

    assert f"{now() - timedelta(days=2):%Y-%m-%dT%H:}" in str(early.value.details())
    assert not kept.hits
