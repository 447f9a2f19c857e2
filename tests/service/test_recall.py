from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import grpc
import pytest
from fix_cluster import refused
from fix_recall import RecallServer, RecallTenant, serving

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import now

Filter = memory_pb2.MemoryFilter


async def vector_of(recall_tenant: RecallTenant, text: str) -> list[float]:
    response = await recall_tenant.stub.EmbedText(pb.EmbedTextRequest(texts=[text]))
    return list(response.embeddings[0].values)


async def test_a_memory_is_found_by_meaning_without_a_shared_word(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The cat caught a mouse in the barn.")
    await recall_tenant.remember("Our invoice is due on Friday.")

    response = await recall_tenant.recall("feline hunting rodents")

    assert response.hits[0].memory.content == "The cat caught a mouse in the barn."
    lexical = next(part for part in response.hits[0].components if part.signal == "lexical")
    assert (lexical.raw, lexical.rank) == (0, 0)
    assert (response.model, response.dense_path, response.dense_unavailable) == ("all-minilm-l6-v2", "exact", False)


async def test_a_rare_word_is_found_by_itself_in_any_form(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The boiler's part number is XK4417-B.")
    for number in range(5):
        await recall_tenant.remember(f"The heating engineer came for the {number}th time.")
    await recall_tenant.remember("She repaired two bicycles.")

    assert (await recall_tenant.contents("XK4417-B"))[0] == "The boiler's part number is XK4417-B."
    assert (await recall_tenant.contents("repairing a bicycle"))[0] == "She repaired two bicycles."


async def test_memories_and_messages_are_found_alike_and_complete(recall_tenant: RecallTenant) -> None:
    memory_id = await recall_tenant.remember(
        "Marta likes green tea.", title="Tea", type="fact", tags=("b", "a"), importance=1.0
    )
    message_id = await recall_tenant.say("Marta asked for green tea again.", session_id="kitchen")

    hits = {hit.kind: hit for hit in (await recall_tenant.recall("green tea")).hits}

    memory, message = hits[pb.ITEM_KIND_MEMORY], hits[pb.ITEM_KIND_MESSAGE]
    assert (memory.item_id, memory.memory.memory_id, memory.HasField("message")) == (memory_id, memory_id, False)
    assert (memory.memory.title, memory.memory.type, list(memory.memory.tags)) == ("Tea", "fact", ["a", "b"])
    assert (memory.memory.importance, memory.memory.scope) == (1.0, memory_pb2.SCOPE_GLOBAL)
    assert (message.item_id, message.message.message_id, message.HasField("memory")) == (message_id, message_id, False)
    assert (message.message.session_id, message.message.sequence) == ("kitchen", 1)


async def test_only_the_kinds_asked_for_are_found(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea in a memory")
    await recall_tenant.say("green tea in a message")

    assert await recall_tenant.contents("green tea", kinds=[pb.ITEM_KIND_MEMORY]) == ["green tea in a memory"]
    assert await recall_tenant.contents("green tea", kinds=[pb.ITEM_KIND_MESSAGE]) == ["green tea in a message"]


FILTERED = [
    Filter(types=["fact", "journal"]),
    Filter(tags_any=["drinks", "unknown"]),
    Filter(tags_all=["drinks", "hot"]),
    Filter(agent_id="juno"),
    Filter(subject_id="marta"),
    Filter(session_id="s7"),
    Filter(scopes=[memory_pb2.SCOPE_USER, memory_pb2.SCOPE_AGENT]),
    Filter(source="calendar"),
    Filter(key="tea.kind"),
    Filter(min_importance=0.8),
    Filter(types=["fact"], tags_any=["hot"], agent_id="juno", session_id="s7", min_importance=0.9),
]


@pytest.mark.system
@pytest.mark.parametrize("condition", FILTERED, ids=lambda value: ",".join(f.name for f, _ in value.ListFields()))
async def test_a_filter_restricts_before_ranking(recall_tenant: RecallTenant, condition: Filter) -> None:
    for number in range(60):
        await recall_tenant.remember(f"green tea number {number}", tags=("cold",), index=number % 10 == 0)
    await recall_tenant.remember(
        "Something about infusions of leaves.",
        type="fact",
        tags=("drinks", "hot"),
        agent_id="juno",
        subject_id="marta",
        session_id="s7",
        scope="user",
        source="calendar",
        key="tea.kind",
        importance=0.9,
    )

    assert await recall_tenant.contents("green tea", filter=condition, limit=3) == [
        "Something about infusions of leaves."
    ]


async def test_every_tag_asked_for_must_be_there(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("one", tags=("a", "b"))
    await recall_tenant.remember("two", tags=("a",))

    assert await recall_tenant.contents("one two", filter=Filter(tags_all=["a", "b", "a"])) == ["one"]
    assert sorted(await recall_tenant.contents("one two", filter=Filter(tags_any=["a"]))) == ["one", "two"]
    assert await recall_tenant.contents("one two", filter=Filter(tags_all=["a", "c"])) == []


async def test_conditions_on_memories_leave_messages_out_and_those_on_both_do_not(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea", session_id="s1", type="fact", importance=0.1)
    await recall_tenant.say("green tea", session_id="s1")
    await recall_tenant.say("green tea", session_id="s2")

    by_type = (await recall_tenant.recall("green tea", filter=Filter(types=["fact"]))).hits
    by_importance = (await recall_tenant.recall("green tea", filter=Filter(min_importance=0.05))).hits
    by_session = (await recall_tenant.recall("green tea", filter=Filter(session_id="s1"))).hits

    assert [hit.kind for hit in by_type] == [pb.ITEM_KIND_MEMORY]
    assert [hit.kind for hit in by_importance] == [pb.ITEM_KIND_MEMORY]
    assert sorted(hit.kind for hit in by_session) == [pb.ITEM_KIND_MEMORY, pb.ITEM_KIND_MESSAGE]


async def test_a_span_of_time_includes_its_start_and_excludes_its_end(recall_tenant: RecallTenant) -> None:
    noon = now().replace(microsecond=0) - timedelta(days=40)
    for hours in (-1, 0, 1):
        await recall_tenant.remember(f"tea at {hours}", create_time=noon + timedelta(hours=hours))
    filter_ = Filter()
    filter_.start_time.FromDatetime(noon)
    filter_.end_time.FromDatetime(noon + timedelta(hours=1))

    assert await recall_tenant.contents("tea", filter=filter_) == ["tea at 0"]


async def test_a_filter_that_nothing_passes_finds_nothing(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea")

    assert await recall_tenant.contents("green tea", filter=Filter(types=["journal"])) == []


async def test_hits_below_the_similarity_asked_for_are_left_out(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("Marta drinks green tea every morning.")
    await recall_tenant.remember("green paint for the fence")
    await recall_tenant.remember("green tea, not embedded yet", index=False)

    response = await recall_tenant.recall("Marta drinks green tea in the morning", min_similarity=0.6)

    assert [hit.memory.content for hit in response.hits] == ["Marta drinks green tea every morning."]
    assert response.hits[0].similarity >= 0.6


async def test_every_hit_explains_its_score(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("Marta drinks green tea every morning.")
    await recall_tenant.remember("The fence needs green paint.")
    await recall_tenant.remember("A lorry brought gravel.")

    hits = (await recall_tenant.recall("who drinks green tea?", min_relevance=0)).hits

    parts = [{part.signal: part for part in hit.components} for hit in hits]
    for hit, signals in zip(hits, parts, strict=True):
        assert set(signals) == {"dense", "context", "lexical", "reply", "statement", "length", "tokens"}
        assert hit.score == pytest.approx(sum(part.weight * part.value for part in hit.components))
        assert sum(part.weight for part in hit.components) == pytest.approx(1)
        assert signals["dense"].raw == pytest.approx(hit.similarity)
        assert 0 <= hit.score <= 1
    assert [signals["dense"].rank for signals in parts] == [1, 2, 3]
    assert [signals["lexical"].rank for signals in parts] == [1, 2, 0]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.system
async def test_the_order_is_the_same_every_time_and_ties_are_broken_by_id(recall_tenant: RecallTenant) -> None:
    ids = [await recall_tenant.remember("exactly the same words") for _ in range(12)]

    answers = [await recall_tenant.recall("the same words", limit=7, show_duplicates=True) for _ in range(3)]

    for answer in answers:
        assert [hit.item_id for hit in answer.hits] == sorted(ids)[:7]


@pytest.mark.system
async def test_what_has_expired_is_gone_and_does_not_crowd_out_the_rest(recall_tenant: RecallTenant) -> None:
    past, future = now() - timedelta(minutes=1), now() + timedelta(days=1)
    for _ in range(60):
        await recall_tenant.remember("green tea for breakfast", expire_time=past, index=False)
    gone = await recall_tenant.remember("green tea for breakfast", expire_time=past)
    await recall_tenant.remember("a hot drink", expire_time=future)

    response = await recall_tenant.recall("green tea for breakfast", limit=1, min_relevance=0)

    assert [hit.memory.content for hit in response.hits] == ["a hot drink"]
    assert gone not in {hit.item_id for hit in response.hits}


@pytest.mark.parametrize("change", ["is_active = false, delete_time = now()", "archive_time = now()"])
async def test_an_item_that_may_not_be_recalled_is_not_read_even_while_the_index_knows_it(
    recall_server: RecallServer, recall_tenant: RecallTenant, change: str
) -> None:
    gone = await recall_tenant.remember("green tea")
    await recall_tenant.remember("green tea too")

    async with recall_server.superuser() as connection:
        await connection.execute(f"UPDATE memory.memories SET {change} WHERE memory_id = $1", UUID(gone))  # noqa: S608

    assert await recall_tenant.contents("green tea") == ["green tea too"]


@pytest.mark.system
async def test_another_tenant_s_items_are_never_found_nor_counted(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    other = await recall_server.new_tenant()
    await recall_tenant.remember("green tea")
    vector = await vector_of(recall_tenant, "green tea")
    before = await recall_tenant.recall("green tea", embedding=vector)
    for _ in range(10):
        await other.remember("green tea")
        await other.say("green tea")

    after = await recall_tenant.recall("green tea", embedding=vector)

    assert [hit.item_id for hit in after.hits] == [hit.item_id for hit in before.hits]
    assert after.hits[0].components[1] == before.hits[0].components[1]
    assert len((await other.recall("green tea", limit=100)).hits) == 20


@pytest.mark.system
async def test_a_fact_in_the_last_sentence_of_a_long_entry_is_found_by_meaning(recall_tenant: RecallTenant) -> None:
    filler = "The weather was fair and nobody had much to say about it. " * 200
    await recall_tenant.remember(f"{filler}Felines hunt rodents in the hayloft.")
    for number in range(5):
        await recall_tenant.remember(f"Nobody had much to say on day {number}.")

    hits = (await recall_tenant.recall("cats chase mice in the barn")).hits

    assert hits[0].memory.content.endswith("hayloft.")
    assert hits[0].components[1].rank == 0


@pytest.mark.system
async def test_many_chunks_of_one_item_do_not_hide_the_others(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    long = await recall_tenant.remember("Fair weather, little to say.")
    for number in range(30):
        await recall_tenant.remember(f"Number {number}: cement and gravel.")
    async with recall_server.superuser() as connection:
        await connection.execute(
            "INSERT INTO recall.embeddings_all_minilm_l6_v2 (tenant_id, item_id, chunk, kind, embedding) "
            "SELECT tenant_id, item_id, n, kind, embedding "
            "FROM recall.embeddings_all_minilm_l6_v2, generate_series(1, 500) AS n WHERE item_id = $1",
            UUID(long),
        )

    response = await recall_tenant.recall(
        embedding=await vector_of(recall_tenant, "fair weather, little to say"), limit=20
    )

    assert response.hits[0].item_id == long
    assert len({hit.item_id for hit in response.hits}) == 20


async def test_a_vector_alone_is_enough(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Gravel arrived.")

    response = await recall_tenant.recall(
        embedding=[3 * value for value in await vector_of(recall_tenant, "feline hunting")], limit=1
    )

    (hit,) = response.hits
    assert hit.memory.content == "The cat caught a mouse."
    assert [(part.signal, part.weight) for part in hit.components] == [("dense", 1.0)]
    assert hit.score == pytest.approx(hit.similarity)


async def test_a_vector_serves_the_dense_signal_and_the_text_the_lexical_one(recall_tenant: RecallTenant) -> None:
    cat = await recall_tenant.remember("The cat caught a mouse.")
    gravel = await recall_tenant.remember("Gravel arrived.")

    hits = {
        hit.item_id: hit
        for hit in (
            await recall_tenant.recall("gravel", embedding=await vector_of(recall_tenant, "cats"), min_relevance=0)
        ).hits
    }

    assert hits[cat].components[0].rank == 1
    assert hits[gravel].components[1].rank == 1


async def test_a_query_of_stop_words_is_answered_by_meaning(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea")

    (hit,) = (await recall_tenant.recall("who is it?")).hits

    assert [part.signal for part in hit.components] == ["dense"]


async def test_a_vector_of_another_length_is_refused(recall_tenant: RecallTenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "DIMENSIONS_MISMATCH"):
        await recall_tenant.recall(embedding=[1.0] * 383)


@pytest.mark.parametrize("query", ["", " \n\t"])
async def test_a_query_without_anything_is_refused(recall_tenant: RecallTenant, query: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await recall_tenant.recall(query)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
async def test_a_vector_that_points_nowhere_is_refused(recall_tenant: RecallTenant, value: float) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.recall(embedding=[1.0] * 383 + [value] if value else [0.0] * 384)


async def test_a_text_with_a_nul_is_refused(recall_tenant: RecallTenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await recall_tenant.recall("green\0tea")


async def test_an_empty_tenant_finds_nothing(recall_tenant: RecallTenant) -> None:
    response = await recall_tenant.recall("green tea")

    assert list(response.hits) == []
    assert response.model == "all-minilm-l6-v2"


@pytest.mark.system
async def test_without_an_answer_of_the_embedder_in_time_words_alone_are_searched(
    recall_server: RecallServer, recall_tenant: RecallTenant
) -> None:
    await recall_tenant.remember("The cat caught a mouse.")
    await recall_tenant.remember("Gravel arrived.")

    async with serving(recall_server.url, recall_server.key, SKEIN_ADVANCED_RECALL_EMBED_TIMEOUT_SECONDS="0") as late:
        response = await RecallTenant(late, recall_tenant.tenant_id).recall("feline, mouse")

    assert (response.dense_unavailable, response.dense_path) == (True, "none")
    (hit,) = response.hits
    assert hit.memory.content == "The cat caught a mouse."
    assert not {"dense", "context"} & {part.signal for part in hit.components}
    assert not hit.HasField("similarity")


async def test_the_longest_query_is_answered(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea")

    assert await recall_tenant.contents(("green tea " + "".join(f"word{n} " for n in range(1200)))[:10_000]) == [
        "green tea"
    ]


async def test_words_that_are_syntax_elsewhere_are_only_words(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("O'Brien's 50% <tea> & !milk :* | (scones)")

    for query in ("O'Brien's", "tea & !milk", "a:* | b", "'; DROP TABLE x; --", "%", "(scones", "\\"):
        await recall_tenant.recall(query)

    assert await recall_tenant.contents("scones") == ["O'Brien's 50% <tea> & !milk :* | (scones)"]


@pytest.mark.system
async def test_many_recalls_at_once_agree(recall_tenant: RecallTenant) -> None:
    for number in range(20):
        await recall_tenant.remember(f"tea number {number}")

    answers = await asyncio.gather(*(recall_tenant.contents("tea number 7") for _ in range(20)))

    assert {answer[0] for answer in answers} == {"tea number 7"}
    assert len({tuple(answer) for answer in answers}) == 1
