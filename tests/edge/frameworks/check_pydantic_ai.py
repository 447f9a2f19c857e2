"""Pydantic AI's conversation store: beside its own store in memory, under concurrent saves, and for other clients."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

from skein.session.v1 import session_pb2
from skein_adapters.pydantic_ai import SkeinConversationStore
from skein_client import Client

MESSAGES: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Where is my order?")]),
    ModelResponse(parts=[ThinkingPart("Hm"), ToolCallPart("find", {"n": 1.0, "deep": [[[["x"]]]]}, "c1")]),
    ModelRequest(parts=[ToolReturnPart("find", {"place": "Bern"}, "c1")]),
    ModelResponse(parts=[TextPart("In Bern. 茶")]),
    ModelRequest(parts=[UserPromptPart(["See", BinaryContent(b"\x00\xff\xfe?>", media_type="application/pdf")])]),
    ModelResponse(parts=[TextPart("NUL \0 in a text")]),
]


@pytest.fixture
def store(skein: Client) -> SkeinConversationStore:
    return SkeinConversationStore(skein)


@pytest.fixture(params=["skein", "in memory"])
def any_store(request: pytest.FixtureRequest, skein: Client) -> ConversationStore:
    """Skein's store and that of Pydantic AI, of which a test claims the same."""
    return SkeinConversationStore(skein) if request.param == "skein" else InMemoryConversationStore()


async def test_messages_come_back_as_they_were(any_store: ConversationStore, session_id: str) -> None:
    saved = Conversation(messages=list(MESSAGES), conversation_id=session_id)

    entries = await any_store.save(saved)
    loaded = await any_store.load(session_id)

    assert loaded is not None
    assert loaded.messages == MESSAGES
    assert [entry.message for entry in entries] == MESSAGES
    assert [entry.id for entry in await any_store.load_entries(session_id) or ()] == [entry.id for entry in entries]
    assert loaded.revision == saved.revision


async def test_an_unknown_conversation_is_none(any_store: ConversationStore, session_id: str) -> None:
    assert await any_store.load(session_id) is None
    await any_store.delete(session_id)
    with pytest.raises(LookupError):
        await any_store.read_entry(str(uuid.uuid4()))
    with pytest.raises(UserError):
        await any_store.branch(session_id, at=0, expected_revision=None)


async def test_an_agent_goes_on_with_a_stored_conversation(any_store: ConversationStore, session_id: str) -> None:
    agent = Agent(TestModel(custom_output_text="In Bern."))

    for prompt in ("Where is my order?", "And when does it come?"):
        conversation = await any_store.load(session_id) or Conversation(conversation_id=session_id)
        result = await agent.run(prompt, conversation=conversation)
        stored = await any_store.save(result)
        assert len(stored) == 2

    loaded = await any_store.load(session_id)
    assert loaded is not None
    assert len(loaded.messages) == 4
    assert loaded.usage.requests == 2


async def test_the_last_messages_can_be_loaded_alone(any_store: ConversationStore, session_id: str) -> None:
    await any_store.save(Conversation(messages=list(MESSAGES), conversation_id=session_id))

    window = await any_store.load(session_id, limit=2)

    assert window is not None
    assert window.messages == MESSAGES[-2:]


async def test_a_save_of_an_older_revision_is_a_conflict(any_store: ConversationStore, session_id: str) -> None:
    await any_store.save(Conversation(messages=MESSAGES[:2], conversation_id=session_id))
    first, second = await any_store.load(session_id), await any_store.load(session_id)
    assert first is not None
    assert second is not None

    first.messages.append(MESSAGES[2])
    await any_store.save(first)
    second.messages.append(MESSAGES[3])
    with pytest.raises(ConversationConflict):
        await any_store.save(second)
    with pytest.raises(ConversationConflict):
        await any_store.save(Conversation(messages=MESSAGES[:1], conversation_id=session_id))

    loaded = await any_store.load(session_id)
    assert loaded is not None
    assert loaded.messages == MESSAGES[:3]


async def test_a_branch_leaves_the_old_history_stored(any_store: ConversationStore, session_id: str) -> None:
    entries = await any_store.save(Conversation(messages=MESSAGES[:4], conversation_id=session_id))
    loaded = await any_store.load(session_id)
    assert loaded is not None

    branched = await any_store.branch(session_id, at=1, expected_revision=loaded.revision)
    branched.messages.append(MESSAGES[5])
    await any_store.save(branched)
    new = await any_store.load(session_id)
    assert new is not None
    back = await any_store.branch(session_id, from_entry=entries[-1].id, expected_revision=new.revision)

    assert new.messages == [MESSAGES[0], MESSAGES[5]]
    assert back.messages == MESSAGES[:4]


async def test_a_fork_shares_the_history_before_it(any_store: ConversationStore, session_id: str) -> None:
    await any_store.save(Conversation(messages=MESSAGES[:4], conversation_id=session_id))

    fork = await any_store.fork(session_id, at=2)
    fork.messages.append(MESSAGES[5])
    await any_store.save(fork)
    await any_store.delete(session_id)

    loaded = await any_store.load(fork.conversation_id)
    window = await any_store.load(fork.conversation_id, limit=2)
    assert loaded is not None
    assert window is not None
    assert loaded.messages == [*MESSAGES[:2], MESSAGES[5]]
    assert window.messages == [MESSAGES[1], MESSAGES[5]]
    record = await any_store.read_record(fork.conversation_id)
    assert record is not None
    assert record.forked_from == session_id


@pytest.mark.parametrize("padding", ["", "long" * 100])
async def test_a_scope_keeps_conversations_apart(any_store: ConversationStore, session_id: str, padding: str) -> None:
    scope, other = f"{uuid.uuid4()}{padding}", str(uuid.uuid4())
    ids = [f"{session_id}-{n}" for n in range(3)]
    for one in ids:
        await any_store.save(Conversation(messages=MESSAGES[:1], conversation_id=one), scope=scope)
    await any_store.save(Conversation(conversation_id=session_id), scope=other)

    listed = await any_store.list_conversations(scope=scope)

    assert [record.conversation_id for record in listed] == ids[::-1]
    assert len(await any_store.list_conversations(scope=scope, limit=2)) == 2
    assert {record.scope for record in await any_store.list_conversations()} >= {scope, other}
    assert await any_store.load(ids[0], scope=other) is None
    with pytest.raises(ConversationConflict):
        await any_store.save(Conversation(messages=MESSAGES[:1], conversation_id=ids[0]), scope=other)


async def test_a_deleted_conversation_can_be_saved_anew(any_store: ConversationStore, session_id: str) -> None:
    old = Conversation(messages=MESSAGES[:2], conversation_id=session_id)
    await any_store.save(old)

    await any_store.delete(session_id)
    gone = await any_store.load(session_id)
    with pytest.raises(ConversationConflict):
        await any_store.save(old)
    await any_store.save(Conversation(messages=MESSAGES[3:4], conversation_id=session_id))

    loaded = await any_store.load(session_id)
    assert gone is None
    assert loaded is not None
    assert loaded.messages == MESSAGES[3:4]


async def test_of_concurrent_saves_one_wins_and_the_others_leave_nothing(
    skein: Client, store: SkeinConversationStore, session_id: str
) -> None:
    await store.save(Conversation(messages=MESSAGES[:1], conversation_id=session_id))
    copies = [await store.load(session_id) for _ in range(5)]

    async def save(number: int, conversation: Any) -> None:
        conversation.messages.append(ModelResponse(parts=[TextPart(f"Answer {number}")]))
        await store.save(conversation)

    results = await asyncio.gather(*(save(*one) for one in enumerate(copies)), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["ConversationConflict"] * 4 + ["NoneType"]
    assert len([message async for message in skein.list_messages(session_id)]) == 2


async def test_messages_and_metadata_of_other_clients_are_no_part_of_a_conversation(
    skein: Client, store: SkeinConversationStore, session_id: str
) -> None:
    session = session_pb2.Session(session_id=session_id, metadata={"room": "7"})
    await skein.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))

    question = f"Where is the order {session_id}?"
    messages = [ModelRequest(parts=[UserPromptPart(question)]), *MESSAGES[1:4]]
    await store.save(Conversation(messages=list(messages), conversation_id=session_id))
    await skein.remember(session_id=session_id, messages={"role": "user", "content": "From another client"})
    loaded = await store.load(session_id)

    assert loaded is not None
    assert loaded.messages == messages
    got = await skein.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))
    assert got.session.metadata["room"] == "7"
    stored = [message async for message in skein.list_messages(session_id)]
    assert [(message.role, message.content) for message in stored] == [
        (session_pb2.MESSAGE_ROLE_USER, question),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, ""),
        (session_pb2.MESSAGE_ROLE_TOOL, '{"place":"Bern"}'),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, "In Bern. 茶"),
        (session_pb2.MESSAGE_ROLE_USER, "From another client"),
    ]
    hits = (await skein.recall(question)).hits
    assert any(hit.message.session_id == session_id for hit in hits)


async def test_a_long_conversation_is_loaded_whole(store: SkeinConversationStore, session_id: str) -> None:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(f"Note {n}")]) for n in range(1203)]

    await store.save(Conversation(messages=list(messages), conversation_id=session_id))
    loaded = await store.load(session_id)

    assert loaded is not None
    assert loaded.messages == messages


async def test_a_conversation_belongs_to_its_person(skein: Client, session_id: str) -> None:
    store = SkeinConversationStore(skein, subject_id="anna", agent_id="clerk")
    conversation = Conversation(conversation_id=session_id)
    await store.save(await Agent(TestModel()).run("Is it there?", conversation=conversation))

    messages = [message async for message in skein.list_messages(session_id)]

    assert {(message.subject_id, message.agent_id) for message in messages} == {("anna", "clerk")}
