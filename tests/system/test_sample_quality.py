"""The sample conversation is recalled as well as it was: floors a little below what was measured last.

Measured over all 40 questions with the embedded model, memories and messages asked, at most 25 hits each: recall@5
0.75, recall@10 0.879, recall@25 0.917, mean reciprocal rank 0.77, evidence first for 26 questions; recall@10 by kind:
changed_fact 0.923, multi 0.938, paraphrase 0.778, single 0.861, temporal 0.917. The default cut leaves out what lies
deep: without it recall@25 is 0.946. A change that costs quality fails here; one that adds some raises the figures and
the floors.
"""

from __future__ import annotations

import asyncio
import json
from importlib.resources import as_file, files
from typing import Any

import pytest
from fix_cluster import Cluster

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein_client.client import Client
from skein_client.connection import Connection
from skein_cluster.api.client import open_client
from skein_cluster.bench.measures import ScoredQuestion, by_category, summary
from skein_cluster.cli.recall_hits import hit_name
from skein_importers.importer import Importer, Report
from skein_importers.records import read_jsonl

SAMPLE = files("skein_cluster") / "sample"
LIMIT = 25
# Up to here vectors are made before a call answers.
EMBEDDED_AT_ONCE = 16
FLOORS = {"recall@5": 0.73, "recall@10": 0.86, "recall@25": 0.9, "mrr": 0.75}
FIRST = 25
# recall@10 by the kind of question; of some there are only four.
FLOORS_BY_KIND = {"changed_fact": 0.9, "multi": 0.87, "paraphrase": 0.75, "single": 0.83, "temporal": 0.87}


@pytest.fixture(scope="module")
async def scored_questions(cluster: Cluster) -> list[ScoredQuestion]:
    """Import the sample into a tenant of its own and ask all of its questions."""
    tenant = await cluster.new_tenant()
    connection = Connection(endpoint=cluster.endpoint, api_key=tenant.api_key, timeout=30.0)
    report = Report()
    async with open_client(connection) as api:
        with as_file(SAMPLE / "household.jsonl") as path:
            await Importer(api, report, lambda _count: None, batch=EMBEDDED_AT_ONCE).run(read_jsonl(path))
        assert report.refused == []
        async with asyncio.timeout(120):
            while await _has_pending_vectors(api):
                pass
    questions: list[dict[str, Any]] = json.loads((SAMPLE / "questions.json").read_text("utf-8"))

    async def answer(question: dict[str, Any]) -> ScoredQuestion:
        response = await tenant.gateway.Recall(pb.RecallRequest(query=question["question"], limit=LIMIT))
        assert all(branch.state == pb.BRANCH_STATE_OK for branch in response.branches)
        return ScoredQuestion(
            category=question["kind"],
            evidence=frozenset(question["evidence"]),
            hit_ids=tuple(hit_name(hit) for hit in response.hits),
        )

    return [await answer(question) for question in questions]


async def _has_pending_vectors(api: Client) -> bool:
    """Return whether an item of the sample has no vectors yet: on a busy machine the worker makes some of them."""
    lines = (SAMPLE / "household.jsonl").read_text("utf-8").splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for kind, name in ((recall_pb2.ITEM_KIND_MEMORY, "memory"), (recall_pb2.ITEM_KIND_MESSAGE, "message")):
        ids = [record["external_id"] for record in records if record["record"] == name]
        for start in range(0, len(ids), 100):
            request = recall_pb2.BatchGetIndexStatesRequest(item_ids=ids[start : start + 100], kind=kind)
            if any(state.pending for state in (await api.index.BatchGetIndexStates(request)).states):
                return True
    return False


def test_the_evidence_is_found_as_well_as_before(scored_questions: list[ScoredQuestion]) -> None:
    results = {name: round(mean.value, 3) for name, mean in summary(scored_questions, seed=1).items()}

    assert {name: value for name, value in results.items() if value < FLOORS[name]} == {}, results


def test_no_kind_of_question_pays_for_another(scored_questions: list[ScoredQuestion]) -> None:
    results = {
        kind: round(summary(some, seed=1)["recall@10"].value, 3) for kind, some in by_category(scored_questions).items()
    }

    assert results.keys() == FLOORS_BY_KIND.keys()
    assert {kind: value for kind, value in results.items() if value < FLOORS_BY_KIND[kind]} == {}, results


def test_most_questions_have_evidence_first(scored_questions: list[ScoredQuestion]) -> None:
    first = sum(bool(one.hit_ids) and one.hit_ids[0] in one.evidence for one in scored_questions)

    assert first >= FIRST
