"""How far sources are trusted, and what that does to scores."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from grpc import aio

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2


async def trust(tenant: Tenant, source: str, **values: Any) -> pb.SourceTrust:
    request = pb.SetSourceTrustRequest(source=source, **values)
    return (await tenant.curation.SetSourceTrust(request)).source_trust


async def test_a_source_is_known_by_its_words_whatever_their_case_and_spaces(tenant: Tenant) -> None:
    source_trust = await trust(tenant, "  Daily\t NEWS ", trust=0.9, notes="well kept")

    read = await tenant.curation.GetSourceTrust(pb.GetSourceTrustRequest(source="daily news"))

    assert read.source_trust == source_trust
    assert source_trust.source == source_trust.source_key
    # What the answer calls it, a request takes.
    again = await tenant.curation.GetSourceTrust(pb.GetSourceTrustRequest(source=source_trust.source))
    assert again.source_trust == source_trust
    assert (source_trust.source_key, source_trust.trust, source_trust.notes, source_trust.revision) == (
        "daily news",
        0.9,
        "well kept",
        1,
    )


async def test_an_unknown_source_is_not_found_and_spaces_are_none(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "SOURCE_TRUST_NOT_FOUND"):
        await tenant.curation.GetSourceTrust(pb.GetSourceTrustRequest(source="unknown"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await trust(tenant, "   ", trust=0.9)


@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf")])
async def test_trust_outside_0_to_1_is_refused_with_the_range(tenant: Tenant, value: float) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD") as caught:
        await trust(tenant, "a", trust=value)

    assert "trust: must be greater than or equal to 0 and less than or equal to 1" in (caught.value.details() or "")


@pytest.mark.parametrize("value", [0.0, 1.0])
async def test_both_ends_of_the_range_are_kept(tenant: Tenant, value: float) -> None:
    assert (await trust(tenant, "a", trust=value)).trust == value


async def test_trust_is_neutral_unless_said(tenant: Tenant) -> None:
    assert (await trust(tenant, "a")).trust == 0.5
    assert (await trust(tenant, "a", trust=0.0)).trust == 0.0


async def test_trust_without_notes_keeps_them_and_empty_notes_remove_them(tenant: Tenant) -> None:
    await trust(tenant, "a", trust=0.9, notes="well kept")

    kept, noted, removed = [
        await trust(tenant, "a", **values) for values in ({"trust": 0.8}, {"notes": "seen"}, {"notes": ""})
    ]

    assert [(each.trust, each.notes) for each in (kept, noted, removed)] == [
        (0.8, "well kept"), (0.8, "seen"), (0.8, "")
    ]  # fmt: skip


async def test_trust_moves_the_scores_of_its_source_and_of_no_other(tenant: Tenant) -> None:
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(content=name, source=name) for name in ("News", "gossip")]
    )
    news, gossip = (await tenant.memory.BatchCreateMemories(request)).memories

    await trust(tenant, "news", trust=1.0)

    read = await tenant.memory.BatchGetMemories(
        memory_pb2.BatchGetMemoriesRequest(memory_ids=[news.memory_id, gossip.memory_id])
    )
    assert read.memories[0].scores.confidence == pytest.approx(news.scores.confidence + 0.2)
    assert read.memories[0].scores.importance == pytest.approx(news.scores.importance + 0.07)
    assert read.memories[1].scores == gossip.scores
    # What is created afterwards shows it at once.
    created = await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="News", source=" NEWS"))
    )
    assert created.memory.scores == read.memories[0].scores


async def test_a_stale_revision_of_trust_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await trust(tenant, "a", revision=1)
    await trust(tenant, "a", trust=0.1)
    await trust(tenant, "a", trust=0.2, revision=1)

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await trust(tenant, "a", trust=0.3, revision=1)


async def test_deleted_trust_counts_its_revisions_on_when_it_is_set_again(tenant: Tenant) -> None:
    await trust(tenant, "a", trust=0.1)
    request = pb.DeleteSourceTrustRequest(source=" A ", request_id="r")

    await tenant.curation.DeleteSourceTrust(request)
    await tenant.curation.DeleteSourceTrust(request)

    with refused(grpc.StatusCode.NOT_FOUND, "SOURCE_TRUST_NOT_FOUND"):
        await tenant.curation.DeleteSourceTrust(pb.DeleteSourceTrustRequest(source="a"))
    assert (await trust(tenant, "a", trust=0.2)).revision == 2
    assert (await trust(tenant, "a", trust=0.3)).revision == 3
    await tenant.curation.DeleteSourceTrust(pb.DeleteSourceTrustRequest(source="a"))
    assert (await trust(tenant, "a", trust=0.3)).revision == 4


async def test_sources_are_listed_by_their_keys_page_by_page(tenant: Tenant, other_tenant: Tenant) -> None:
    for source in ("c", "a", "b"):
        await trust(tenant, source)
    await trust(other_tenant, "z")
    request = pb.ListSourceTrustRequest(page_size=2)

    first = await tenant.curation.ListSourceTrust(request)
    request.page_token = first.next_page_token
    second = await tenant.curation.ListSourceTrust(request)

    assert [one.source_key for one in (*first.source_trust, *second.source_trust)] == ["a", "b", "c"]
    assert second.next_page_token == ""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await other_tenant.curation.ListSourceTrust(request)


async def test_a_repeated_request_says_it_once_and_crowds_lose_nothing(tenant: Tenant) -> None:
    request = pb.SetSourceTrustRequest(source="a", trust=0.1, request_id="r")

    answers = await asyncio.gather(*(tenant.curation.SetSourceTrust(request) for _ in range(4)))
    crowd = await asyncio.gather(
        *(trust(tenant, "b", trust=number / 10) for number in range(6)), return_exceptions=True
    )

    assert all(answer == answers[0] for answer in answers)
    successes = [one for one in crowd if isinstance(one, pb.SourceTrust)]
    assert successes
    assert sorted(one.revision for one in successes) == list(range(1, len(successes) + 1))
    assert all(one.code() is grpc.StatusCode.ABORTED for one in crowd if isinstance(one, aio.AioRpcError))
