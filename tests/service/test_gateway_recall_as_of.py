"""Recall and BuildContext as of a time: what is asked later about a moment is what was answered at that moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_cluster import refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from fix_cluster import Tenant

ANYTHING = pb.RecallRequest(query="What does Anna drink?", limit=20, min_relevance=0)
ALL_ARMS = [pb.ARM_MEMORIES, pb.ARM_MESSAGES, pb.ARM_BLOCKS, pb.ARM_PROFILE]
EVERYWHERE = {
    "of an agent": pb.RecallRequest(
        query="What does Anna drink?",
        limit=20,
        arms=ALL_ARMS,
        filter={"visible_to": {"agent_id": "butler", "subject_id": "anna"}},
    ),
    "of a person": pb.RecallRequest(query="tea or coffee", limit=20, arms=ALL_ARMS, filter={"subject_id": "anna"}),
    "of everything": pb.RecallRequest(query="what is there to drink", limit=20, arms=ALL_ARMS, min_relevance=0),
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
    """Return requests of contexts with all arms, a window and origins; as of a moment, if there is one."""
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
        [(arm.arm, arm.state, arm.hit_count) for arm in response.arms],
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


async def test_every_arm_and_every_context_answer_later_as_they_answered_then(tenant: Tenant) -> None:
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
        for request, context in zip(context_requests(moment), contexts, strict=True):
            again_context = await tenant.gateway.BuildContext(request)
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
    request = pb.RecallRequest(query="tea", arms=[pb.ARM_PROFILE], filter={"subject_id": "anna"})

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
    "arms", [[pb.ARM_MEMORIES], [pb.ARM_PROFILE], [pb.ARM_BLOCKS]], ids=["index", "profile", "blocks"]
)
async def test_the_future_and_the_time_before_the_tenant_are_refused(tenant: Tenant, arms: list[pb.Arm]) -> None:
    request = pb.RecallRequest(query="tea", arms=arms, filter={"subject_id": "anna"})
    tomorrow, yesterday = now() + timedelta(days=1), now() - timedelta(days=1)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Recall(as_of(request, tomorrow))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        await tenant.gateway.Recall(as_of(request, yesterday))
