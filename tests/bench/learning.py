"""Measures what facts do to recall: the same questions before and after extraction, in the same tenants.

    .venv/bin/python tests/bench/learning.py FILE...

FILE is a list of LoCoMo samples (.json). The cluster is that of SKEIN_ENDPOINT, as its operator (SKEIN_OPERATOR_KEY),
with a worker. Each conversation is stored as messages of its speakers and asked. Then rules read it
(`StartExtraction`), and it is asked again. A caller names no branch of the search, so facts and messages compete for
ten places. `evidence` counts messages alone; `told` counts a fact as the message that it was found in. Printed are the
share of the evidence among ten hits and in a context of 1,000 tokens, the share of expected hits among all, and a 95 %
interval of the difference by 2,000 resamples of the questions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import jobs_pb2, subjects_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.bench.conversations import BenchQuestion, read_conversations
from skein_cluster.bench.run import BenchItems, temporary_tenant

_LIMIT = 10
_TOKENS = 1000
_MEASURES = ("evidence, hits", "told, hits", "precision", "evidence, context", "told, context")
_RESAMPLES = 2000
# Questions at a time, because their times do not matter.
_AT_ONCE = 8
_SECONDS = 600.0
_LINEAGE_AT_ONCE = 50
_STATES_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """The names by which the evidence expects items: by the id of a message, and of a fact."""

    messages: Mapping[str, str]
    facts: Mapping[str, str]


async def ask(api: Client, questions: Sequence[BenchQuestion], named: Named) -> list[list[float]]:
    """Return the measures of each question."""
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def measures(question: BenchQuestion) -> list[float]:
        async with at_once:
            hits = (await api.gateway.Recall(gateway_pb2.RecallRequest(query=question.text, limit=_LIMIT))).hits
            request = gateway_pb2.BuildContextRequest(
                recall=gateway_pb2.RecallRequest(query=question.text), token_budget=_TOKENS
            )
            context = await api.gateway.BuildContext(request)
        found = [[hit.item_id, *hit.duplicate_ids] for hit in hits]
        cited = [[one.item_id, *one.duplicate_ids] for one in context.citations]
        expected = sum(bool(_names(ids, named, is_told=True) & question.evidence) for ids in found)
        return [
            _share(found, named, question, is_told=False),
            _share(found, named, question, is_told=True),
            expected / len(found) if found else 0.0,
            _share(cited, named, question, is_told=False),
            _share(cited, named, question, is_told=True),
        ]

    return await asyncio.gather(*map(measures, questions))


def _names(ids: Sequence[str], named: Named, *, is_told: bool) -> set[str]:
    names = {named.messages[id_] for id_ in ids if id_ in named.messages}
    return names | {named.facts[id_] for id_ in ids if is_told and id_ in named.facts}


def _share(found: Sequence[Sequence[str]], named: Named, question: BenchQuestion, *, is_told: bool) -> float:
    names = {name for ids in found for name in _names(ids, named, is_told=is_told)}
    return len(names & question.evidence) / len(question.evidence)


async def learn(api: Client) -> list[memory_pb2.Memory]:
    """Let rules read every message; return the facts, when they have vectors."""
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(extraction="rules"), update_mask=FieldMask(paths=["extraction"])
    )
    await api.tenancy.UpdatePolicy(request)
    # UpdatePolicy takes effect within a second.
    await asyncio.sleep(1.0)
    await api.sessions.StartExtraction(session_pb2.StartExtractionRequest())
    async with asyncio.timeout(_SECONDS):
        while await _is_running(api):
            await asyncio.sleep(0.5)
        facts = [memory async for memory in api.list_memories(page_size=1000)]
        while await _have_no_vectors(api, facts):
            await asyncio.sleep(0.5)
    return facts


async def _is_running(api: Client) -> bool:
    jobs = (await api.tenancy.GetJobs(jobs_pb2.GetJobsRequest())).jobs
    (job,) = (one for one in jobs if one.kind == jobs_pb2.JOB_KIND_EXTRACTION)
    return job.state == jobs_pb2.JOB_STATE_RUNNING


async def _have_no_vectors(api: Client, facts: Sequence[memory_pb2.Memory]) -> bool:
    for start in range(0, len(facts), _STATES_AT_ONCE):
        request = recall_pb2.BatchGetIndexStatesRequest(
            item_ids=[fact.memory_id for fact in facts[start : start + _STATES_AT_ONCE]],
            kind=recall_pb2.ITEM_KIND_MEMORY,
        )
        if any(state.pending for state in (await api.index.BatchGetIndexStates(request)).states):
            return True
    return False


async def sources(api: Client, facts: Sequence[memory_pb2.Memory]) -> dict[str, str]:
    """Return the message in which each fact was found."""
    result: dict[str, str] = {}
    for start in range(0, len(facts), _LINEAGE_AT_ONCE):
        ids = [fact.memory_id for fact in facts[start : start + _LINEAGE_AT_ONCE]]
        lineage = await api.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=ids))
        for edge in lineage.edges:
            result.setdefault(lineage.nodes[edge.memory_number].id, lineage.nodes[edge.source_number].id)
    return result


async def measure(path: Path, connection: Connection) -> None:
    """Print the measures of a file before and after extraction."""
    before: list[list[float]] = []
    after: list[list[float]] = []
    message_count = fact_count = 0
    for conversation in read_conversations(path):
        for message in conversation.messages:
            message.subject_id = message.name
        questions = [question for question in conversation.questions if question.evidence]
        items = BenchItems(messages=conversation.messages)
        async with temporary_tenant(connection, conversation.name, items) as api:
            ids: dict[str, str] = {}
            for session_id in dict.fromkeys(message.session_id for message in conversation.messages):
                ids |= {one.message_id: one.external_id async for one in api.list_messages(session_id)}
            before += await ask(api, questions, Named(messages=ids, facts={}))
            facts = await learn(api)
            found_in = {fact_id: ids[source] for fact_id, source in (await sources(api, facts)).items()}
            after += await ask(api, questions, Named(messages=ids, facts=found_in))
            message_count += len(ids)
            fact_count += len(facts)
    print(f"{path.stem}: {len(before)} questions, {message_count} messages, {fact_count} facts")
    _print(np.array(before), np.array(after))


def _print(before: np.ndarray, after: np.ndarray) -> None:
    difference = after - before
    picks = np.random.default_rng(1).integers(0, len(difference), (_RESAMPLES, len(difference)))
    low, high = np.quantile(difference[picks].mean(axis=1), (0.025, 0.975), axis=0)
    for column, name in enumerate(_MEASURES):
        print(
            f"    {name:18} {before[:, column].mean():.3f} {after[:, column].mean():.3f}"
            f"  {low[column]:+.3f} to {high[column]:+.3f}"
        )


async def main() -> None:
    """Measure each file."""
    parser = argparse.ArgumentParser(description="Measures recall before and after extraction.")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    connection = Connection(
        endpoint=os.environ["SKEIN_ENDPOINT"], api_key=os.environ["SKEIN_OPERATOR_KEY"], timeout=30.0
    )
    for path in arguments.files:
        await measure(path, connection)


if __name__ == "__main__":
    asyncio.run(main())
