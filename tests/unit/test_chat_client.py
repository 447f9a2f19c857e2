"""A client of a language model's endpoint: the ways to ask for a JSON object, tokens, failures and the breaker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fix_catalogue import over
from fix_language_model import BROKEN, CELLO, COMPLETION_TOKENS, PROMPT_TOKENS, Reply, facts, running_language_model

from skein_kit.language_model.chat_client import BREAKER, ChatClient, ChatModelError, Endpoint
from skein_kit.outbound.fetch import SafeHttpClient
from skein_kit.settings import SettingInvalid
from skein_worker.extraction.language_model import Proposal

ANSWER = facts({"quote": CELLO})
PROPOSALS = [Proposal(quote=CELLO, text="", type="fact")]
TOKENS = PROMPT_TOKENS + COMPLETION_TOKENS


@over(
    ("ways", "expected"),
    [
        ({"response_format", "tools", "text"}, ["response_format"]),
        ({"tools", "text"}, ["response_format", "tools", "tools"]),
        ({"text"}, ["response_format", "tools", "text", "text"]),
    ],
)
async def test_an_endpoint_is_asked_in_the_first_way_that_it_knows(ways: set[str], expected: list[str]) -> None:
    async with running_language_model() as model:
        model.ways = frozenset(ways)
        model.says(CELLO, ANSWER)
        asked = model.fact_model()
        first = await asked.propose(CELLO, instructions="", memory_types=())
        if len(expected) > 1:
            await asked.propose(CELLO, instructions="", memory_types=())

    used = [next((way for way in ("response_format", "tools") if way in one), "text") for one in model.requests]
    assert first == (PROPOSALS, TOKENS)
    assert used == expected


async def test_an_answer_that_ignores_the_schema_is_asked_for_in_another_way() -> None:
    async with running_language_model() as model:
        model.says(CELLO, Reply("Here they are."), ANSWER)
        answer = await model.fact_model().propose(CELLO, instructions="", memory_types=())

    assert answer == (PROPOSALS, 2 * TOKENS)


async def test_an_answer_may_stand_in_a_fence() -> None:
    async with running_language_model() as model:
        model.says(CELLO, Reply(f"```json\n{ANSWER.text}\n```"))
        answer, _ = await model.fact_model().propose(CELLO, instructions="", memory_types=())

    assert answer == PROPOSALS


async def test_the_request_has_the_instructions_the_types_and_the_message_alone() -> None:
    async with running_language_model() as model:
        await model.fact_model().propose(CELLO, instructions="What instruments people play.", memory_types={"decision"})

    (request,) = model.requests
    system, user = request["messages"]
    assert user["content"] == CELLO
    assert "What instruments people play." in system["content"]
    assert "one of decision." in system["content"]
    assert request["temperature"] == 0
    assert model.keys == ["Bearer sk-of-the-operator"]


@over("name", BROKEN)
async def test_a_broken_answer_is_an_error_with_its_reason(name: str) -> None:
    reply, reason = BROKEN[name]
    async with running_language_model() as model:
        model.says(CELLO, reply)
        with pytest.raises(ChatModelError) as caught:
            await model.fact_model(seconds=0.5 if reply.hangs else 20.0).propose(
                CELLO, instructions="", memory_types=()
            )
        model.released.set()

    assert caught.value.reason == reason
    assert caught.value.retry_after == (7.0 if reason == "status 429" else None)


@over("usage", [None, {}, [], {"prompt_tokens": -5}, {"prompt_tokens": 10**20}, {"prompt_tokens": "1"}])
async def test_tokens_are_estimated_where_the_answer_does_not_count_them(usage: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": ANSWER.text}}], "usage": usage}).encode()
    async with running_language_model() as model:
        model.says(CELLO, Reply(body=body))
        _, tokens = await model.fact_model().propose(CELLO, instructions="", memory_types=())

    assert 100 < tokens < 2000


async def test_after_failures_in_a_row_nothing_is_sent_for_a_while() -> None:
    async with running_language_model() as model:
        model.says(CELLO, BROKEN["500"][0])
        client = model.client()
        for _ in range(3):
            with pytest.raises(ChatModelError, match="status 500"):
                await client.complete([{"role": "user", "content": CELLO}], seconds=20)
        with pytest.raises(ChatModelError, match=BREAKER) as caught:
            await client.complete([{"role": "user", "content": CELLO}], seconds=20)

    assert len(model.requests) == 3
    assert caught.value.retry_after is not None


async def test_a_client_of_a_tenant_reaches_no_inner_address() -> None:
    async with running_language_model() as model:
        endpoint = Endpoint(url=model.url.replace("http", "https"), model="small", key="", seconds=5)
        client = ChatClient(endpoint, service="worker", outbound=SafeHttpClient())
        with pytest.raises(ChatModelError, match="address"):
            await client.complete([{"role": "user", "content": CELLO}], seconds=5)

    assert model.requests == []


@over("url", ["ftp://a", "nonsense", "http://", "https://user:pass@host/v1", "http://h/v1?key=1"])
def test_an_endpoint_needs_a_url_that_is_one(url: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_X"):
        Endpoint(url=url, model="m", key="", seconds=1).check("SKEIN_X")
