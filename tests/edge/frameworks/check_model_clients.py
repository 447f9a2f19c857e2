"""Clients of OpenAI and Anthropic with memory: every way of a call, against a model that repeats what it is told."""

from __future__ import annotations

import itertools
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from fix_model_server import ANSWER, Model
from openai import AsyncOpenAI, OpenAI

from skein.session.v1 import session_pb2
from skein_adapters.model_clients import with_memory
from skein_client import Client, errors, sync

QUESTION = "Where does the parcel of the piano stand?"


@pytest.fixture
def model() -> Iterator[Model]:
    server = Model()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def subject_id() -> str:
    return f"person-{uuid.uuid4()}"


def ask(client: Any, way: str, question: str) -> str:
    """Ask by one way of a blocking client; return the answer's text."""
    said: list[Any] = [{"role": "user", "content": question}]
    rest: Any = {"model": "m", "max_tokens": 10}
    match way.split("."):
        case ["chat", "stream"]:
            with client.chat.completions.stream(model="m", messages=said) as stream:
                answer = "".join(event.delta for event in stream if event.type == "content.delta")
        case ["chat", "create-stream"]:
            with client.chat.completions.create(model="m", messages=said, stream=True) as stream:
                answer = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        case ["chat", name]:
            answer = str(getattr(client.chat.completions, name)(model="m", messages=said).choices[0].message.content)
        case ["responses", "stream"]:
            with client.responses.stream(model="m", input=question) as stream:
                answer = str(stream.get_final_response().output_text)
        case ["responses", "create-stream"]:
            events = client.responses.create(model="m", input=said, stream=True)
            answer = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        case ["responses", name]:
            answer = str(getattr(client.responses, name)(model="m", input=question).output_text)
        case [kind, "stream"]:
            with resource(client, kind).stream(messages=said, **rest) as stream:
                answer = "".join(stream.text_stream)
        case [kind, "create-stream"]:
            events = resource(client, kind).create(messages=said, stream=True, **rest)
            answer = "".join(event.delta.text for event in events if event.type == "content_block_delta")
        case [kind, name]:
            answer = str(getattr(resource(client, kind), name)(messages=said, **rest).content[0].text)
        case _:
            raise AssertionError(way)
    return answer


def resource(client: Any, kind: str) -> Any:
    return client.beta.messages if kind == "beta" else client.messages


async def ask_async(client: Any, way: str, question: str) -> str:
    """As `ask`, by an asynchronous client."""
    said: list[Any] = [{"role": "user", "content": question}]
    rest: Any = {"model": "m", "max_tokens": 10}
    match way.split("."):
        case ["chat", "stream"]:
            async with client.chat.completions.stream(model="m", messages=said) as stream:
                answer = "".join([event.delta async for event in stream if event.type == "content.delta"])
        case ["chat", "create-stream"]:
            async with await client.chat.completions.create(model="m", messages=said, stream=True) as stream:
                answer = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        case ["chat", name]:
            answer = str(
                (await getattr(client.chat.completions, name)(model="m", messages=said)).choices[0].message.content
            )
        case ["responses", "stream"]:
            async with client.responses.stream(model="m", input=question) as stream:
                answer = str((await stream.get_final_response()).output_text)
        case ["responses", "create-stream"]:
            events = await client.responses.create(model="m", input=said, stream=True)
            answer = "".join([event.delta async for event in events if event.type == "response.output_text.delta"])
        case ["responses", name]:
            answer = str((await getattr(client.responses, name)(model="m", input=question)).output_text)
        case [kind, "stream"]:
            async with resource(client, kind).stream(messages=said, **rest) as stream:
                answer = "".join([text async for text in stream.text_stream])
        case [kind, "create-stream"]:
            events = await resource(client, kind).create(messages=said, stream=True, **rest)
            answer = "".join([event.delta.text async for event in events if event.type == "content_block_delta"])
        case [kind, name]:
            answer = str((await getattr(resource(client, kind), name)(messages=said, **rest)).content[0].text)
        case _:
            raise AssertionError(way)
    return answer


METHODS = ("create", "create-stream", "stream", "parse")
WAYS = [f"{api}.{method}" for api in ("chat", "responses", "messages", "beta") for method in METHODS]


def openai(model: Model) -> OpenAI:
    return OpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_recalls_before_and_remembers_after(
    sync_skein: sync.Client, model: Model, subject_id: str, session_id: str, way: str
) -> None:
    sync_skein.remember("The parcel of the piano stands in the yard", subject_id=subject_id)
    plain = openai(model) if way.startswith(("chat", "responses")) else Anthropic(base_url=model.url, api_key="none")
    client = with_memory(plain, sync_skein, subject_id=subject_id, session_id=session_id)

    answer = ask(client, way, QUESTION)

    assert answer == ANSWER
    [sent] = model.requests
    assert json.dumps(sent).count("stands in the yard") == 1
    stored = [message.content for message in sync_skein.list_messages(session_id)]
    assert stored == [QUESTION, ANSWER]


@pytest.mark.parametrize("way", WAYS)
async def test_an_asynchronous_call_does_the_same(
    skein: Client, model: Model, subject_id: str, session_id: str, way: str
) -> None:
    await skein.remember("The parcel of the piano stands in the yard", subject_id=subject_id)
    plain: Any = AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none")
    if not way.startswith(("chat", "responses")):
        plain = AsyncAnthropic(base_url=model.url, api_key="none")
    client = with_memory(plain, skein, subject_id=subject_id, session_id=session_id)

    answer = await ask_async(client, way, QUESTION)

    assert answer == ANSWER
    [sent] = model.requests
    assert json.dumps(sent).count("stands in the yard") == 1
    stored = [message.content async for message in skein.list_messages(session_id)]
    assert stored == [QUESTION, ANSWER]


def test_nobody_gets_what_another_person_said(sync_skein: sync.Client, model: Model, session_id: str) -> None:
    plain = openai(model)
    anna, bob = (f"{name}-{session_id}" for name in ("anna", "bob"))
    for person, secret in ((anna, "My doctor is called Keller"), (bob, "My doctor is called Moser")):
        client = with_memory(plain, sync_skein, subject_id=person, session_id=f"{person}-chat")
        ask(client, "chat.create", secret)
    model.requests.clear()

    for person in (anna, bob):
        client = with_memory(plain, sync_skein, subject_id=person, session_id=f"{person}-later")
        ask(client, "chat.create", "What is my doctor called?")

    first, second = (json.dumps(sent) for sent in model.requests)
    assert ("Keller" in first, "Moser" in first) == (True, False)
    assert ("Keller" in second, "Moser" in second) == (False, True)


def test_the_prompt_before_stays_and_a_long_conversation_is_stored_once(
    sync_skein: sync.Client, model: Model, subject_id: str, session_id: str
) -> None:
    client = with_memory(openai(model), sync_skein, subject_id=subject_id, session_id=session_id)
    instructions: Any = {"role": "system", "content": "Be brief."}
    conversation: list[Any] = [instructions]
    questions = [f"Note {number}: my {thing} is green." for number, thing in enumerate(("door", "car", "bike"))]
    for question in questions:
        sync_skein.remember(f"Of {question}", subject_id=subject_id)
        conversation.append({"role": "user", "content": question})
        answer = client.chat.completions.create(model="m", messages=conversation).choices[0].message
        # As programs do it: the client's own object goes back.
        conversation.append(answer)

    sent = [request["messages"] for request in model.requests]
    prompts = [messages[0]["content"] for messages in sent]
    assert [messages[0]["role"] for messages in sent] == ["system"] * 3
    assert prompts[0].startswith("Be brief.\n\n")
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(prompts))
    assert instructions == {"role": "system", "content": "Be brief."}
    stored = [message.content for message in sync_skein.list_messages(session_id)]
    assert stored == [text for question in questions for text in (question, ANSWER)]


def test_a_tool_s_result_is_no_message_of_the_person(
    sync_skein: sync.Client, model: Model, subject_id: str, session_id: str
) -> None:
    client: Any = with_memory(openai(model), sync_skein, subject_id=subject_id, session_id=session_id)
    conversation: list[Any] = [{"role": "user", "content": QUESTION}]

    model.calls_tool = True
    conversation.append(client.chat.completions.create(model="m", messages=conversation).choices[0].message)
    conversation.append({"role": "tool", "tool_call_id": "t", "content": "Secret of the tool"})
    model.calls_tool = False
    client.chat.completions.create(model="m", messages=iter(conversation))

    assert [message.content for message in sync_skein.list_messages(session_id)] == [QUESTION, ANSWER]


def test_what_cannot_work_is_refused(sync_skein: sync.Client, skein: Client, model: Model, session_id: str) -> None:
    plain = openai(model)
    with pytest.raises(ValueError, match="subject_id"):
        with_memory(plain, sync_skein, subject_id=" ", session_id=session_id)
    with pytest.raises(TypeError, match="asynchronous"):
        with_memory(plain, skein, subject_id="anna", session_id=session_id)
    with pytest.raises(TypeError, match="OpenAI or Anthropic, not dict"):
        with_memory({}, sync_skein, subject_id="anna", session_id=session_id)
    client = with_memory(plain, sync_skein, subject_id="anna", session_id=session_id)
    with pytest.raises(TypeError, match="with_raw_response"):
        client.chat.completions.with_raw_response.create(model="m", messages=[{"role": "user", "content": "Hello"}])
    assert model.requests == []


def test_a_recall_that_fails_asks_no_model(
    sync_skein: sync.Client, model: Model, subject_id: str, session_id: str
) -> None:
    client = with_memory(
        openai(model), sync_skein, subject_id=subject_id, session_id=session_id, token_budget=1_000_000
    )

    with pytest.raises(errors.InvalidArgument):
        ask(client, "chat.create", QUESTION)

    assert model.requests == []


def test_an_answer_that_cannot_be_stored_is_returned(
    sync_skein: sync.Client, model: Model, subject_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = f"deleted-{uuid.uuid4()}"
    client = with_memory(openai(model), sync_skein, subject_id=subject_id, session_id=session_id)
    ask(client, "chat.create", QUESTION)
    sync_skein.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id=session_id))

    assert ask(client, "chat.create", "And when does it come?") == ANSWER

    assert "is not stored" in caplog.text
    assert QUESTION not in caplog.text
