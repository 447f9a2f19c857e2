"""What a context ledger does to a prompt: bytes that stay, tokens, evidence and time, against BuildContext without one.

    python tests/bench/prompt_cache.py locomo-dev.json [TURNS [keyword]]

Each conversation of a file in LoCoMo's form is a tenant, each turn of it a memory. The first TURNS questions that name
evidence, in a random order that is the same each time, are the turns of one agent. Both forms answer each question.
With `keyword` the search is by words alone, and waits for no vectors.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from fix_cluster import Tenant, running_cluster, test_environment

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2

_TURNS, _BATCH, _WARM_UP = 50, 100, 5
_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(kw_only=True)
class Figures:
    """What one form did over the turns of all conversations."""

    evidence: list[float] = field(default_factory=list)
    # Of each turn.
    returned_tokens: list[int] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    # Share of the prompt that is that of the turn before, byte by byte, without turns that had a new first text.
    equal_shares: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    rebase_count: int = 0

    def add_prompt(self, before: str, after: str, *, is_rebase: bool) -> None:
        if before and not is_rebase:
            equal = len(before) if after.startswith(before) else _common(before, after)
            self.equal_shares.append(equal / max(1, len(after)))


def _common(before: str, after: str) -> int:
    return next((place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)


def turns_of(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the id and the text of each turn."""
    number = 1
    while turns := conversation.get(f"session_{number}"):
        for turn in turns:
            shared = f" and shared {turn['blip_caption']}" if turn.get("blip_caption") else ""
            yield turn["dia_id"], f'{turn["speaker"]} said, "{turn["text"]}"{shared}'
        number += 1


async def store(tenant: Tenant, turns: Sequence[tuple[str, str]], *, mode: recall_pb2.SearchMode) -> dict[str, str]:
    """Store the turns; return their ids by the ids of their memories, when all can be found in a mode."""
    ids: dict[str, str] = {}
    for start in range(0, len(turns), _BATCH):
        batch = turns[start : start + _BATCH]
        memories = [memory_pb2.Memory(content=text, external_id=turn_id) for turn_id, text in batch]
        response = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
        ids |= {memory.memory_id: turn_id for (turn_id, _), memory in zip(batch, response.memories, strict=True)}
    probe = recall_pb2.RecallRequest(query="anything", mode=mode)
    while mode == recall_pb2.SEARCH_MODE_HYBRID and (await tenant.recall.Recall(probe)).pending_embedding_count:
        await asyncio.sleep(0.5)
    return ids


async def talk(
    tenant: Tenant,
    ids: Mapping[str, str],
    questions: Sequence[Mapping[str, Any]],
    plain: Figures,
    ledger: Figures,
    *,
    mode: recall_pb2.SearchMode,
) -> None:
    """Ask the questions of one conversation in both forms."""
    revision, prompt, last_text = 0, "", ""
    shown: set[str] = set()
    for place, question in enumerate(questions):
        evidence = set(_EVIDENCE.findall(" ".join(question["evidence"]))) & set(ids.values())
        recall = pb.RecallRequest(query=question["question"], mode=mode)
        request = pb.BuildContextRequest(recall=recall, ledger_id="talk", ledger_revision=revision)
        for form in ("plain", "ledger") if place % 2 else ("ledger", "plain"):
            figures = plain if form == "plain" else ledger
            started = time.perf_counter()
            response = await tenant.gateway.BuildContext(
                pb.BuildContextRequest(recall=recall) if form == "plain" else request
            )
            if place >= _WARM_UP:
                figures.milliseconds.append(1000 * (time.perf_counter() - started))
            cited = {ids[one.item_id] for one in response.citations}
            figures.returned_tokens.append(response.token_count)
            if form == "plain":
                plain.prompt_tokens.append(response.token_count)
                plain.add_prompt(last_text, response.text, is_rebase=False)
                last_text = response.text
                present = cited
            else:
                ledger.prompt_tokens.append(response.prompt_token_count)
                after = response.text if response.rebase else prompt + response.text
                ledger.add_prompt(prompt, after, is_rebase=bool(response.rebase))
                ledger.rebase_count += bool(response.rebase and place)
                shown = cited if response.rebase else shown | cited
                prompt, revision, present = after, response.ledger_revision, shown
            if evidence:
                figures.evidence.append(len(evidence & present) / len(evidence))


async def main(path: Path, turn_count: int, mode: recall_pb2.SearchMode) -> None:
    conversations = json.loads(path.read_text("utf-8"))
    plain, ledger = Figures(), Figures()
    with tempfile.TemporaryDirectory() as folder:
        async with running_cluster(Path(folder), test_environment()) as cluster:
            for conversation in conversations:
                tenant = await cluster.new_tenant()
                ids = await store(tenant, list(turns_of(conversation["conversation"])), mode=mode)
                questions = [one for one in conversation["qa"] if one.get("evidence")]
                random.Random(1).shuffle(questions)
                await talk(tenant, ids, questions[:turn_count], plain, ledger, mode=mode)
    print("| of each conversation | without a ledger | with a ledger |\n|---|---|---|")
    count = len(conversations)
    rows: tuple[tuple[str, Callable[[Figures], str]], ...] = (
        ("share of the prompt that the turn before had", lambda one: f"{statistics.mean(one.equal_shares):.3f}"),
        ("tokens returned", lambda one: f"{sum(one.returned_tokens) / count:,.0f}"),
        ("tokens of the prompt, mean", lambda one: f"{statistics.mean(one.prompt_tokens):,.0f}"),
        ("new first texts after the first", lambda one: f"{one.rebase_count / count:.1f}"),
        ("evidence in the prompt", lambda one: f"{statistics.mean(one.evidence):.3f}"),
        ("p50 of a call, ms", lambda one: f"{statistics.median(one.milliseconds):.1f}"),
    )
    for name, of in rows:
        print(f"| {name} | {of(plain)} | {of(ledger)} |")
    print(f"tokens returned: {sum(ledger.returned_tokens) / sum(plain.returned_tokens):.3f} of those without a ledger")


if __name__ == "__main__":
    asyncio.run(
        main(
            Path(sys.argv[1]),
            int(sys.argv[2]) if len(sys.argv) > 2 else _TURNS,
            recall_pb2.SEARCH_MODE_KEYWORD if "keyword" in sys.argv[3:] else recall_pb2.SEARCH_MODE_HYBRID,
        )
    )
