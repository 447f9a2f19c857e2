"""Recall and BuildContext as of a time: what is asked later about a moment is what was answered at that moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
import pytest
from fix_cluster import fault_of, reason_in, refused
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import states_pb2, session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from fix_cluster import Tenant

EVERYWHERE = pb.RecallRequest(
    query="What does Anna drink?",
    limit=20,
    min_relevance=0,
    filter={"visible_to": {"agent_id": "butler", "subject_id": "anna"}},
)
ANYTHING = pb.RecallRequest(query="What does Anna drink?", limit=20, min_relevance=0)


def as_of(request: pb.RecallRequest, moment: datetime) -> pb.RecallRequest:
    asked = pb.RecallRequest(as_of_time=to_timestamp(moment))
    asked.MergeFrom(request)
    return asked


async def remember(tenant: Tenant, *contents: str, **fields: object) -> list[memory_pb2.Memory]:
    memories = [memory_pb2.Memory(content=content, **fields) for content in contents]
    return list((await tenant.gateway.Remember(pb.RememberRequest(memories=memories))).memories)


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
    messages = [session_pb2.Message(role="MESSAGE_ROLE_USER", content="Anna drinks lemonade.")]
    await tenant.gateway.Remember(pb.RememberRequest(session_id="kitchen", messages=messages))
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
