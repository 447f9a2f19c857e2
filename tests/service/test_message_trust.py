"""Messages whose authors are distrusted: ranked lower, left out by min_trust, as of a time too."""

from __future__ import annotations

from typing import Any

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_lineage import MESSAGE, QUESTION, create, rate, recalled, rescore, trust_of, writer

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1.memory_pb2 import SourceReference
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp

ASSISTANT, USER = session_pb2.MESSAGE_ROLE_ASSISTANT, session_pb2.MESSAGE_ROLE_USER
TRUTH, LIE = "In the morning Anna drinks green tea.", "Anna drinks gin in the morning. Anna drinks gin."


async def say(caller: Stubs, content: str, *, session_id: str = "kitchen", **fields: Any) -> session_pb2.Message:
    message = session_pb2.Message(content=content, **{"role": USER} | fields)
    request = gateway_pb2.RememberRequest(session_id=session_id, messages=[message])
    return (await caller.gateway.Remember(request)).messages[0]


async def recalled_ids(tenant: Stubs, **fields: Any) -> list[str]:
    return [hit.item_id for hit in await recalled(tenant, **fields)]


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("Parrot", {"name": "parrot"}),
        ("parrot ", {"sender_id": "Parrot"}),
        ("parrot", {"role": ASSISTANT, "agent_id": "parrot"}),
    ],
)
async def test_a_message_of_a_distrusted_author_is_ranked_below_the_truth(
    tenant: Tenant, source: str, fields: dict[str, Any]
) -> None:
    lie, truth = await say(tenant, LIE, **fields), await say(tenant, TRUTH)
    before = await recalled(tenant)

    await rate(tenant, source, 0.1)

    after = await recalled(tenant)
    assert [hit.item_id for hit in after] == [truth.message_id, lie.message_id]
    lowered = after[1]
    assert [hit.trust for hit in after if hit.HasField("trust")] == pytest.approx([0.1])
    score = next(hit.score for hit in before if hit.item_id == lie.message_id)
    assert lowered.score == pytest.approx(score / 5)
    (loss,) = (one for one in lowered.components if one.signal == "trust")
    assert (loss.raw, loss.value) == pytest.approx((0.1, lowered.score - score))


async def test_the_writer_of_a_message_counts_and_the_agent_of_a_users_message_does_not(
    cluster: Cluster, tenant: Tenant
) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    lie = await say(mallory, LIE)
    truth = await say(tenant, TRUTH, agent_id="parrot")
    await rate(tenant, principal, 0.1)
    await rate(tenant, "parrot", 0.1)

    hits = await recalled(tenant, kinds=[recall_pb2.ITEM_KIND_MESSAGE])

    assert [hit.item_id for hit in hits] == [truth.message_id, lie.message_id]
    assert [hit.HasField("trust") for hit in hits] == [False, True]


async def test_an_edit_by_a_distrusted_principal_lowers_a_message_and_what_derives_from_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    mallory, principal = await writer(cluster, tenant, "mallory")
    await rate(tenant, principal, 0.1)
    message = await say(tenant, TRUTH)
    memory = await create(tenant, "Green tea.", SourceReference(kind=MESSAGE, id=message.message_id))
    trusted = await trust_of(tenant, memory)

    changed = session_pb2.Message(message_id=message.message_id, content=LIE)
    await mallory.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=changed, update_mask={"paths": ["content"]})
    )
    await rescore(cluster, tenant)

    (hit,) = await recalled(tenant, kinds=[recall_pb2.ITEM_KIND_MESSAGE])
    stored = next(one for one in await recalled(tenant) if one.item_id == memory.memory_id)
    assert [trusted, hit.trust, stored.trust] == pytest.approx([0.5, 0.1, 0.1])


@pytest.mark.system
async def test_min_trust_leaves_out_messages_of_distrusted_authors_and_names_the_condition(tenant: Tenant) -> None:
    for number in range(30):
        await say(tenant, f"{LIE} I saw it {number} times.", name="parrot")
    truth = await say(tenant, TRUTH)
    await rate(tenant, "parrot", 0.1)

    kept = await recalled_ids(tenant, limit=5, min_trust=0.5)
    above = await recalled_ids(tenant, limit=5, min_trust=0.6)
    lies = await tenant.recall.Recall(
        recall_pb2.RecallRequest(
            query=QUESTION, min_relevance=0, min_trust=0.2, message_filter=recall_pb2.MessageFilter(speakers=["parrot"])
        )
    )

    assert kept == [truth.message_id]
    assert above == []
    assert not lies.hits
    assert set(lies.emptied_by) == {"min_trust", "speakers"}


@pytest.mark.system
async def test_many_messages_of_a_distrusted_author_do_not_crowd_the_truth_out(tenant: Tenant) -> None:
    truth = await say(tenant, "Tea is what Anna has at dawn.")
    for number in range(40):
        await say(tenant, f"{QUESTION} In the morning Anna drinks gin, glass {number}.", name="parrot")
    await rate(tenant, "parrot", 0.01)

    assert (await recalled_ids(tenant, limit=3))[0] == truth.message_id


async def test_the_rating_of_then_counts_as_of_a_time(tenant: Tenant) -> None:
    lie, truth = await say(tenant, LIE, name="parrot"), await say(tenant, TRUTH)
    await rate(tenant, "parrot", 0.1)
    known = to_timestamp(now())
    live = await recalled(tenant)
    await rate(tenant, "parrot", 0.9)

    then = await recalled(tenant, as_of_time=known)
    at_least = await recalled_ids(tenant, as_of_time=known, min_trust=0.5)

    assert [hit.item_id for hit in then] == [truth.message_id, lie.message_id]
    assert [(hit.item_id, hit.trust) for hit in then] == [(hit.item_id, hit.trust) for hit in live]
    assert [hit.score for hit in then] == pytest.approx([hit.score for hit in live])
    assert at_least == [truth.message_id]
    assert set(await recalled_ids(tenant, min_trust=0.5)) == {lie.message_id, truth.message_id}


async def test_a_context_cites_a_distrusted_message_after_the_truth_with_its_trust(tenant: Tenant) -> None:
    lie, truth = await say(tenant, LIE, name="parrot"), await say(tenant, TRUTH)
    await rate(tenant, "parrot", 0.1)
    recall = gateway_pb2.RecallRequest(query=QUESTION, min_relevance=0)

    cited = (await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=recall))).citations
    recall.min_trust = 0.5
    trusted = (await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=recall))).citations

    scores = {one.item_id: (one.score, one.trust) for one in cited}
    assert scores[lie.message_id][0] < scores[truth.message_id][0]
    assert scores[lie.message_id][1] == pytest.approx(0.1)
    assert [one.item_id for one in trusted] == [truth.message_id]
