from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fix_cluster import test_environment
from fix_command import skein

from skein.tenancy.v1 import tenancy_pb2
from skein_cluster.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from fix_cluster import Cluster

MEASURES = {"recall@5", "recall@10", "recall@25", "mrr"}


def turns(session: int, *lines: tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"speaker": speaker, "dia_id": f"D{session}:{place}", "text": text}
        for place, (speaker, text) in enumerate(lines, start=1)
    ]


def conversation(name: str, *, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return two people, two sessions, and more turns than vectors are made of at once."""
    weather = [(("Ruth", "Kemal")[number % 2], f"It rained on day {number} of the trip.") for number in range(20)]
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Ruth",
            "speaker_b": "Kemal",
            "session_1_date_time": "1:56 pm on 8 May, 2024",
            "session_1": turns(1, ("Ruth", "My sail tore in the storm."), ("Kemal", "I adopted a grey parrot.")),
            "session_2_date_time": "9:00 am on 3 June, 2024",
            "session_2": turns(2, *weather),
        },
        "qa": questions,
    }


@pytest.fixture
def operator(cluster: Cluster) -> dict[str, str]:
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_OPERATOR_KEY": cluster.operator_key}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    requests = [
        {"question": "What happened to Ruth's sail?", "answer": "It tore", "evidence": ["D1:1"], "category": 4},
        {"question": "Which animal did Kemal adopt?", "answer": "A parrot", "evidence": ["D1:2"], "category": 1},
        {"question": "Who went to the moon?", "adversarial_answer": "Ruth", "evidence": [], "category": 5},
    ]
    path = tmp_path / "people.json"
    path.write_text(json.dumps([conversation("one", questions=requests), conversation("two", questions=requests[:1])]))
    return path


async def test_turns_may_be_messages_whose_speakers_are_found(
    cluster: Cluster, operator: dict[str, str], file: Path
) -> None:
    assert cluster
    ended = await skein(
        "bench", "locomo", str(file), "--form", "messages", "--no-ablation", "--json", environment=operator
    )

    assert ended.code == ExitCode.OK, ended.err
    assert (ended.json["form"], ended.json["messages"], ended.json["degraded_answers"]) == ("messages", 44, 0)
    assert ended.json["overall"]["recall@10"]["value"] == 1.0


async def tenants(cluster: Cluster) -> set[str]:
    request = tenancy_pb2.ListTenantsRequest(page_size=1000)
    listed = await cluster.operator.tenancy.ListTenants(request)
    return {tenant.tenant_id for tenant in listed.tenants}


async def test_every_question_is_asked_and_its_evidence_counted(
    cluster: Cluster, operator: dict[str, str], file: Path
) -> None:
    before = await tenants(cluster)
    ended = await skein("bench", "locomo", str(file), "--json", environment=operator)
    payload = ended.json

    assert ended.code == ExitCode.OK, ended.err
    assert (payload["file"], payload["memories"], payload["degraded_answers"]) == ("people.json", 44, 0)
    assert payload["overall"]["questions"] == 4
    assert payload["overall"].keys() == {"questions", *MEASURES}
    assert {name: part["questions"] for name, part in payload["categories"].items()} == {
        "single-hop": 2,
        "multi-hop": 1,
        "adversarial": 1,
    }
    assert payload["categories"]["single-hop"]["recall@5"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert [part["name"] for part in payload["conversations"]] == ["one", "two"]
    assert 0 < payload["latency_ms"]["p50"] <= payload["latency_ms"]["p95"]
    assert await tenants(cluster) == before


async def test_each_signal_is_switched_off_in_turn(operator: dict[str, str], file: Path) -> None:
    ended = await skein("bench", "locomo", str(file), "--conversations", "1", "--json", environment=operator)
    payload = ended.json

    assert len(payload["conversations"]) == 1
    assert {"dense", "lexical"} <= payload["ablation"].keys()
    assert all(part.keys() == MEASURES for part in payload["ablation"].values())


async def test_a_person_gets_tables(cluster: Cluster, operator: dict[str, str], file: Path) -> None:
    before = await tenants(cluster)
    ended = await skein(
        "bench", "locomo", str(file), "--conversations", "1", "--no-ablation", "--keep", environment=operator
    )
    remaining = await tenants(cluster) - before

    assert ended.code == ExitCode.OK, ended.err
    assert all(word in ended.out for word in ("single-hop", "recall@10", "mrr", "all", "p95"))
    assert "Lost without a signal" not in ended.out
    assert len(remaining) == 1


async def test_a_file_of_another_kind_is_refused_before_anything_is_made(
    operator: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "other.json"
    path.write_text('[{"something": "else"}]')

    ended = await skein("bench", "locomo", str(path), environment=operator)

    assert ended.code == ExitCode.REFUSED
    assert "LoCoMo" in ended.err
