"""What recall passes over: facts that were superseded or are no longer true, unless they are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.tenancy.v1 import subjects_pb2
from skein_recall.search.weights import Weights

PAST = Timestamp(seconds=int(datetime(2024, 6, 1, tzinfo=UTC).timestamp()))
LATER = Timestamp(seconds=int(datetime(2099, 1, 1, tzinfo=UTC).timestamp()))


async def supersede(tenant: Tenant, newer: str, older: str) -> str:
    link = memory_pb2.Link(from_memory_id=newer, to_memory_id=older, relation="supersedes")
    return (await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link.link_id


async def recall_contents(tenant: Tenant, **request: Any) -> list[str]:
    asked = pb.RecallRequest(query="Where does Marta live?", **request)
    return sorted(hit.memory.content for hit in (await tenant.recall.Recall(asked)).hits)


async def test_a_superseded_memory_comes_back_only_when_asked_for(tenant: Tenant) -> None:
    older, newer = await tenant.remember("Marta lives in Graz."), await tenant.remember("Marta lives in Linz.")
    await supersede(tenant, newer, older)

    assert await recall_contents(tenant) == ["Marta lives in Linz."]
    assert await recall_contents(tenant, show_superseded=True) == ["Marta lives in Graz.", "Marta lives in Linz."]


async def test_the_gateway_passes_over_it_as_well(tenant: Tenant) -> None:
    older, newer = await tenant.remember("Marta lives in Graz."), await tenant.remember("Marta lives in Linz.")
    await supersede(tenant, newer, older)

    hits = (await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="Where does Marta live?"))).hits
    request = gateway_pb2.RecallRequest(query="Where does Marta live?", show_superseded=True)
    all_hits = (await tenant.gateway.Recall(request)).hits

    assert [hit.memory.content for hit in hits] == ["Marta lives in Linz."]
    assert len(all_hits) == 2


async def test_it_comes_back_when_what_superseded_it_is_gone(tenant: Tenant) -> None:
    older, newer = await tenant.remember("Marta lives in Graz."), await tenant.remember("Marta lives in Linz.")
    await supersede(tenant, newer, older)

    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=newer))

    assert await recall_contents(tenant) == ["Marta lives in Graz."]


async def test_it_comes_back_when_the_link_is_gone(tenant: Tenant) -> None:
    older, newer = await tenant.remember("Marta lives in Graz."), await tenant.remember("Marta lives in Linz.")
    link_id = await supersede(tenant, newer, older)

    await tenant.links.DeleteLink(memory_pb2.DeleteLinkRequest(link_id=link_id))

    assert len(await recall_contents(tenant)) == 2


async def test_a_former_fact_is_found_by_a_query_about_its_time(tenant: Tenant) -> None:
    await tenant.remember("Marta lives in Graz.", valid_to_time=PAST)
    await tenant.remember("Marta lives in Linz.", valid_from_time=PAST)
    await tenant.remember("Marta lives in Wels.", valid_from_time=PAST, valid_to_time=LATER)
    before = Timestamp(seconds=PAST.seconds - 86_400)

    assert await recall_contents(tenant) == ["Marta lives in Linz.", "Marta lives in Wels."]
    assert await recall_contents(tenant, filter=memory_pb2.MemoryFilter(valid_at_time=before)) == [
        "Marta lives in Graz."
    ]


async def test_an_answer_is_full_however_many_of_the_best_are_passed_over(tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content="Where does Marta live? In Graz.", valid_to_time=PAST) for _ in range(150)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    for number in range(3):
        await tenant.remember(f"The house number {number} is where somebody lives.")

    assert len(await recall_contents(tenant, limit=3, min_relevance=0)) == 3


async def test_weights_that_name_or_leave_no_signal_are_refused(tenant: Tenant) -> None:
    every = ("dense", "context", "lexical", "reply", "statement", "length", "time", "date")

    for weights in ({"charm": 1.0}, dict.fromkeys(every, 0.0)):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await recall_contents(tenant, weights=weights)


async def test_a_policy_weighs_signals_that_there_are_and_no_others(tenant: Tenant) -> None:
    mask = FieldMask(paths=["recall_weights"])

    every = subjects_pb2.Policy(recall_weights=dict.fromkeys(Weights.__dataclass_fields__, 0.5))
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=every, update_mask=mask))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        other = subjects_pb2.Policy(recall_weights={"charm": 1.0})
        await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=other, update_mask=mask))


async def test_a_signal_without_weight_is_no_part_of_the_score(tenant: Tenant) -> None:
    await tenant.remember("Marta lives in Graz.")

    (hit,) = (await tenant.recall.Recall(pb.RecallRequest(query="Where is Marta?", weights={"lexical": 0.0}))).hits

    assert "lexical" not in {component.signal for component in hit.components}


async def test_a_tenant_s_policy_says_how_it_is_searched(tenant: Tenant) -> None:
    policy = subjects_pb2.Policy(recall_weights={"dense": 0.0, "context": 0.0}, recall_fusion="ranks")
    mask = FieldMask(paths=["recall_weights", "recall_fusion"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    await tenant.remember("Marta lives in Graz.")

    answer = await tenant.recall.Recall(pb.RecallRequest(query="Where is Marta?"))
    again = await tenant.recall.Recall(pb.RecallRequest(query="Where is Marta?", fusion="scores"))

    assert answer.formula.startswith("ranks-")
    assert again.formula.startswith("scores-")
    assert "dense" not in {component.signal for hit in again.hits for component in hit.components}


@pytest.mark.parametrize(
    ("language", "content", "words", "matches"),
    [
        ("simple", "the kettle is boiling", "boil", False),
        ("english", "the kettle is boiling", "boil", True),
        ("german", "zwei Katzen schlafen", "Katze", True),
        ("english", "zwei Katzen schlafen", "Katze", False),
    ],
    ids=["simple", "english", "german", "foreign"],
)
async def test_words_are_stemmed_by_the_tenant_s_language(
    tenant: Tenant, language: str, content: str, words: str, *, matches: bool
) -> None:
    policy = subjects_pb2.Policy(search_language=language)
    mask = FieldMask(paths=["search_language"])
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    await tenant.remember(content)

    (hit,) = (await tenant.recall.Recall(pb.RecallRequest(query=words))).hits

    assert (next(one.raw for one in hit.components if one.signal == "lexical") > 0) is matches


async def test_ranks_may_be_fused_instead_of_scores(tenant: Tenant) -> None:
    await tenant.remember("Marta lives in Graz.")
    request = pb.RecallRequest(query="Where does Marta live?", fusion="ranks")

    by_ranks = await tenant.recall.Recall(request)
    by_scores = await tenant.recall.Recall(pb.RecallRequest(query="Where does Marta live?"))

    assert by_ranks.formula.startswith("ranks-")
    assert by_scores.formula.startswith("scores-")
    assert [hit.memory.content for hit in by_ranks.hits] == ["Marta lives in Graz."]


async def test_a_title_that_becomes_the_key_is_found_by_the_key(tenant: Tenant) -> None:
    memory_id = await tenant.remember("Marta lives in Linz.", title="marta")

    changed = memory_pb2.Memory(memory_id=memory_id, key="marta")
    mask = FieldMask(paths=["title", "key"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))

    assert await recall_contents(tenant, filter=memory_pb2.MemoryFilter(key="marta")) == ["Marta lives in Linz."]
