"""One model takes another's place while everything goes on: reindex, comparison, cut-over, roll-back, end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import UUID, uuid4

import grpc
import pytest
from fix_cluster import refused
from fix_endpoint import DIMENSIONS, Answer, EmbeddingServer, vector_of
from fix_models import EMBEDDED, WORDS, Deployment, run_deployment, until
from fix_recall import RecallTenant, serving
from grpc import aio

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.embedded.server import Server
from skein_kit.database.named_queries import Query
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_kit.search_text.vector_columns import normalize
from skein_recall.models import rpc as models

CHANGE = Query.parse(
    "change", "UPDATE memory.memories SET content = :content WHERE tenant_id = :tenant_id AND memory_id = :item_id"
)
TEXTS = [
    "Green tea is steeped at eighty degrees.",
    "The harbour freezes over in January.",
    "A violin has four strings.",
    "Marta keeps bees behind the barn.",
    "The night train leaves at ten past eleven.",
]
# After so many milliseconds the last processes are killed, but not before they have done something.
LAST = 300
QUESTIONS = ["when does the train leave", "what does Marta keep", "how hot is the water for tea", "strings of a violin"]


async def remembered(recall_tenant: RecallTenant, *, index: bool = True) -> list[str]:
    return [await recall_tenant.remember(text, index=index) for text in TEXTS]


async def answers(recall_tenant: RecallTenant) -> list[tuple[str, list[tuple[str, float]]]]:
    results = [await recall_tenant.recall(question) for question in QUESTIONS]
    return [(one.model, [(hit.item_id, round(hit.similarity, 3)) for hit in one.hits]) for one in results]


async def test_a_reindex_makes_the_vectors_of_everything_beside_the_model_in_force(deployment: Deployment) -> None:
    ids = [
        *await remembered(deployment.tenant),
        await deployment.tenant.say("Good morning."),
        await deployment.tenant.remember("long " * 999),
    ]
    blank = await deployment.tenant.remember("", index=False)
    await deployment.backlog()
    before = await answers(deployment.tenant)
    await deployment.register()

    reindex = await deployment.start()
    assert (reindex.state, await deployment.due()) == (pb.REINDEX_STATE_RUNNING, [str(deployment.tenant.tenant_id)])
    made = await deployment.work()

    assert made == len(ids)
    counts = await deployment.vectors(WORDS)
    assert set(counts) == set(ids)
    assert counts[ids[0]] == 1
    assert counts[ids[-1]] > 2
    assert blank not in counts
    done = await deployment.progress(reindex.reindex_id)
    assert (done.state, done.embedded_count, done.missing_count) == (pb.REINDEX_STATE_COMPLETE, len(ids), 0)
    assert (done.tenant_count, done.done_tenant_count) == (1, 1)
    assert await deployment.due() == []
    assert await answers(deployment.tenant) == before


async def test_cut_over_and_roll_back_switch_query_and_index_together(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    before = await answers(deployment.tenant)

    await deployment.change()
    after = await answers(deployment.tenant)
    back = await deployment.use(EMBEDDED)

    assert {model for model, _ in before} == {EMBEDDED}
    assert {model for model, _ in after} == {WORDS}
    assert all(hits for _, hits in after)
    assert (back.embedding_model.model, back.embedding_model.active, back.former_model) == (EMBEDDED, True, WORDS)
    assert await answers(deployment.tenant) == before
    await deployment.use(WORDS)
    assert await answers(deployment.tenant) == after


async def test_everything_is_found_throughout_in_full_agreement_with_the_model_in_force(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    await deployment.register()
    expected = {EMBEDDED: [hits for _, hits in await answers(deployment.tenant)]}
    over = asyncio.Event()
    seen: list[str] = []

    async def ask() -> None:
        while not over.is_set():
            for recall_tenant, question in enumerate(QUESTIONS):
                answer = await deployment.tenant.recall(question)
                hits = [(hit.item_id, round(hit.similarity, 3)) for hit in answer.hits]
                assert not answer.dense_unavailable
                # The first answers of the new model are what the others are held against.
                known = expected.setdefault(answer.model, [[] for _ in QUESTIONS])
                known[recall_tenant] = known[recall_tenant] or hits
                assert hits == known[recall_tenant]
                seen.append(answer.model)

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask()) for _ in range(3)]
        reindex = await deployment.start()
        await deployment.work()
        for model in (WORDS, EMBEDDED, WORDS):
            await deployment.use(model)
            await deployment.work()
            now_seen = len(seen)
            while len(seen) < now_seen + 3 * len(QUESTIONS):
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in asking)
        over.set()

    assert (await deployment.progress(reindex.reindex_id)).missing_count == 0
    assert set(seen) == {EMBEDDED, WORDS}


async def test_items_written_meanwhile_get_the_vectors_of_both(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    await deployment.register()
    reindex = await deployment.start()
    await deployment.work()

    at_once = await deployment.tenant.remember("Owls hunt at night.")
    later = await deployment.tenant.remember("Foxes hunt at dusk.", index=False)
    await deployment.backlog()

    for model in (EMBEDDED, WORDS):
        assert {at_once, later} <= set(await deployment.vectors(model))
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    assert await deployment.backlog() == 0


async def test_an_item_that_changes_gets_the_vectors_of_its_new_text(deployment: Deployment) -> None:
    (item_id, *_) = await remembered(deployment.tenant)
    await deployment.change()

    async with deployment.service.memory.transaction(deployment.tenant.tenant_id) as tx:
        await postings.remove_documents(tx, deployment.tenant.tenant_id, [UUID(item_id)])
        document = postings.Document(item_id=UUID(item_id), kind="memory", text="owls", revision=2)
        await postings.add_documents(tx, deployment.tenant.tenant_id, [document])
        await tx.execute(CHANGE, tenant_id=deployment.tenant.tenant_id, item_id=UUID(item_id), content="owls")
    assert item_id not in await deployment.vectors(WORDS)
    await deployment.backlog()

    assert (await deployment.tenant.recall("owls")).hits[0].item_id == item_id
    await deployment.use(EMBEDDED)
    assert (await deployment.tenant.recall("owls")).hits[0].similarity > 0.8


async def test_a_model_that_fails_while_it_follows_keeps_nothing_from_the_one_in_force(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    await deployment.register()
    reindex = await deployment.start()
    await deployment.work()
    deployment.endpoint.breaks(Answer(b"401 Who"))

    late = await deployment.tenant.remember("Owls hunt at night.", index=False)
    await deployment.backlog()

    assert late in await deployment.vectors(EMBEDDED)
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_RUNNING
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await deployment.use(WORDS)
    assert await deployment.work() == 0
    deployment.endpoint.heals()
    assert await deployment.work() == 1
    assert late in await deployment.vectors(WORDS)
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    await deployment.use(WORDS)


async def test_the_way_back_is_barred_when_the_old_model_missed_something(deployment: Deployment) -> None:
    """The endpoint's model was in force, then failed to follow."""
    await remembered(deployment.tenant)
    reindex_id = await deployment.change()
    await deployment.use(EMBEDDED)
    deployment.endpoint.breaks(Answer(b"401 Who"))
    await deployment.tenant.remember("Owls hunt at night.", index=False)
    await deployment.backlog()

    for _ in range(2):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
            await deployment.use(WORDS)
        # Another look begins, and ends with the endpoint's first refusal.
        await deployment.work()
    deployment.endpoint.heals()

    async def is_complete() -> bool:
        # Until the circuit lets a request try, there is nothing to do.
        await deployment.work()
        return (await deployment.progress(reindex_id)).state == pb.REINDEX_STATE_COMPLETE

    await until(is_complete)
    await deployment.use(WORDS)


async def test_a_vector_that_came_with_an_item_stays_and_the_other_model_makes_its_own(deployment: Deployment) -> None:
    await deployment.register()
    await deployment.start()
    await deployment.work()
    tenant_id, item_id = (
        deployment.tenant.tenant_id,
        UUID(await deployment.tenant.remember("Owls hunt at night.", index=False)),
    )

    async with deployment.service.memory.transaction(tenant_id) as tx:
        await postings.remove_documents(tx, tenant_id, [item_id])
        vector = normalize([1.0, *[0.0] * 383])
        document = postings.Document(item_id=item_id, kind="memory", text="Owls hunt at night.", embedding=vector)
        await postings.add_documents(tx, tenant_id, [document])
    await deployment.backlog()

    (hit,) = (await deployment.tenant.recall(embedding=[1.0, *[0.0] * 383])).hits
    assert hit.similarity == pytest.approx(1.0)
    assert str(item_id) in await deployment.vectors(WORDS)


async def test_several_workers_make_each_vector_once(deployment: Deployment) -> None:
    ids = [await deployment.tenant.remember(f"note {number}") for number in range(80)]
    await deployment.register()
    reindex = await deployment.start()

    await asyncio.gather(*(deployment.work() for _ in range(4)))
    await deployment.work()

    assert await deployment.vectors(WORDS) == dict.fromkeys(ids, 1)
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE


async def test_an_interrupted_reindex_goes_on_where_it_stopped(deployment: Deployment) -> None:
    ids = [await deployment.tenant.remember(f"note {number}") for number in range(100)]
    await deployment.register()
    await deployment.start()
    request_count = len(deployment.endpoint.batches)
    working = asyncio.create_task(deployment.work())
    while len(deployment.endpoint.batches) < request_count + 2:
        await asyncio.sleep(0.005)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    made = await deployment.work()

    assert 0 < made < 100
    assert await deployment.vectors(WORDS) == dict.fromkeys(ids, 1)


async def test_a_process_that_learns_of_a_change_late_leaves_no_gap(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    late = deployment.settings | {
        "SKEIN_ADVANCED_RECALL_MODELS_SECONDS": "3600",
        "SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "3600",
    }
    async with serving(deployment.service.url, deployment.service.key, **late) as second:
        there = RecallTenant(second, deployment.tenant.tenant_id)
        before = await answers(there)
        await deployment.change()
        assert await answers(there) == before

        owls = await there.remember("Owls hunt at night.")
        foxes = await deployment.tenant.remember("Foxes hunt at dusk.")
        assert owls not in await deployment.vectors(WORDS)
        await deployment.backlog()
        await deployment.work()

        for model in (EMBEDDED, WORDS):
            assert {owls, foxes} <= set(await deployment.vectors(model))
        assert (await deployment.tenant.recall("owls at night")).hits[0].item_id == owls
        assert (await there.recall("a vixen in the twilight")).hits[0].item_id == foxes


@pytest.mark.essential
@pytest.mark.timeout(240)
async def test_processes_that_are_killed_at_any_moment_lose_nothing(deployment: Deployment) -> None:
    ids = [await deployment.tenant.remember(f"note {number}", index=False) for number in range(400)]
    while await deployment.backlog():
        pass
    await deployment.register(batch_size=4)
    slowly = pb.StartReindexRequest(model=WORDS, texts_per_second=100)
    reindex = (await deployment.operator.StartReindex(slowly)).reindex
    arguments = (deployment.service.url, str(deployment.tenant.tenant_id), deployment.endpoint.url)

    for milliseconds in (5, 130, LAST):
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fix_reindexing", *arguments,
                cwd=Path(__file__).parents[1],
                stdout=asyncio.subprocess.PIPE,
            )
            for _ in range(2)
        ]  # fmt: skip
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"begun\n"
        # However far they get, nothing is waited for.
        await asyncio.sleep(milliseconds / 1000)
        if milliseconds == LAST:
            await until(lambda: deployment.vectors(WORDS), seconds=60)
        for process in processes:
            process.kill()
            await process.wait()
    await deployment.work()

    assert await deployment.vectors(WORDS) == dict.fromkeys(ids, 1)
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE


async def test_texts_go_no_faster_than_they_may(deployment: Deployment) -> None:
    for number in range(96):
        await deployment.tenant.remember(f"note {number}")
    await deployment.register()
    request = pb.StartReindexRequest(model=WORDS, texts_per_second=100)
    await deployment.operator.StartReindex(request)
    started = asyncio.get_running_loop().time()

    await asyncio.gather(deployment.work(), deployment.work())

    assert asyncio.get_running_loop().time() - started > 0.6


async def test_a_reindex_of_one_tenant_touches_no_other(deployment: Deployment) -> None:
    other = await deployment.service.new_tenant()
    mine, theirs = await deployment.tenant.remember("owls"), await other.remember("owls")
    await deployment.register()

    reindex = await deployment.start(tenant_id=str(deployment.tenant.tenant_id))
    assert await deployment.due() == [str(deployment.tenant.tenant_id)]
    await deployment.work()
    await deployment.work(other)

    assert set(await deployment.vectors(WORDS)) == {mine}
    assert theirs not in await deployment.vectors(WORDS)
    done = await deployment.progress(reindex.reindex_id)
    assert (done.state, done.tenant_count) == (pb.REINDEX_STATE_COMPLETE, 1)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await deployment.use(WORDS)


async def test_an_item_that_the_model_refuses_bars_the_cut_over_until_it_is_forced(
    deployment: Deployment,
) -> None:
    await remembered(deployment.tenant)
    await deployment.tenant.remember("gristle")
    deployment.endpoint.chokes_on = "gristle"
    await deployment.register()

    reindex = await deployment.start()
    await deployment.work()

    done = await deployment.progress(reindex.reindex_id)
    assert (done.state, done.embedded_count, done.missing_count) == (pb.REINDEX_STATE_COMPLETE, len(TEXTS), 1)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await deployment.use(WORDS)
    await deployment.use(WORDS, force=True)
    (hit, *_) = (await deployment.tenant.recall("bread and gristle")).hits
    assert hit.memory.content == "gristle" or not hit.HasField("similarity")


async def test_a_reindex_of_a_caller_s_model_counts_missing_vectors(deployment: Deployment) -> None:
    ids = await remembered(deployment.tenant)
    await deployment.register("ours", provider="caller", endpoint="", dimensions=4)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await deployment.use("ours")
    first = await deployment.start("ours")
    await deployment.work()
    assert (await deployment.progress(first.reindex_id)).missing_count == len(ids)

    for item_id in ids:
        put = pb.PutEmbeddingRequest(item_id=item_id, model="ours", embeddings=[pb.Embedding(values=[1, 2, 3, 4])])
        await deployment.tenant.stub.PutEmbedding(put)
    again = await deployment.start("ours")
    await deployment.work()

    assert again.reindex_id == first.reindex_id
    assert (await deployment.progress(first.reindex_id)).missing_count == 0
    await deployment.use("ours")
    answer = await deployment.tenant.recall(embedding=[1, 2, 3, 4])
    assert (answer.model, len(answer.hits)) == ("ours", len(ids))
    assert (await deployment.tenant.recall("tea")).dense_unavailable


async def test_a_cancelled_reindex_ends_and_its_model_follows_no_longer(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    await deployment.register()
    reindex = await deployment.start()
    await deployment.work()

    cancelled = await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    again = await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    late = await deployment.tenant.remember("Owls hunt at night.")

    assert cancelled == again
    assert cancelled.reindex.state == pb.REINDEX_STATE_CANCELLED
    assert late not in await deployment.vectors(WORDS)
    assert await deployment.due() == []
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await deployment.use(WORDS)
    assert (await deployment.start()).reindex_id != reindex.reindex_id


async def test_a_model_in_force_or_in_use_is_not_dropped_and_another_goes_with_its_table(
    deployment: Deployment,
) -> None:
    await remembered(deployment.tenant)
    reindex_id = await deployment.change()
    drop = deployment.operator.DeleteEmbeddingModel
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_ACTIVE"):
        await drop(pb.DeleteEmbeddingModelRequest(model=WORDS))
    await deployment.use(EMBEDDED)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_IN_USE"):
        await drop(pb.DeleteEmbeddingModelRequest(model=WORDS))
    await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex_id))

    await drop(pb.DeleteEmbeddingModelRequest(model=WORDS, request_id="drop"))
    await drop(pb.DeleteEmbeddingModelRequest(model=WORDS, request_id="drop"))

    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await drop(pb.DeleteEmbeddingModelRequest(model=WORDS))
    async with deployment.service.superuser() as connection:
        assert await connection.fetchval("SELECT to_regclass('recall.embeddings_words')") is None
    assert (await answers(deployment.tenant))[0][0] == EMBEDDED
    await deployment.register(dimensions=32)


async def test_a_model_that_is_dropped_under_a_call_is_left_out(deployment: Deployment) -> None:
    [item_id, *_] = await remembered(deployment.tenant)
    await deployment.register()
    async with deployment.service.superuser() as connection, connection.transaction():
        await connection.execute("SELECT recall.delete_model($1, 'infinity')", WORDS)
        call = deployment.tenant.stub.BatchGetIndexStates(pb.BatchGetIndexStatesRequest(item_ids=[item_id]))
        # It has read the registry, and waits for the table.
        await until(lambda: waits(deployment))

    response = await call

    assert [vectors.model for vectors in response.states[0].vectors] == [EMBEDDED]


async def waits(deployment: Deployment) -> bool:
    """Whether a statement waits for a lock in the database of the service."""
    async with deployment.service.superuser() as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return await connection.fetchval(query) is not None


async def test_a_process_that_does_not_know_yet_that_a_model_is_dropped_refuses_its_vectors(
    server: Server, template: str, endpoint: EmbeddingServer
) -> None:
    settle = {"SKEIN_ADVANCED_RECALL_SETTLE_SECONDS": "600"}
    vector = [pb.Embedding(values=[1.0] + [0.0] * (DIMENSIONS - 1))]
    async with run_deployment(
        server, template, endpoint, SKEIN_ADVANCED_RECALL_MODELS_SECONDS="600", **settle
    ) as deployment:
        item_id = await deployment.tenant.remember(TEXTS[0])
        await deployment.register()
        request = pb.PutEmbeddingRequest(item_id=item_id, model=WORDS, embeddings=vector)
        await deployment.tenant.stub.PutEmbedding(request)
        async with deployment.service.superuser() as connection:
            await connection.execute("SELECT recall.delete_model($1, 'infinity')", WORDS)

        with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
            await deployment.tenant.stub.PutEmbedding(request)
        with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
            await deployment.operator.CompareEmbeddingModels(
                pb.CompareEmbeddingModelsRequest(
                    model=WORDS, tenant_id=str(deployment.tenant.tenant_id), queries=["tea"]
                )
            )


async def test_a_table_comes_and_goes_without_keeping_anybody_waiting(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that reads and writes documents stays open for a while."""
    # However slow this machine is, they do not give up meanwhile.
    monkeypatch.setattr(models, "_ATTEMPTS", 1000)
    await remembered(deployment.tenant)
    await deployment.register()
    async with deployment.service.superuser() as connection:
        await connection.execute("BEGIN; UPDATE recall.documents SET pending = false")
        changing = [
            asyncio.create_task(deployment.register("other")),
            asyncio.create_task(deployment.drop(WORDS)),
        ]
        # A call that waits for the transaction would wait for ever: it ends below.
        for question in QUESTIONS * 3:
            async with asyncio.timeout(30):
                await deployment.tenant.recall(question)
                await deployment.tenant.remember(question, index=False)
        assert not any(task.done() for task in changing)
        await connection.execute("COMMIT")

    await asyncio.gather(*changing)


async def test_a_model_is_not_dropped_just_after_it_was_in_use(deployment: Deployment) -> None:
    await deployment.register()
    reindex = await deployment.start()
    await deployment.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    async with deployment.service.superuser() as connection:
        await connection.execute("UPDATE recall.embedding_models SET leave_time = now() + interval '1 hour'")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_IN_USE"):
        await deployment.operator.DeleteEmbeddingModel(pb.DeleteEmbeddingModelRequest(model=WORDS))


async def test_models_are_compared_on_what_was_asked_lately_tenant_by_tenant(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    other = await deployment.service.new_tenant()
    await other.remember("owls")
    await deployment.register()
    await deployment.start()
    await deployment.work()
    await deployment.work(other)
    await answers(deployment.tenant)
    await other.recall("owls")

    compared = await deployment.operator.CompareEmbeddingModels(pb.CompareEmbeddingModelsRequest(model=WORDS, limit=1))

    assert (compared.active_model, compared.model, compared.limit, compared.truncated) == (EMBEDDED, WORDS, 1, False)
    by_tenant = {one.tenant_id: one for one in compared.tenants}
    assert by_tenant[str(other.tenant_id)].agreement == 1.0
    mine = by_tenant[str(deployment.tenant.tenant_id)]
    assert mine.query_count == len(QUESTIONS)
    assert mine.same_first_count / len(QUESTIONS) == mine.agreement
    assert compared.overall.query_count == len(QUESTIONS) + 1
    itself = await deployment.operator.CompareEmbeddingModels(pb.CompareEmbeddingModelsRequest(model=EMBEDDED))
    assert itself.overall.agreement == 1.0


async def test_models_are_compared_on_given_queries_in_a_tenant(deployment: Deployment) -> None:
    await remembered(deployment.tenant)
    await deployment.register()
    request = pb.CompareEmbeddingModelsRequest(
        model=WORDS, queries=["tea", "violin"], tenant_id=str(deployment.tenant.tenant_id)
    )

    before = await deployment.operator.CompareEmbeddingModels(request)
    await deployment.start()
    await deployment.work()
    after = await deployment.operator.CompareEmbeddingModels(request)

    assert (before.overall.query_count, before.overall.agreement) == (2, 0.0)
    assert after.overall.agreement == 1.0
    request.tenant_id = ""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await deployment.operator.CompareEmbeddingModels(request)
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await deployment.operator.CompareEmbeddingModels(pb.CompareEmbeddingModelsRequest(model="nobody-s"))
    deployment.endpoint.breaks(Answer(b"401 Who"))
    request = pb.CompareEmbeddingModelsRequest(
        model=WORDS, queries=["bees"], tenant_id=str(deployment.tenant.tenant_id)
    )
    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await deployment.operator.CompareEmbeddingModels(request)


async def test_a_reindex_begins_only_with_an_endpoint_that_answers_rightly(deployment: Deployment) -> None:
    await deployment.register()
    deployment.endpoint.breaks(Answer(body={"data": [{"index": 0, "embedding": vector_of("x", DIMENSIONS + 1)}]}))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_RESPONSE_INVALID"):
        await deployment.start()
    deployment.endpoint.breaks(Answer(b"403 No"))
    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await deployment.start()

    assert list((await deployment.operator.ListReindexes(pb.ListReindexesRequest())).reindexes) == []
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await deployment.start("nobody-s")
    deployment.endpoint.heals()
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await deployment.start(EMBEDDED, tenant_id=str(uuid4()))


async def test_reindexes_are_listed_page_by_page(deployment: Deployment) -> None:
    await deployment.register("one")
    await deployment.register("two")
    started = [(await deployment.start(name)).reindex_id for name in ("one", "two", EMBEDDED)]

    first = await deployment.operator.ListReindexes(pb.ListReindexesRequest(page_size=2))
    second = await deployment.operator.ListReindexes(
        pb.ListReindexesRequest(page_size=2, page_token=first.next_page_token)
    )

    assert [one.reindex_id for one in [*first.reindexes, *second.reindexes]] == started[::-1]
    assert second.next_page_token == ""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await deployment.operator.ListReindexes(pb.ListReindexesRequest(page_size=2, page_token="x"))
    with refused(grpc.StatusCode.NOT_FOUND, "REINDEX_NOT_FOUND"):
        await deployment.progress(str(new_id(now())))


async def test_a_model_that_is_gone_keeps_nothing_from_another_one(deployment: Deployment) -> None:
    ids = await remembered(deployment.tenant)
    await deployment.register("gone", endpoint=f"{deployment.endpoint.url}/gone/v1")
    async with deployment.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO recall.reindexes (reindex_id, model, texts_per_second, settle_time, is_complete, next_time, "
            "create_time, created_by) VALUES ($1, 'gone', 100, now(), false, now(), now(), 'test')",
            new_id(now()),
        )
    await deployment.register()
    reindex = await deployment.start()

    made = await deployment.work()

    assert (made, set(await deployment.vectors(WORDS))) == (len(ids), set(ids))
    assert (await deployment.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    assert await deployment.due() == [str(deployment.tenant.tenant_id)]


async def test_repeated_requests_have_one_effect(deployment: Deployment) -> None:
    await deployment.register()
    start = pb.StartReindexRequest(model=WORDS, request_id="start")
    assert await deployment.operator.StartReindex(start) == await deployment.operator.StartReindex(start)
    await deployment.work()
    use = pb.ActivateEmbeddingModelRequest(model=WORDS, request_id="use")
    first = await deployment.operator.ActivateEmbeddingModel(use)
    await deployment.use(EMBEDDED)

    assert await deployment.operator.ActivateEmbeddingModel(use) == first
    assert (await deployment.tenant.recall("tea")).model == EMBEDDED


async def test_two_who_switch_at_once_leave_one_model_in_force(deployment: Deployment) -> None:
    await deployment.register()
    await deployment.start()
    await deployment.work()

    outcomes = await asyncio.gather(*(deployment.use(model) for model in (WORDS, EMBEDDED) * 4), return_exceptions=True)

    assert [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, aio.AioRpcError)] == []
    listed = (await deployment.operator.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models
    assert len([model for model in listed if model.active]) == 1
