"""Google's ADK: its runner with the memory service, and with recall and remember as tools of an agent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.agents import Agent
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.load_memory_tool import load_memory_tool
from google.genai import types
from pydantic import Field

from skein_adapters.google_adk import SkeinMemoryService
from skein_adapters.tools import MemoryTools
from skein_client import Client

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest


class ScriptedModel(BaseLlm):
    """A model that gives the parts it is made with, one for each call, and keeps what it was asked."""

    parts: list[types.Part]
    requests: list[Any] = Field(default_factory=list)

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - the base class has it so.
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        yield LlmResponse(content=types.Content(role="model", parts=[self.parts.pop(0)]))


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4()}"


def call(name: str, **arguments: str) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


async def run(skein: Client, model: ScriptedModel, tools: list[Any], user: str, text: str) -> list[Event]:
    agent = Agent(name="helper", model=model, tools=tools)
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="shop", user_id=user)
    memory = SkeinMemoryService(skein)
    runner = Runner(agent=agent, app_name="shop", session_service=sessions, memory_service=memory)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    events = [event async for event in runner.run_async(user_id=user, session_id=session.id, new_message=message)]
    stored = await sessions.get_session(app_name="shop", user_id=user, session_id=session.id)
    assert stored is not None
    await memory.add_session_to_memory(stored)
    return events


async def found(skein: Client, user: str, query: str) -> list[str]:
    answer = await SkeinMemoryService(skein).search_memory(app_name="another app", user_id=user, query=query)
    return [part.text or "" for entry in answer.memories for part in entry.content.parts or []]


async def test_a_conversation_is_found_by_the_same_user_in_any_app(skein: Client, user: str) -> None:
    model = ScriptedModel(model="stub", parts=[types.Part(text="It is in Bern.")])

    await run(skein, model, [], user, "Where is my order of green tea?")

    assert "Where is my order of green tea?" in await found(skein, user, "green tea")
    assert await found(skein, f"{user}-else", "green tea") == []
    assert await found(skein, user, " ") == []


async def test_adding_a_session_again_stores_nothing_twice(skein: Client, user: str) -> None:
    memory = SkeinMemoryService(skein)
    content = types.Content(role="user", parts=[types.Part(text="I prefer oolong")])
    events = [Event(author="user", content=content, id=f"{user}-{n}") for n in range(3)]
    silent = Event(author="helper", id=f"{user}-silent", content=types.Content(parts=[call("look_up")]))

    adds = (
        memory.add_events_to_memory(app_name="shop", user_id=user, events=[*events[: n + 1], silent], session_id="s")
        for n in (0, 2, 2)
    )
    await asyncio.gather(*adds)

    stored = [message async for message in skein.list_messages(f"google-adk:shop:{user}:s")]
    assert sorted(message.external_id for message in stored) == sorted(f"google-adk:{event.id}" for event in events)
    assert {(message.subject_id or user) for message in stored} == {user}


async def test_memories_are_added_as_they_are(skein: Client, user: str) -> None:
    memory = SkeinMemoryService(skein)
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="The parcel number is 4711")]))

    await memory.add_memory(app_name="shop", user_id=user, memories=[entry])
    await memory.add_memory(app_name="shop", user_id=user, memories=[entry])

    assert await found(skein, user, "parcel number") == ["The parcel number is 4711"]


async def test_the_tool_of_the_kit_reads_the_memory_service(skein: Client, user: str) -> None:
    await skein.remember("Anna is allergic to nuts", subject_id=user)
    model = ScriptedModel(
        model="stub", parts=[call("load_memory", query="What is Anna allergic to?"), types.Part(text="Nuts.")]
    )

    await run(skein, model, [load_memory_tool], user, "What may I not eat?")

    assert "allergic to nuts" in "".join(content.model_dump_json() for content in model.requests[-1].contents)


async def test_an_agent_remembers_and_recalls_by_tools(skein: Client, user: str) -> None:
    tools = MemoryTools(skein, subject_id=user)
    model = ScriptedModel(
        model="stub",
        parts=[
            call("remember", content="Anna rides a red bicycle"),
            call("recall", query="What does Anna ride?"),
            types.Part(text="A red bicycle."),
        ],
    )

    events = await run(skein, model, [tools.remember, tools.recall], user, "I ride a red bicycle. What do I ride?")

    answers = [response.response for event in events for response in event.get_function_responses()]
    assert answers[0] == {"result": "Remembered."}
    assert "red bicycle" in str(answers[1])
    declared = model.requests[0].config.tools[0].function_declarations
    assert {declaration.name for declaration in declared} == {"remember", "recall"}
