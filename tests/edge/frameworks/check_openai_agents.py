"""Sessions of the OpenAI Agents SDK: what its protocol promises, beside the SDK's own session, and in a run."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, Usage, function_tool
from agents.memory import Session, SessionSettings, SQLiteSession
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from skein.session.v1 import session_pb2
from skein_adapters.openai_agents import SkeinSession
from skein_client import Client

ITEMS: list[Any] = [
    {"role": "user", "content": "Where is my order?"},
    {"role": "user", "content": ""},
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": "Be kind."},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "See this"}, {"type": "input_image", "image_url": "x"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "e"},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"n": 1.0}', "id": "fc_1", "status": None},
    {"type": "function_call_output", "call_id": "c1", "output": "It is in Bern"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "in Bern"}]},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "In Bern. 茶", "annotations": [], "logprobs": []}],
    },
    {"role": "user", "content": "NUL \0 in a text", "type": "message"},
    {"role": "user", "content": "NUL \0 in a plain text"},
    {"role": "user", "content": "long " * 30_000},
    {"type": "item_of_the_future", "deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
]


class ScriptedModel(Model):
    """A model that gives the outputs it is made with, one for each call, and keeps what it was asked."""

    def __init__(self, *outputs: Any) -> None:
        """Give these outputs."""
        self.outputs = list(outputs)
        self.inputs: list[Any] = []

    async def get_response(self, *arguments: Any, **keywords: Any) -> ModelResponse:
        self.inputs.append(keywords["input"] if "input" in keywords else arguments[1])
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError


def said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{uuid.uuid4().hex}", type="message", role="assistant", status="completed", content=[content]
    )


def test_it_is_a_session_of_the_sdk(skein: Client) -> None:
    assert isinstance(SkeinSession(skein, "any"), Session)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.get("type") or item["role"]))
async def test_an_item_comes_back_as_it_was(skein: Client, session_id: str, item: Any) -> None:
    session = SkeinSession(skein, session_id)

    await session.add_items([item])

    assert await session.get_items() == [item]
    assert await session.pop_item() == item


async def test_it_does_what_the_sdk_s_own_session_does(skein: Client, session_id: str) -> None:
    ours, theirs = SkeinSession(skein, session_id), SQLiteSession(session_id)

    for session in (ours, theirs):
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])
        await session.add_items(ITEMS[:5])
        await session.add_items(ITEMS[5:])
    for limit in (None, 0, 1, 3, 1000):
        assert await ours.get_items(limit) == await theirs.get_items(limit)
    for _ in range(2):
        assert await ours.pop_item() == await theirs.pop_item()
    assert await ours.get_items() == await theirs.get_items()
    for session in (ours, theirs):
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items(ITEMS[:1])
        assert await session.get_items() == ITEMS[:1]


async def test_settings_limit_what_is_read(skein: Client, session_id: str) -> None:
    session = SkeinSession(skein, session_id, session_settings=SessionSettings(limit=2))

    await session.add_items(ITEMS[:4])

    assert await session.get_items() == ITEMS[2:4]
    assert await session.get_items(3) == ITEMS[1:4]


async def test_a_long_conversation_is_read_whole(skein: Client, session_id: str) -> None:
    items: list[Any] = [{"role": "user", "content": f"Note {n}"} for n in range(1203)]
    session = SkeinSession(skein, session_id)

    await session.add_items(items)

    assert await session.get_items() == items
    assert await session.get_items(1100) == items[103:]
    await session.clear_session()
    assert await session.get_items() == []


async def test_no_item_is_popped_twice(skein: Client, session_id: str) -> None:
    session = SkeinSession(skein, session_id)
    await session.add_items([{"role": "user", "content": str(n)} for n in range(8)])

    popped = await asyncio.gather(*(session.pop_item() for _ in range(10)))

    contents: list[Any] = [item and dict(item)["content"] for item in popped]
    assert sorted(contents, key=str) == [*map(str, range(8)), None, None]


async def test_other_clients_read_recall_and_write_the_conversation(skein: Client, session_id: str) -> None:
    session = SkeinSession(skein, session_id)
    question = f"Where is the order {session_id}?"
    await session.add_items([{"role": "user", "content": question}, ITEMS[6], ITEMS[7], ITEMS[9]])

    stored = [message async for message in skein.list_messages(session_id)]
    await skein.remember(session_id=session_id, messages={"role": "user", "content": "From another client"})

    assert [(message.role, message.content) for message in stored] == [
        (session_pb2.MESSAGE_ROLE_USER, question),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, ""),
        (session_pb2.MESSAGE_ROLE_TOOL, "It is in Bern"),
        (session_pb2.MESSAGE_ROLE_ASSISTANT, "In Bern. 茶"),
    ]
    hits = (await skein.recall(question)).hits
    assert any(hit.message.session_id == session_id for hit in hits)
    assert (await session.get_items())[-1] == {"role": "user", "content": "From another client"}


async def test_an_agent_remembers_its_conversation(skein: Client, session_id: str) -> None:
    @function_tool
    def find_order() -> str:
        """Find the order."""
        return "It is in Bern"

    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name="find_order", arguments="{}")
    model = ScriptedModel(call, said("In Bern."), said("On Tuesday."))
    agent = Agent(name="Clerk", model=model, tools=[find_order])
    config = RunConfig(tracing_disabled=True)

    await Runner.run(agent, "Where is my order?", session=SkeinSession(skein, session_id), run_config=config)
    again = SkeinSession(skein, session_id)
    result = await Runner.run(agent, "And when does it come?", session=again, run_config=config)

    assert result.final_output == "On Tuesday."
    asked = model.inputs[-1]
    assert [item.get("content") for item in asked if item.get("role") == "user"] == [
        "Where is my order?",
        "And when does it come?",
    ]
    assert [item.get("type") for item in asked][1:3] == ["function_call", "function_call_output"]
    assert len(await again.get_items()) == len(asked) + 1


async def test_a_conversation_belongs_to_its_person(skein: Client, session_id: str) -> None:
    anna, ben = f"anna-{session_id}", f"ben-{session_id}"
    await SkeinSession(skein, session_id, subject_id=anna, agent_id="clerk").add_items(
        [{"role": "user", "content": "Where is my order of lapis lazuli?"}]
    )

    session = (await skein.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))).session
    of_anna = await skein.recall("lapis lazuli", subject_id=anna, mode="keyword", min_relevance=0)
    of_ben = await skein.recall("lapis lazuli", subject_id=ben, mode="keyword", min_relevance=0)

    assert (session.subject_id, session.agent_id) == (anna, "clerk")
    assert session_id in {hit.message.session_id for hit in of_anna.hits}
    assert session_id not in {hit.message.session_id for hit in of_ben.hits}
