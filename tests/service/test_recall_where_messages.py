"""Recall with a `where` that names fields of messages: one condition for both kinds of items."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.memory.v1 import webhooks_pb2 as hooks
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_kit.ids import now

USER, ASSISTANT = session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT
MEMORY, MESSAGE = pb.ITEM_KIND_MEMORY, pb.ITEM_KIND_MESSAGE
QUERY = "ferry to Corsica"
# The items of the fixture by short names.
FACT, NOTE = "The ferry to Corsica takes five hours.", "Corsica has a ferry from Nice."
MARTA, INES = "I booked the ferry to Corsica.", "Is the ferry to Corsica late?"
ANSWER, OLD = "The ferry to Corsica leaves at nine.", "A ferry to Corsica sank in the storm."
MEMORIES = {FACT, NOTE}
MESSAGES = {MARTA, INES, ANSWER, OLD}
MODES = (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC)


def json_object(**values: Any) -> Struct:
    struct = Struct()
    struct.update(values)
    return struct


async def seed(tenant: Tenant) -> None:
    """Store two memories, a session with two people and an assistant, and an old message of another session."""
    memories = [
        memory_pb2.Memory(content=FACT, type="fact", session_id="s1", agent_id="pilot", metadata=json_object(line="A")),
        memory_pb2.Memory(content=NOTE, tags=["travel"], importance=0.9, metadata=json_object(price=40)),
    ]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    messages = [
        session_pb2.Message(role=USER, name="Marta", content=MARTA, metadata=json_object(line="A")),
        session_pb2.Message(role=ASSISTANT, content=ANSWER, agent_id="pilot", model="m-1"),
        session_pb2.Message(role=USER, name="Ines", content=INES, metadata=json_object(line="B", price=70)),
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s1", create_session=True, messages=messages)
    )
    at = Timestamp(seconds=int(datetime(2020, 5, 1, tzinfo=UTC).timestamp()))
    old = session_pb2.Message(role=USER, name="Zoe", content=OLD, create_time=at, subject_id="zoe")
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s2", create_session=True, keep_times=True, messages=[old])
    )


@pytest.fixture
async def ferry(tenant: Tenant) -> Tenant:
    await seed(tenant)
    return tenant


def request(where: str, **fields: Any) -> pb.RecallRequest:
    return pb.RecallRequest(query=QUERY, filter=memory_pb2.MemoryFilter(where=where), min_relevance=0, **fields)


async def contents(tenant: Tenant, where: str, **fields: Any) -> set[str]:
    response = await tenant.recall.Recall(request(where, **fields))
    return {hit.memory.content or hit.message.content for hit in response.hits}


PASSING: list[tuple[str, set[str]]] = [
    ("role = user", {MARTA, INES, OLD}),
    ('role != "assistant"', {MARTA, INES, OLD} | MEMORIES),
    ('role != "assistant" AND kind = message', {MARTA, INES, OLD}),
    ("NOT role = user", {ANSWER} | MEMORIES),
    ("role IN (assistant, tool)", {ANSWER}),
    ("has(role)", MESSAGES),
    ("name = Marta", {MARTA}),
    ("name:in", {INES}),
    ('name IN ("Zoe", "Ines")', {INES, OLD}),
    ('name = ""', {ANSWER} | MEMORIES),
    ("NOT has(name)", {ANSWER} | MEMORIES),
    ("kind = memory", MEMORIES),
    ("kind = message", MESSAGES),
    ("kind IN (memory, message)", MEMORIES | MESSAGES),
    ("kind != message", MEMORIES),
    ("session_id = s1", {FACT, MARTA, ANSWER, INES}),
    ("session_id != s1", {NOTE, OLD}),
    ("agent_id = pilot", {FACT, ANSWER}),
    ("subject_id = zoe", {OLD}),
    ("user_id = zoe", {OLD}),
    ("sequence >= 2", {ANSWER, INES}),
    ("model = m-1", {ANSWER}),
    ("create_time < 2021-01-01", {OLD}),
    ("create_time >= 2021-01-01", {MARTA, ANSWER, INES} | MEMORIES),
    ("update_time < 2021-01-01", {OLD}),
    ("revision = 1 AND NOT create_time >= 2021-01-01", {OLD}),
    ("metadata.line = A", {FACT, MARTA}),
    ("metadata.price > 50", {INES}),
    ("has(metadata.price)", {INES, NOTE}),
    ("NOT metadata.line = A", {NOTE, ANSWER, INES, OLD}),
    ("content:LEAVES", {ANSWER}),
    ("content:corsica AND NOT content:ferry", set()),
    ("type = fact", {FACT}),
    ("NOT type = fact", {NOTE} | MESSAGES),
    ("tags:travel", {NOTE}),
    ("tags:none(travel)", {FACT} | MESSAGES),
    ("importance >= 0", MEMORIES),
    ("NOT has(archive_time)", MEMORIES | MESSAGES),
    ("is_active = true", MEMORIES | MESSAGES),
    ('kind = memory OR role != "assistant"', {MARTA, INES, OLD} | MEMORIES),
    ("type = fact OR name = Marta", {FACT, MARTA}),
    ("(type = fact OR role = user) AND metadata.line = A", {FACT, MARTA}),
    ("type = fact AND role = user", set()),
]


@pytest.mark.system
async def test_items_of_both_kinds_pass_or_fail_by_their_own_fields(ferry: Tenant) -> None:
    assert {where: await contents(ferry, where) for where, _ in PASSING} == dict(PASSING)


@pytest.mark.parametrize("mode", MODES)
async def test_each_mode_tests_both_kinds(ferry: Tenant, mode: pb.SearchMode) -> None:
    assert await contents(ferry, "type = fact OR name = Marta", mode=mode) == {FACT, MARTA}
    assert await contents(ferry, "role = user", mode=mode) == {MARTA, INES, OLD}


async def test_a_vector_alone_finds_the_messages_that_pass(ferry: Tenant) -> None:
    vector = (await ferry.recall.EmbedText(pb.EmbedTextRequest(texts=[QUERY]))).embeddings[0].values
    vector_request = pb.RecallRequest(
        embedding=vector, filter=memory_pb2.MemoryFilter(where="name = Ines OR tags:travel")
    )

    hits = (await ferry.recall.Recall(vector_request)).hits

    assert {hit.memory.content or hit.message.content for hit in hits} == {INES, NOTE}


async def test_similar_items_are_filtered_by_fields_of_messages(ferry: Tenant) -> None:
    (marta,) = (await ferry.recall.Recall(request("name = Marta"))).hits
    similar = pb.FindSimilarRequest(
        item_id=marta.item_id, filter=memory_pb2.MemoryFilter(where="role = user OR type = fact")
    )

    hits = (await ferry.recall.FindSimilar(similar)).hits

    assert {hit.memory.content or hit.message.content for hit in hits} == {FACT, INES, OLD}


@pytest.mark.system
async def test_few_messages_that_pass_are_found_among_many(ferry: Tenant) -> None:
    chatter = [session_pb2.Message(role=ASSISTANT, content=f"{QUERY} number {n}") for n in range(300)]
    for start in range(0, len(chatter), 100):
        await ferry.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id="s3", create_session=True, messages=chatter[start : start + 100]
            )
        )

    response = await ferry.recall.Recall(request("role = user OR type = fact"))

    assert {hit.memory.content or hit.message.content for hit in response.hits} == {FACT, MARTA, INES, OLD}
    assert not response.filter_truncated


async def test_a_condition_on_the_kind_alone_restricts_the_kinds(ferry: Tenant) -> None:
    named = await contents(ferry, "", kinds=[MESSAGE])

    assert await contents(ferry, "kind = message") == named
    assert await contents(ferry, "kind = message", kinds=[MEMORY]) == set()


@pytest.mark.system
async def test_the_conditions_that_leave_nothing_are_named(ferry: Tenant) -> None:
    async def emptied_by(where: str, **conditions: Any) -> list[str]:
        filter_ = memory_pb2.MemoryFilter(where=where, **conditions)
        message_filter = pb.MessageFilter(roles=[ASSISTANT])
        response = await ferry.recall.Recall(
            pb.RecallRequest(query=QUERY, filter=filter_, message_filter=message_filter, min_relevance=0)
        )
        assert list(response.hits) == []
        return list(response.emptied_by)

    assert await emptied_by("name = Nobody") == ["where"]
    assert await emptied_by("role = user AND type = fact") == ["where"]
    # Without one of them, facts or messages of the assistant remain.
    assert await emptied_by("role = assistant", types=["fact"]) == ["types", "where"]
    assert await emptied_by("role = user") == ["roles", "where"]
    assert await emptied_by("kind = message", max_importance=1.0) == ["where", "max_importance"]


@pytest.mark.system
async def test_a_changed_message_passes_by_its_new_fields(ferry: Tenant) -> None:
    (marta,) = (await ferry.recall.Recall(request("name = Marta"))).hits
    before = now()
    message = session_pb2.Message(message_id=marta.item_id, name="Marta Weiss")
    await ferry.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=message, update_mask={"paths": ["name"]})
    )

    assert await contents(ferry, "name = Marta") == set()
    assert await contents(ferry, 'name = "Marta Weiss"') == {MARTA}
    assert await contents(ferry, f'update_time >= "{before.isoformat()}"') == {MARTA}
    assert await contents(ferry, "revision = 2") == {MARTA}


async def test_lists_purges_and_webhooks_know_no_fields_of_messages(tenant: Tenant) -> None:
    for name in ("kind", "role", "name", "message_id", "sequence"):
        filter_ = memory_pb2.MemoryFilter(where=f"has({name})")
        selection = memory_pb2.MemorySelection(filter=filter_)
        webhook = hooks.Webhook(
            display_name="w", event_types=["*"], webhook_url="https://example.com/", where=filter_.where
        )
        for call in (
            tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=filter_)),
            tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection, dry_run=True)),
            tenant.history.CreateWebhook(hooks.CreateWebhookRequest(webhook=webhook)),
        ):
            with refused(grpc.StatusCode.INVALID_ARGUMENT, "FILTER_FIELD_UNKNOWN"):
                await call


async def test_a_condition_that_no_item_can_have_is_refused(tenant: Tenant) -> None:
    for where in ("speaker = Marta", "role.x = user", "parts.x = 1"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "FILTER_FIELD_UNKNOWN"):
            await tenant.recall.Recall(request(where))
    for where in ("role = robot", "kind = block", "kind:mem", "sequence = first", "name > Marta"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "FILTER_INVALID"):
            await tenant.recall.Recall(request(where))


@pytest.mark.system
async def test_the_gateway_passes_the_condition_on(ferry: Tenant) -> None:
    recall_request = gateway_pb2.RecallRequest(
        query=QUERY, filter=memory_pb2.MemoryFilter(where="name = Marta OR type = fact"), min_relevance=0
    )

    response = await ferry.gateway.Recall(recall_request)
    context = await ferry.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=recall_request))

    assert {hit.memory.content or hit.message.content for hit in response.hits} == {FACT, MARTA}
    assert MARTA in context.text
    assert FACT in context.text
    assert INES not in context.text
