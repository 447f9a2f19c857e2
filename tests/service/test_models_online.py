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
from fix_models import EMBEDDED, WORDS, House, housed, until
from fix_recall import Place, serving
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


async def remembered(place: Place, *, index: bool = True) -> list[str]:
    return [await place.remember(text, index=index) for text in TEXTS]


async def answers(place: Place) -> list[tuple[str, list[tuple[str, float]]]]:
    found = [await place.recall(question) for question in QUESTIONS]
    return [(one.model, [(hit.item_id, round(hit.similarity, 3)) for hit in one.hits]) for one in found]


async def test_a_reindex_makes_the_vectors_of_everything_beside_the_model_in_force(house: House) -> None:
    ids = [
        *await remembered(house.place),
        await house.place.say("Good morning."),
        await house.place.remember("long " * 999),
    ]
    blank = await house.place.remember("", index=False)
    await house.backlog()
    before = await answers(house.place)
    await house.register()

    reindex = await house.start()
    assert (reindex.state, await house.due()) == (pb.REINDEX_STATE_RUNNING, [str(house.place.tenant_id)])
    made = await house.work()

    assert made == len(ids)
    counts = await house.vectors(WORDS)
    assert set(counts) == set(ids)
    assert counts[ids[0]] == 1
    assert counts[ids[-1]] > 2
    assert blank not in counts
    done = await house.progress(reindex.reindex_id)
    assert (done.state, done.embedded_count, done.missing_count) == (pb.REINDEX_STATE_COMPLETE, len(ids), 0)
    assert (done.tenant_count, done.done_tenant_count) == (1, 1)
    assert await house.due() == []
    assert await answers(house.place) == before


async def test_cut_over_and_roll_back_switch_query_and_index_together(house: House) -> None:
    await remembered(house.place)
    before = await answers(house.place)

    await house.change()
    after = await answers(house.place)
    back = await house.use(EMBEDDED)

    assert {model for model, _ in before} == {EMBEDDED}
    assert {model for model, _ in after} == {WORDS}
    assert all(hits for _, hits in after)
    assert (back.embedding_model.model, back.embedding_model.active, back.former_model) == (EMBEDDED, True, WORDS)
    assert await answers(house.place) == before
    await house.use(WORDS)
    assert await answers(house.place) == after


async def test_everything_is_found_throughout_in_full_agreement_with_the_model_in_force(house: House) -> None:
    await remembered(house.place)
    await house.register()
    expected = {EMBEDDED: [hits for _, hits in await answers(house.place)]}
    over = asyncio.Event()
    seen: list[str] = []

    async def ask() -> None:
        while not over.is_set():
            for place, question in enumerate(QUESTIONS):
                answer = await house.place.recall(question)
                hits = [(hit.item_id, round(hit.similarity, 3)) for hit in answer.hits]
                assert not answer.dense_unavailable
                # The first answers of the new model are what the others are held against.
                known = expected.setdefault(answer.model, [[] for _ in QUESTIONS])
                known[place] = known[place] or hits
                assert hits == known[place]
                seen.append(answer.model)

    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask()) for _ in range(3)]
        reindex = await house.start()
        await house.work()
        for model in (WORDS, EMBEDDED, WORDS):
            await house.use(model)
            await house.work()
            now_seen = len(seen)
            while len(seen) < now_seen + 3 * len(QUESTIONS):
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in asking)
        over.set()

    assert (await house.progress(reindex.reindex_id)).missing_count == 0
    assert set(seen) == {EMBEDDED, WORDS}


async def test_what_is_written_meanwhile_gets_the_vectors_of_both(house: House) -> None:
    await remembered(house.place)
    await house.register()
    reindex = await house.start()
    await house.work()

    at_once = await house.place.remember("Owls hunt at night.")
    later = await house.place.remember("Foxes hunt at dusk.", index=False)
    await house.backlog()

    for model in (EMBEDDED, WORDS):
        assert {at_once, later} <= set(await house.vectors(model))
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    assert await house.backlog() == 0


async def test_an_item_that_changes_gets_the_vectors_of_its_new_text(house: House) -> None:
    (item_id, *_) = await remembered(house.place)
    await house.change()

    async with house.service.memory.transaction(house.place.tenant_id) as tx:
        await postings.remove_documents(tx, house.place.tenant_id, [UUID(item_id)])
        document = postings.Document(item_id=UUID(item_id), kind="memory", text="owls", revision=2)
        await postings.add_documents(tx, house.place.tenant_id, [document])
        await tx.execute(CHANGE, tenant_id=house.place.tenant_id, item_id=UUID(item_id), content="owls")
    assert item_id not in await house.vectors(WORDS)
    await house.backlog()

    assert (await house.place.recall("owls")).hits[0].item_id == item_id
    await house.use(EMBEDDED)
    assert (await house.place.recall("owls")).hits[0].similarity > 0.8


async def test_a_model_that_fails_while_it_follows_keeps_nothing_from_the_one_in_force(house: House) -> None:
    await remembered(house.place)
    await house.register()
    reindex = await house.start()
    await house.work()
    house.endpoint.breaks(Answer(b"401 Who"))

    late = await house.place.remember("Owls hunt at night.", index=False)
    await house.backlog()

    assert late in await house.vectors(EMBEDDED)
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_RUNNING
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await house.use(WORDS)
    assert await house.work() == 0
    house.endpoint.heals()
    assert await house.work() == 1
    assert late in await house.vectors(WORDS)
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    await house.use(WORDS)


async def test_the_way_back_is_barred_when_the_old_model_missed_something(house: House) -> None:
    """The endpoint's model was in force, then failed to follow."""
    await remembered(house.place)
    reindex_id = await house.change()
    await house.use(EMBEDDED)
    house.endpoint.breaks(Answer(b"401 Who"))
    await house.place.remember("Owls hunt at night.", index=False)
    await house.backlog()

    for _ in range(2):
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
            await house.use(WORDS)
        # Another look begins, and ends with the endpoint's first refusal.
        await house.work()
    house.endpoint.heals()

    async def is_complete() -> bool:
        # Until the circuit lets a request try, there is nothing to do.
        await house.work()
        return (await house.progress(reindex_id)).state == pb.REINDEX_STATE_COMPLETE

    await until(is_complete)
    await house.use(WORDS)


async def test_a_vector_that_came_with_an_item_stays_and_the_other_model_makes_its_own(house: House) -> None:
    await house.register()
    await house.start()
    await house.work()
    tenant_id, item_id = house.place.tenant_id, UUID(await house.place.remember("Owls hunt at night.", index=False))

    async with house.service.memory.transaction(tenant_id) as tx:
        await postings.remove_documents(tx, tenant_id, [item_id])
        vector = normalize([1.0, *[0.0] * 383])
        document = postings.Document(item_id=item_id, kind="memory", text="Owls hunt at night.", embedding=vector)
        await postings.add_documents(tx, tenant_id, [document])
    await house.backlog()

    (hit,) = (await house.place.recall(embedding=[1.0, *[0.0] * 383])).hits
    assert hit.similarity == pytest.approx(1.0)
    assert str(item_id) in await house.vectors(WORDS)


async def test_several_workers_make_each_vector_once(house: House) -> None:
    ids = [await house.place.remember(f"note {number}") for number in range(80)]
    await house.register()
    reindex = await house.start()

    await asyncio.gather(*(house.work() for _ in range(4)))
    await house.work()

    assert await house.vectors(WORDS) == dict.fromkeys(ids, 1)
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE


async def test_what_was_interrupted_goes_on_where_it_stopped(house: House) -> None:
    ids = [await house.place.remember(f"note {number}") for number in range(100)]
    await house.register()
    await house.start()
    asked = len(house.endpoint.asked)
    working = asyncio.create_task(house.work())
    while len(house.endpoint.asked) < asked + 2:
        await asyncio.sleep(0.005)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    made = await house.work()

    assert 0 < made < 100
    assert await house.vectors(WORDS) == dict.fromkeys(ids, 1)


async def test_a_process_that_learns_of_a_change_late_leaves_no_gap(house: House) -> None:
    await remembered(house.place)
    late = house.settings | {"SKEIN_RECALL_MODELS_SECONDS": "3600", "SKEIN_RECALL_SETTLE_SECONDS": "3600"}
    async with serving(house.service.url, house.service.key, **late) as second:
        there = Place(second, house.place.tenant_id)
        before = await answers(there)
        await house.change()
        assert await answers(there) == before

        owls = await there.remember("Owls hunt at night.")
        foxes = await house.place.remember("Foxes hunt at dusk.")
        assert owls not in await house.vectors(WORDS)
        await house.backlog()
        await house.work()

        for model in (EMBEDDED, WORDS):
            assert {owls, foxes} <= set(await house.vectors(model))
        assert (await house.place.recall("owls at night")).hits[0].item_id == owls
        assert (await there.recall("a vixen in the twilight")).hits[0].item_id == foxes


@pytest.mark.timeout(240)
async def test_processes_that_are_killed_at_any_moment_lose_nothing(house: House) -> None:
    ids = [await house.place.remember(f"note {number}", index=False) for number in range(400)]
    while await house.backlog():
        pass
    await house.register(batch_size=4)
    slowly = pb.StartReindexRequest(model=WORDS, texts_per_second=100)
    reindex = (await house.operator.StartReindex(slowly)).reindex
    arguments = (house.service.url, str(house.place.tenant_id), house.endpoint.url)

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
            await until(lambda: house.vectors(WORDS), seconds=60)
        for process in processes:
            process.kill()
            await process.wait()
    await house.work()

    assert await house.vectors(WORDS) == dict.fromkeys(ids, 1)
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE


async def test_texts_go_no_faster_than_they_may(house: House) -> None:
    for number in range(96):
        await house.place.remember(f"note {number}")
    await house.register()
    request = pb.StartReindexRequest(model=WORDS, texts_per_second=100)
    await house.operator.StartReindex(request)
    started = asyncio.get_running_loop().time()

    await asyncio.gather(house.work(), house.work())

    assert asyncio.get_running_loop().time() - started > 0.6


async def test_a_reindex_of_one_tenant_touches_no_other(house: House) -> None:
    other = await house.service.new_tenant()
    mine, theirs = await house.place.remember("owls"), await other.remember("owls")
    await house.register()

    reindex = await house.start(tenant_id=str(house.place.tenant_id))
    assert await house.due() == [str(house.place.tenant_id)]
    await house.work()
    await house.work(other)

    assert set(await house.vectors(WORDS)) == {mine}
    assert theirs not in await house.vectors(WORDS)
    done = await house.progress(reindex.reindex_id)
    assert (done.state, done.tenant_count) == (pb.REINDEX_STATE_COMPLETE, 1)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await house.use(WORDS)


async def test_an_item_that_the_model_does_not_take_is_counted_and_bars_the_cut_over_until_it_is_forced(
    house: House,
) -> None:
    await remembered(house.place)
    await house.place.remember("gristle")
    house.endpoint.chokes_on = "gristle"
    await house.register()

    reindex = await house.start()
    await house.work()

    done = await house.progress(reindex.reindex_id)
    assert (done.state, done.embedded_count, done.missing_count) == (pb.REINDEX_STATE_COMPLETE, len(TEXTS), 1)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await house.use(WORDS)
    await house.use(WORDS, force=True)
    (hit, *_) = (await house.place.recall("bread and gristle")).hits
    assert hit.memory.content == "gristle" or not hit.HasField("similarity")


async def test_of_a_caller_s_model_a_reindex_counts_what_is_missing(house: House) -> None:
    ids = await remembered(house.place)
    await house.register("ours", provider="caller", endpoint="", dimensions=4)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await house.use("ours")
    first = await house.start("ours")
    await house.work()
    assert (await house.progress(first.reindex_id)).missing_count == len(ids)

    for item_id in ids:
        put = pb.PutEmbeddingRequest(item_id=item_id, model="ours", embeddings=[pb.Embedding(values=[1, 2, 3, 4])])
        await house.place.stub.PutEmbedding(put)
    again = await house.start("ours")
    await house.work()

    assert again.reindex_id == first.reindex_id
    assert (await house.progress(first.reindex_id)).missing_count == 0
    await house.use("ours")
    answer = await house.place.recall(embedding=[1, 2, 3, 4])
    assert (answer.model, len(answer.hits)) == ("ours", len(ids))
    assert (await house.place.recall("tea")).dense_unavailable


async def test_a_cancelled_reindex_ends_and_its_model_follows_no_longer(house: House) -> None:
    await remembered(house.place)
    await house.register()
    reindex = await house.start()
    await house.work()

    cancelled = await house.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    again = await house.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    late = await house.place.remember("Owls hunt at night.")

    assert cancelled == again
    assert cancelled.reindex.state == pb.REINDEX_STATE_CANCELLED
    assert late not in await house.vectors(WORDS)
    assert await house.due() == []
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "VECTORS_MISSING"):
        await house.use(WORDS)
    assert (await house.start()).reindex_id != reindex.reindex_id


async def test_a_model_in_force_or_in_use_is_not_dropped_and_another_goes_with_its_table(house: House) -> None:
    await remembered(house.place)
    reindex_id = await house.change()
    drop = house.operator.DropModel
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_ACTIVE"):
        await drop(pb.DropModelRequest(model=WORDS))
    await house.use(EMBEDDED)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_IN_USE"):
        await drop(pb.DropModelRequest(model=WORDS))
    await house.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex_id))

    await drop(pb.DropModelRequest(model=WORDS, request_id="drop"))
    await drop(pb.DropModelRequest(model=WORDS, request_id="drop"))

    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await drop(pb.DropModelRequest(model=WORDS))
    async with house.service.superuser() as connection:
        assert await connection.fetchval("SELECT to_regclass('recall.embeddings_words')") is None
    assert (await answers(house.place))[0][0] == EMBEDDED
    await house.register(dimensions=32)


async def test_a_model_that_is_dropped_under_a_call_is_left_out(house: House) -> None:
    [item_id, *_] = await remembered(house.place)
    await house.register()
    async with house.service.superuser() as connection, connection.transaction():
        await connection.execute("SELECT recall.drop_model($1, 'infinity')", WORDS)
        call = house.place.stub.BatchGetIndexStates(pb.BatchGetIndexStatesRequest(item_ids=[item_id]))
        # It has read the registry, and waits for the table.
        await until(lambda: waits(house))

    response = await call

    assert [vectors.model for vectors in response.states[0].vectors] == [EMBEDDED]


async def waits(house: House) -> bool:
    """Whether a statement waits for a lock in the database of the service."""
    async with house.service.superuser() as connection:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return await connection.fetchval(query) is not None


async def test_a_process_that_does_not_know_yet_that_a_model_is_dropped_refuses_its_vectors(
    server: Server, template: str, endpoint: EmbeddingServer
) -> None:
    settle = {"SKEIN_RECALL_SETTLE_SECONDS": "600"}
    vector = [pb.Embedding(values=[1.0] + [0.0] * (DIMENSIONS - 1))]
    async with housed(server, template, endpoint, SKEIN_RECALL_MODELS_SECONDS="600", **settle) as house:
        item_id = await house.place.remember(TEXTS[0])
        await house.register()
        request = pb.PutEmbeddingRequest(item_id=item_id, model=WORDS, embeddings=vector)
        await house.place.stub.PutEmbedding(request)
        async with house.service.superuser() as connection:
            await connection.execute("SELECT recall.drop_model($1, 'infinity')", WORDS)

        with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
            await house.place.stub.PutEmbedding(request)
        with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
            await house.operator.CompareModels(
                pb.CompareModelsRequest(model=WORDS, tenant_id=str(house.place.tenant_id), queries=["tea"])
            )


async def test_a_table_comes_and_goes_without_keeping_anybody_waiting(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that reads and writes documents stays open for a while."""
    # However slow this machine is, they do not give up meanwhile.
    monkeypatch.setattr(models, "_ATTEMPTS", 1000)
    await remembered(house.place)
    await house.register()
    async with house.service.superuser() as connection:
        await connection.execute("BEGIN; UPDATE recall.documents SET pending = false")
        changing = [
            asyncio.create_task(house.register("other")),
            asyncio.create_task(house.drop(WORDS)),
        ]
        # A call that waits for the transaction would wait for ever: it ends below.
        for question in QUESTIONS * 3:
            async with asyncio.timeout(30):
                await house.place.recall(question)
                await house.place.remember(question, index=False)
        assert not any(task.done() for task in changing)
        await connection.execute("COMMIT")

    await asyncio.gather(*changing)


async def test_a_model_is_not_dropped_just_after_it_was_in_use(house: House) -> None:
    await house.register()
    reindex = await house.start()
    await house.operator.CancelReindex(pb.CancelReindexRequest(reindex_id=reindex.reindex_id))
    async with house.service.superuser() as connection:
        await connection.execute("UPDATE recall.embedding_models SET leave_time = now() + interval '1 hour'")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_IN_USE"):
        await house.operator.DropModel(pb.DropModelRequest(model=WORDS))


async def test_models_are_compared_on_what_was_asked_lately_tenant_by_tenant(house: House) -> None:
    await remembered(house.place)
    other = await house.service.new_tenant()
    await other.remember("owls")
    await house.register()
    await house.start()
    await house.work()
    await house.work(other)
    await answers(house.place)
    await other.recall("owls")

    compared = await house.operator.CompareModels(pb.CompareModelsRequest(model=WORDS, limit=1))

    assert (compared.active_model, compared.model, compared.limit, compared.truncated) == (EMBEDDED, WORDS, 1, False)
    by_tenant = {one.tenant_id: one for one in compared.tenants}
    assert by_tenant[str(other.tenant_id)].agreement == 1.0
    mine = by_tenant[str(house.place.tenant_id)]
    assert mine.query_count == len(QUESTIONS)
    assert mine.same_first_count / len(QUESTIONS) == mine.agreement
    assert compared.overall.query_count == len(QUESTIONS) + 1
    itself = await house.operator.CompareModels(pb.CompareModelsRequest(model=EMBEDDED))
    assert itself.overall.agreement == 1.0


async def test_models_are_compared_on_given_queries_in_a_tenant(house: House) -> None:
    await remembered(house.place)
    await house.register()
    request = pb.CompareModelsRequest(model=WORDS, queries=["tea", "violin"], tenant_id=str(house.place.tenant_id))

    before = await house.operator.CompareModels(request)
    await house.start()
    await house.work()
    after = await house.operator.CompareModels(request)

    assert (before.overall.query_count, before.overall.agreement) == (2, 0.0)
    assert after.overall.agreement == 1.0
    request.tenant_id = ""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await house.operator.CompareModels(request)
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await house.operator.CompareModels(pb.CompareModelsRequest(model="nobody-s"))
    house.endpoint.breaks(Answer(b"401 Who"))
    request = pb.CompareModelsRequest(model=WORDS, queries=["bees"], tenant_id=str(house.place.tenant_id))
    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await house.operator.CompareModels(request)


async def test_a_reindex_begins_only_with_an_endpoint_that_answers_rightly(house: House) -> None:
    await house.register()
    house.endpoint.breaks(Answer(body={"data": [{"index": 0, "embedding": vector_of("x", DIMENSIONS + 1)}]}))
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "MODEL_ANSWER_INVALID"):
        await house.start()
    house.endpoint.breaks(Answer(b"403 No"))
    with refused(grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"):
        await house.start()

    assert list((await house.operator.ListReindexes(pb.ListReindexesRequest())).reindexes) == []
    with refused(grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"):
        await house.start("nobody-s")
    house.endpoint.heals()
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await house.start(EMBEDDED, tenant_id=str(uuid4()))


async def test_reindexes_are_listed_page_by_page(house: House) -> None:
    await house.register("one")
    await house.register("two")
    started = [(await house.start(name)).reindex_id for name in ("one", "two", EMBEDDED)]

    first = await house.operator.ListReindexes(pb.ListReindexesRequest(page_size=2))
    second = await house.operator.ListReindexes(pb.ListReindexesRequest(page_size=2, page_token=first.next_page_token))

    assert [one.reindex_id for one in [*first.reindexes, *second.reindexes]] == started[::-1]
    assert second.next_page_token == ""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
        await house.operator.ListReindexes(pb.ListReindexesRequest(page_size=2, page_token="x"))
    with refused(grpc.StatusCode.NOT_FOUND, "REINDEX_NOT_FOUND"):
        await house.progress(str(new_id(now())))


async def test_a_model_that_is_gone_keeps_nothing_from_another_one(house: House) -> None:
    ids = await remembered(house.place)
    await house.register("gone", endpoint=f"{house.endpoint.url}/gone/v1")
    async with house.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO recall.reindexes (reindex_id, model, texts_per_second, settle_time, is_complete, next_time, "
            "create_time, created_by) VALUES ($1, 'gone', 100, now(), false, now(), now(), 'test')",
            new_id(now()),
        )
    await house.register()
    reindex = await house.start()

    made = await house.work()

    assert (made, set(await house.vectors(WORDS))) == (len(ids), set(ids))
    assert (await house.progress(reindex.reindex_id)).state == pb.REINDEX_STATE_COMPLETE
    assert await house.due() == [str(house.place.tenant_id)]


async def test_repeated_requests_have_one_effect(house: House) -> None:
    await house.register()
    start = pb.StartReindexRequest(model=WORDS, request_id="start")
    assert await house.operator.StartReindex(start) == await house.operator.StartReindex(start)
    await house.work()
    use = pb.SetActiveModelRequest(model=WORDS, request_id="use")
    first = await house.operator.SetActiveModel(use)
    await house.use(EMBEDDED)

    assert await house.operator.SetActiveModel(use) == first
    assert (await house.place.recall("tea")).model == EMBEDDED


async def test_two_who_switch_at_once_leave_one_model_in_force(house: House) -> None:
    await house.register()
    await house.start()
    await house.work()

    outcomes = await asyncio.gather(*(house.use(model) for model in (WORDS, EMBEDDED) * 4), return_exceptions=True)

    assert [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, aio.AioRpcError)] == []
    listed = (await house.operator.ListEmbeddingModels(pb.ListEmbeddingModelsRequest())).embedding_models
    assert len([model for model in listed if model.active]) == 1
