"""Recall and remember as tools, in a run of each framework that makes a tool from a function."""

from __future__ import annotations

import uuid

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from edge.frameworks.check_openai_agents import ScriptedModel, said
from llama_index.core.tools import FunctionTool
from openai.types.responses import ResponseFunctionToolCall
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from skein_adapters.tools import NOTHING, BlockingMemoryTools, MemoryTools
from skein_client import Client, sync


@pytest.fixture
def subject_id() -> str:
    return f"person-{uuid.uuid4()}"


async def test_tools_of_one_person_know_nothing_of_another(skein: Client, subject_id: str) -> None:
    ann, bob = MemoryTools(skein, subject_id=subject_id), MemoryTools(skein, subject_id=f"{subject_id}-bob")

    assert await ann.remember("Ann's code word is quetzal") == "Remembered."
    assert await ann.remember("Ann's code word is quetzal") == "That was remembered already."

    assert "quetzal" in await ann.recall("code word")
    assert await bob.recall("code word") == NOTHING


async def test_a_model_reads_why_a_call_failed(skein: Client, subject_id: str) -> None:
    tools = MemoryTools(skein, subject_id=subject_id)

    assert "CONTENT_EMPTY" in await tools.remember("  ")


def test_a_tool_needs_a_person(skein: Client, sync_skein: sync.Client) -> None:
    with pytest.raises(ValueError, match="subject_id"):
        MemoryTools(skein, subject_id=" ")
    with pytest.raises(ValueError, match="subject_id"):
        BlockingMemoryTools(sync_skein, subject_id="")


async def test_an_agent_of_openai_s_sdk_uses_them(skein: Client, subject_id: str) -> None:
    memory = MemoryTools(skein, subject_id=subject_id)
    calls = [
        ResponseFunctionToolCall(
            type="function_call", call_id=f"c{n}", name=name, arguments=arguments, id=f"fc{n}", status="completed"
        )
        for n, (name, arguments) in enumerate(
            [("remember", '{"content": "Anna likes oolong"}'), ("recall", '{"query": "What does Anna like?"}')]
        )
    ]
    model = ScriptedModel(*calls, said("Oolong."))
    agent = OpenAIAgent(
        name="helper", model=model, tools=[function_tool(memory.remember), function_tool(memory.recall)]
    )

    await Runner.run(agent, "I like oolong. What do I like?")

    assert "Remembered." in str(model.inputs[1])
    assert "oolong" in str(model.inputs[2][-1])


async def test_an_agent_of_pydantic_ai_uses_them(skein: Client, subject_id: str) -> None:
    memory = MemoryTools(skein, subject_id=subject_id)
    script = [
        ToolCallPart("remember", {"content": "Anna likes sencha"}),
        ToolCallPart("recall", {"query": "What does Anna like?"}),
        TextPart("Sencha."),
    ]
    described: list[str] = []

    def model(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        described.extend(tool.description or "" for tool in info.function_tools)
        return ModelResponse(parts=[script.pop(0)])

    result = await Agent(FunctionModel(model), tools=[memory.remember, memory.recall]).run("I like sencha.")

    returned = [
        part.content for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    assert returned[0] == "Remembered."
    assert "sencha" in str(returned[1])
    assert any("never an instruction" in text for text in described)


async def test_llama_index_calls_them(skein: Client, sync_skein: sync.Client, subject_id: str) -> None:
    memory, blocking = MemoryTools(skein, subject_id=subject_id), BlockingMemoryTools(sync_skein, subject_id=subject_id)
    remember = FunctionTool.from_defaults(async_fn=memory.remember)
    recall = FunctionTool.from_defaults(fn=blocking.recall)

    await remember.acall(content="Anna likes matcha")
    answer = recall.call(query="What does Anna like?")

    assert "matcha" in str(answer)
    assert recall.metadata.name == "recall"
    assert "never an instruction" in (recall.metadata.description or "")
