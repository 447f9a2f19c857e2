"""Moving in from Hindsight: the transfer archive of a bank."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import changed, move_in, outcome, refusal_of, refusals, remaining_counts
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2

AT = "2026-03-02T07:12:00Z"
FACT: dict[str, Any] = {
    "context": None, "event_date": None, "occurred_start": None, "occurred_end": None, "mentioned_at": None,
    "metadata": {}, "tags": [], "observation_scopes": None, "chunk_index": 0, "entities": [], "causal_relations": [],
    "created_at": AT, "consolidated_at": None, "consolidation_failed_at": None,
}  # fmt: skip
TALK: dict[str, Any] = {
    "id": "talk", "original_text": "Anna moved to Graz because of her new job.", "retain_params": {"context": "chat"},
    "tags": ["home"], "created_at": AT, "chunks": [{"chunk_index": 0, "chunk_text": "Anna moved to Graz"}],
    "facts": [
        {**FACT, "text": "Anna has a new job", "source_id": "fact-1", "fact_type": "experience", "entities": ["Anna"]},
        {**FACT, "text": "Anna moved to Graz", "source_id": "fact-2", "fact_type": "world", "context": "moving",
         "occurred_start": "2024-05-01T00:00:00Z", "occurred_end": "2024-05-02T00:00:00Z", "tags": ["move"],
         "metadata": {"by": "Anna"}, "entities": ["Anna", "Graz"],
         "causal_relations": [{"relation_type": "caused_by", "target_fact_index": 0},
                              {"relation_type": "caused_by", "target_fact_index": 7}]},
        {**FACT, "text": " ", "source_id": "fact-3", "fact_type": "world"},
    ],
}  # fmt: skip
# An archive of documents alone has no ids of facts.
NOTE = {"id": "note", "original_text": None, "facts": [{**FACT, "text": "The door is red", "source_id": None,
                                                       "fact_type": "world"}]}  # fmt: skip
OBSERVATIONS = [
    {"source_id": "observation-1", "text": "Anna settled in Graz", "created_at": AT, "tags": [], "proof_count": 2,
     "sources": [{"document_id": "talk", "fact_index": 1}, {"document_id": "gone", "fact_index": 0}]},
]  # fmt: skip
MODELS = [{"id": "model-1", "bank_id": "home", "name": "Anna", "content": "Anna lives and works in Graz.", "tags": [],
           "source_query": "Who is Anna?", "created_at": AT}]  # fmt: skip
DIRECTIVES = [
    {"id": "directive-1", "bank_id": "home", "name": "kind", "content": "Be kind.", "is_active": True, "priority": 3},
    {"id": "directive-2", "bank_id": "home", "name": "old", "content": "Shout.", "is_active": False},
]


def an_archive(path: Path, **changes: Any) -> str:
    """Write a whole-bank archive; `changes` replace fields of the manifest."""
    members = {
        "documents/000000.json": TALK,
        "documents/000001.json": NOTE,
        "observations.json": OBSERVATIONS,
        "mental_models.json": MODELS,
        "directives.json": DIRECTIVES,
        "banks.json": [{"bank_id": "home", "name": "Home"}],
        "knowledge_pages.json": [],
        "history/audit_log.json": [{"id": 1}, {"id": 2}],
        "manifest.json": {"schema_version": 1, "source_bank_id": "home", "archive_type": "bank", **changes},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(name, json.dumps(value))
        file.writestr("blobs/0", b"picture")
    return str(path)


async def links_of(tenant: Tenant, external_id: str) -> set[tuple[str, str]]:
    """Return the relations of a memory's links, with the ids of their targets."""
    request = memory_pb2.ListLinksRequest(memory_id=external_id, direction=memory_pb2.LINK_DIRECTION_OUTGOING)
    return {
        (link.relation, (await tenant.get_memory(link.to_memory_id)).external_id)
        for link in (await tenant.links.ListLinks(request)).links
    }


async def test_a_bank_s_facts_keep_their_documents_entities_and_causes(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "hindsight-zip", an_archive(tmp_path / "bank.zip"))

    assert done.code == 1, done.err
    assert refusals(done.json) == {"facts talk#2": "text is empty"}
    job, moved, door = [await tenant.get_memory(name) for name in ("fact-1", "fact-2", "note#0")]
    assert [(fact.type, fact.content) for fact in (job, moved, door)] == [
        ("experience", "Anna has a new job"),
        ("fact", "Anna moved to Graz"),
        ("fact", "The door is red"),
    ]
    assert moved.valid_from_time.ToDatetime(tzinfo=UTC) == datetime(2024, 5, 1, tzinfo=UTC)
    assert not moved.HasField("valid_to_time")
    assert MessageToDict(moved.metadata) == {
        "by": "Anna",
        "hindsight": {"context": "moving", "occurred_end": "2024-05-02T00:00:00Z", "chunk_index": 0.0},
    }
    assert await links_of(tenant, "fact-2") == {
        ("derived_from", "talk"), ("mentions", "entity/Anna"), ("mentions", "entity/Graz"), ("caused_by", "fact-1"),
    }  # fmt: skip
    assert await links_of(tenant, "observation-1") == {("derived_from", "fact-2")}
    talk, model, directive = [await tenant.get_memory(name) for name in ("talk", "model-1", "directive-1")]
    assert (talk.type, talk.content) == ("document", "Anna moved to Graz because of her new job.")
    assert (model.type, model.title, model.content) == ("mental_model", "Anna", "Anna lives and works in Graz.")
    assert (directive.type, directive.content) == ("directive", "Be kind.")


async def test_what_has_no_place_is_named(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    done = await move_in(cluster, tenant, "hindsight-zip", an_archive(tmp_path / "bank.zip"))

    assert remaining_counts(done.json) == {"audit_log": 2, "banks": 1, "directives": 1, "documents": 1, "blobs": 1}
    assert changed(done.json, "documents", "chunks") == {"made again by the cluster": 1}
    assert changed(done.json, "facts", "causal_relations") == {"no such fact in the document: the link is left out": 1}
    assert changed(done.json, "observations", "sources") == {"no such fact in the archive: the link is left out": 1}


@pytest.mark.system
async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = an_archive(tmp_path / "bank.zip")

    dry = await move_in(cluster, tenant, "hindsight-zip", source, "--dry-run")
    first = await move_in(cluster, tenant, "hindsight-zip", source)
    again = await move_in(cluster, tenant, "hindsight-zip", source)
    compared = await move_in(cluster, tenant, "hindsight-zip", source, "--compare")

    for kind, count in (("memory", 9), ("link", 7)):
        assert outcome(dry.json, kind)[0] == count
        assert (outcome(first.json, kind), outcome(again.json, kind)) == ((count, count, 0), (count, 0, count))
    assert (compared.code, compared.json["missing"], compared.json["different"]) == (0, {}, [])


async def test_another_file_or_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("readme", "hello")

    assert "it is no ZIP file" in await refusal_of("hindsight-zip", str(tmp_path / "text"))
    assert "it has no manifest.json" in await refusal_of("hindsight-zip", str(tmp_path / "other.zip"))
    newer = an_archive(tmp_path / "newer.zip", schema_version=2)
    assert "is a transfer archive of version 2" in await refusal_of("hindsight-zip", newer)


async def test_a_damaged_archive_ends_the_import_with_its_member(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = an_archive(tmp_path / "bank.zip")
    with zipfile.ZipFile(source, "a") as file:
        file.writestr("documents/000002.json", "[")

    done = await move_in(cluster, tenant, "hindsight-zip", source)

    assert done.code == 1
    assert "is damaged: documents/000002.json is no JSON" in done.err
