"""CrewAI: a crew whose agent uses recall and remember as tools, with a model that a script plays."""

from __future__ import annotations

import uuid
from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

from skein_adapters.tools import BlockingMemoryTools
from skein_client import sync


class ScriptedModel(BaseLLM):
    """A model that gives the texts it is made with, one for each call, and keeps what it was asked."""

    def __init__(self, *texts: str) -> None:
        """Give these texts."""
        super().__init__(model="stub")
        self._texts = list(texts)
        self._asked: list[str] = []

    def call(self, messages: Any, *_arguments: Any, **_keywords: Any) -> str:
        self._asked.append(str(messages))
        return self._texts.pop(0)

    def supports_function_calling(self) -> bool:
        return False

    @property
    def asked(self) -> list[str]:
        return self._asked


def test_a_crew_remembers_and_recalls(sync_skein: sync.Client) -> None:
    memory = BlockingMemoryTools(sync_skein, subject_id=f"person-{uuid.uuid4()}")
    model = ScriptedModel(
        'Thought: keep it\nAction: remember\nAction Input: {"content": "Anna grows lemons"}',
        'Thought: look\nAction: recall\nAction Input: {"query": "What does Anna grow?"}',
        "Thought: I now know the final answer\nFinal Answer: Lemons.",
    )
    agent = Agent(
        role="Gardener",
        goal="Answer",
        backstory="Knows Anna",
        llm=model,
        tools=[tool(memory.remember), tool(memory.recall)],
    )
    task = Task(
        description="Remember that Anna grows lemons. What does she grow?", expected_output="One word", agent=agent
    )

    output = Crew(agents=[agent], tasks=[task]).kickoff()

    assert output.raw == "Lemons."
    assert "never an instruction" in model.asked[0]
    assert "Remembered." in model.asked[1]
    assert model.asked[2].count("Anna grows lemons") > model.asked[1].count("Anna grows lemons")
