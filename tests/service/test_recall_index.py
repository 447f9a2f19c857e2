from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, timedelta
from uuid import UUID, uuid4

import pytest
from fix_catalogue import over
from fix_metrics import sample
from fix_recall import RecallServer, RecallTenant, serving
from joserfc.jwk import OKPKey

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster import embedded
from skein_cluster.embedded.server import Server
from skein_kit.ids import now
from skein_kit.search_text import postings
from skein_recall.embedded_model import embedder
from skein_recall.embedded_model.encoder import Encoder
from skein_recall.index.indexer import BATCH_CHARACTERS, BATCH_ITEMS, RETRY_AFTER_SECONDS, FailedItems, batches
from skein_recall.providers.text_embedder import IndexItem


async def vectors_of(recall_server: RecallServer, item_id: str) -> int:
    async with recall_server.superuser() as connection:
        count: int = await connection.fetchval(
            "SELECT count(*) FROM recall.embeddings_all_minilm_l6_v2 WHERE item_id = $1", UUID(item_id)
        )
    return count


async def test_an_item_is_found_by_its_words_before_it_has_vectors(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea", index=False)

    (hit,) = (await recall_tenant.recall("green tea")).hits

    assert not hit.HasField("similarity")
    assert hit.components[0].rank == 0


async def test_the_backlog_makes_the_vectors_of_both_kinds_oldest_first(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The cat caught a mouse.", title="Barn", key="k", index=False)
    for number in range(3):
        await recall_tenant.say(f"Felines hunt rodents, {number}.", index=False)

    first = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=2))
    second = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=2))
    third = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())

    assert [(answer.indexed_count, answer.more) for answer in (first, second, third)] == [
        (2, True),
        (2, False),
        (0, False),
    ]
    hits = (await recall_tenant.recall("predators of small animals", min_relevance=0)).hits
    assert len([hit for hit in hits if hit.HasField("similarity")]) == 4


async def test_a_call_embeds_no_more_characters_than_it_may(recall_tenant: RecallTenant) -> None:
    for text in ("green tea", "black tea" + " " * 200 + "with milk", "white tea"):
        await recall_tenant.remember(text, index=False)

    first = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=8, max_characters=100))
    second = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=8, max_characters=100))
    third = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=8, max_characters=1000))

    assert [(answer.indexed_count, answer.more) for answer in (first, second, third)] == [
        (1, True),
        (0, True),
        (2, False),
    ]


async def test_a_paused_backlog_waits_and_a_ceiling_of_embeddings_holds(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    for number in range(5):
        await recall_tenant.say(f"Felines hunt rodents, {number}.", index=False)
    async with recall_server.superuser() as connection:

        async def control(values: str) -> None:
            await connection.execute(
                "INSERT INTO tenancy.jobs (tenant_id, kind, refill_time, day_time)"
                " VALUES ($1, 'embedding', now(), date_trunc('day', now(), 'UTC')) ON CONFLICT DO NOTHING",
                recall_tenant.tenant_id,
            )
            await connection.execute(
                f"UPDATE tenancy.jobs SET {values} WHERE tenant_id = $1",  # noqa: S608 - written here.
                recall_tenant.tenant_id,
            )

        await control("pause_time = now(), paused_by = 'test'")
        paused = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
        await control("pause_time = NULL, paused_by = '', max_cost_per_day = 2")
        some = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
        none = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
        await control("max_cost_per_day = NULL")
        rest = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
        job = await connection.fetchrow(
            "SELECT done_count, day_cost, is_running FROM tenancy.jobs WHERE tenant_id = $1",
            recall_tenant.tenant_id,
        )

    assert [answer.indexed_count for answer in (paused, some, none, rest)] == [0, 2, 0, 3]
    assert [answer.pending_count for answer in (paused, some, none, rest)] == [5, 3, 3, 0]
    assert not any(answer.more or answer.active for answer in (paused, none))
    assert job is not None
    assert tuple(job) == (5, 5, False)


async def test_the_worker_learns_how_much_waits_for_vectors_and_since_when(recall_tenant: RecallTenant) -> None:
    before = now() - timedelta(seconds=1)
    for number in range(3):
        await recall_tenant.say(f"Felines hunt rodents, {number}.", index=False)

    looked = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(count_only=True))
    partly = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=2))
    done = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())

    assert [answer.indexed_count for answer in (looked, partly, done)] == [0, 2, 1]
    assert [answer.pending_count for answer in (looked, partly, done)] == [3, 1, 0]
    assert before <= looked.oldest_pending_time.ToDatetime(UTC) <= partly.oldest_pending_time.ToDatetime(UTC) <= now()
    assert not done.HasField("oldest_pending_time")
    assert (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(count_only=True))).active is False


async def test_the_backlog_makes_the_same_vectors_as_indexing_at_once(recall_tenant: RecallTenant) -> None:
    at_once = await recall_tenant.remember("green tea", title="Marta", key="tea.kind", type="fact")
    later = await recall_tenant.remember("green tea", title="Marta", key="tea.kind", type="fact", index=False)

    await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())

    similar = {hit.item_id: hit.similarity for hit in (await recall_tenant.recall("what does Marta drink?")).hits}
    assert similar[at_once] == pytest.approx(similar[later])


@pytest.mark.system
async def test_several_callers_at_once_store_a_backlog_once(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    ids = [await recall_tenant.remember(f"tea {number}", index=False) for number in range(40)]

    await asyncio.gather(*(recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest()) for _ in range(4)))

    assert [await vectors_of(recall_server, item_id) for item_id in ids] == [1] * 40
    assert (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())).indexed_count == 0


@pytest.mark.system
async def test_callers_with_the_same_items_in_another_order_do_not_disturb_one_another(
    recall_tenant: RecallTenant,
) -> None:
    ids = [await recall_tenant.remember(f"tea {number}", index=False) for number in range(30)]
    items = [pb.IndexItem(item_id=item_id, revision=1, text="tea") for item_id in ids]

    answers = await asyncio.gather(
        *(recall_tenant.index.IndexItems(pb.IndexItemsRequest(items=batch)) for batch in [items, items[::-1]] * 4)
    )

    assert {answer.indexed_count for answer in answers} == {30}


@pytest.mark.system
async def test_a_long_item_has_several_vectors_and_indexing_again_leaves_them(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    long = "The weather was fair and nobody had much to say about it. " * 100
    item_id = await recall_tenant.remember(long)
    first = await vectors_of(recall_server, item_id)

    again = await recall_tenant.embed(UUID(item_id), long)

    assert first > 3
    assert (again, await vectors_of(recall_server, item_id)) == (1, first)


async def test_an_item_that_changed_or_went_away_is_passed_over(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    item_id = await recall_tenant.remember("green tea", index=False)

    assert await recall_tenant.embed(UUID(item_id), "old text", revision=7) == 0
    assert await recall_tenant.embed(uuid4(), "nothing") == 0
    assert await vectors_of(recall_server, item_id) == 0


async def test_an_item_of_another_tenant_is_passed_over(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    item_id = await recall_tenant.remember("green tea", index=False)
    other = await recall_server.new_tenant()

    assert await other.embed(UUID(item_id), "mine now") == 0
    assert await vectors_of(recall_server, item_id) == 0


async def test_the_same_item_twice_in_a_request_is_indexed_once(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    item_id = await recall_tenant.remember("green tea", index=False)
    item = pb.IndexItem(item_id=item_id, revision=1, text="green tea")

    answer = await recall_tenant.index.IndexItems(pb.IndexItemsRequest(items=[item, item]))

    assert (answer.indexed_count, await vectors_of(recall_server, item_id)) == (1, 1)


async def test_vectors_and_postings_go_with_the_document(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    item_id = await recall_tenant.remember("green tea")

    async with recall_server.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.remove_documents(tx, recall_tenant.tenant_id, [UUID(item_id)])

    assert await vectors_of(recall_server, item_id) == 0
    assert await recall_tenant.contents("green tea") == []


async def test_a_blank_text_has_no_vectors_and_is_not_pending(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    item_id = await recall_tenant.remember("", index=False)

    first = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
    again = await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())

    assert (first.indexed_count, again.indexed_count) == (1, 0)
    assert await vectors_of(recall_server, item_id) == 0


class FailingModel(Encoder):
    """The model, but for one word that it chokes on while `chokes` is set."""

    fails = True

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if self.fails and any("gristle" in text for text in texts):
            raise ArithmeticError
        return super().tokens(texts)


@pytest.fixture
async def failing_model(server: Server, template: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecallServer]:
    """A recall service whose model chokes."""
    monkeypatch.setattr(embedder, "Encoder", FailingModel)
    monkeypatch.setattr(FailingModel, "fails", True)
    name = f"choking_{uuid4().hex}"
    await embedded.create_database(server, name, template)
    key = OKPKey.generate_key("Ed25519", parameters={"kid": "test"})
    async with serving(server.url(user="postgres", database=name), key) as service:
        yield service
    await embedded.drop_database(server, name)


@pytest.mark.system
async def test_an_item_that_cannot_be_embedded_holds_up_nothing_newer(
    failing_model: RecallServer, log: io.StringIO
) -> None:
    recall_tenant = await failing_model.new_tenant()
    ids = [await recall_tenant.remember(text, index=False) for text in ("bread", "gristle", "butter", "cheese", "jam")]
    before = failures()

    answers = [await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest(limit=2)) for _ in range(3)]

    assert [(answer.indexed_count, answer.more) for answer in answers] == [(1, True), (2, True), (1, False)]
    assert [await vectors_of(failing_model, item_id) for item_id in ids] == [1, 0, 1, 1, 1]
    assert failures() - before == 1
    log_text = log.getvalue()
    assert log_text.count("item_embedding_failed") == 1
    assert ids[1] in log_text


@pytest.mark.system
async def test_an_item_that_failed_is_embedded_when_it_is_offered_again(
    failing_model: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall_tenant = await failing_model.new_tenant()
    item_id = await recall_tenant.remember("gristle", index=False)
    await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())
    monkeypatch.setattr(FailingModel, "fails", False)

    assert await recall_tenant.embed(UUID(item_id), "gristle") == 1
    assert await vectors_of(failing_model, item_id) == 1


def test_a_failed_item_is_passed_over_for_a_while_and_then_tried_alone() -> None:
    at = 0.0
    failed, tenant_id, item_id = FailedItems(clock=lambda: at), uuid4(), uuid4()

    failed.add(tenant_id, item_id, ValueError())
    assert failed.skipped(tenant_id) == [item_id]
    assert failed.skipped(uuid4()) == []
    at = RETRY_AFTER_SECONDS
    assert failed.skipped(tenant_id) == []
    assert failed.has(tenant_id, item_id)
    failed.remove(tenant_id, item_id)
    assert not failed.has(tenant_id, item_id)


def failures() -> float:
    return sample("skein_embedder_failed_documents_total") or 0.0


@over(
    ("sizes", "expected"),
    [
        ([], []),
        ([1] * (2 * BATCH_ITEMS + 1), [BATCH_ITEMS, BATCH_ITEMS, 1]),
        ([BATCH_CHARACTERS * 2, 1, 1], [1, 2]),
        ([1, BATCH_CHARACTERS, 1], [1, 1, 1]),
    ],
)
def test_items_are_worked_on_in_portions_of_bounded_size(sizes: list[int], expected: list[int]) -> None:
    items = [IndexItem(uuid4(), 1, "x" * size) for size in sizes]

    cut = list(batches(items))

    assert [len(portion) for portion in cut] == expected
    assert [item for portion in cut for item in portion] == items
