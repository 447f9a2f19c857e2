"""Moving in from documents of the Memory Interchange Format that other programs wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import changed, move_in, outcome, refusal_of, refusals, remaining_counts
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2

AT = "2026-03-02T07:12:00Z"
TEA, CUPS, BLANK = (f"5f0c7d7e-0b43-4c52-8d3e-00000000000{number}" for number in range(1, 4))
DOCUMENT: dict[str, Any] = {
    "mif_version": "2.0",
    "generator": {"name": "another", "version": "1.0"},
    "memories": [
        {"id": TEA, "content": "Drinks tea in the morning", "memory_type": "Observation", "created_at": AT,
         "updated_at": "2026-03-04T08:00:00+00:00", "tags": ["food", "food"], "agent_id": "butler",
         "entities": [{"name": "Anna", "entity_type": "person"}], "metadata": {"room": "kitchen"}, "version": 3,
         "source": {"source_type": "chat", "session_id": "s1", "agent_name": "Butler", "turn": 4},
         "related_memory_ids": [CUPS, "gone"], "external_id": None},
        {"id": CUPS, "content": "Has two cups", "created_at": AT, "parent_id": TEA, "external_id": "cups",
         "embeddings": {"model": "their-model", "dimensions": 2, "vector": [0.5, 0.5]}},
        {"id": BLANK, "content": "", "created_at": AT},
    ],
    "knowledge_graph": {
        "entities": [{"id": "e1", "name": "Anna", "types": ["person"], "summary": "Lives in Graz",
                      "attributes": {"age": 41}, "created_at": AT}, {"id": "e2", "name": "Graz"}],
        "relationships": [
            {"id": "r1", "source_entity_id": "e1", "target_entity_id": "e2", "relation_type": "LIVES_IN",
             "context": "since 2024", "confidence": 0.75, "created_at": AT, "invalidated_at": None},
            {"id": "r2", "source_entity_id": "e1", "target_entity_id": "e2", "relation_type": "lives_in"},
            {"id": "r3", "source_entity_id": "e1", "target_entity_id": "gone", "relation_type": "lives_in"},
        ],
    },
    "vendor_extensions": {"another": {"rank": 1}},
}  # fmt: skip


def a_file(path: Path, document: Any) -> str:
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


async def test_memories_and_the_graph_come_with_their_times_and_links(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "mif", a_file(tmp_path / "memories.mif.json", DOCUMENT))

    assert done.code == 1, done.err
    tea, cups, anna = [await tenant.get_memory(name) for name in (TEA, "cups", "e1")]
    assert (tea.type, tea.content, tea.agent_id) == ("observation", "Drinks tea in the morning", "butler")
    assert (tea.source, tea.session_id, tea.source_agent, list(tea.tags)) == ("chat", "s1", "Butler", ["food"])
    assert tea.update_time.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 4, 8, tzinfo=UTC)
    assert MessageToDict(tea.metadata) == {
        "room": "kitchen",
        "mif": {"version": 3.0, "entities": [{"name": "Anna", "entity_type": "person"}], "source_turn": 4.0},
    }
    assert cups.create_time.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 2, 7, 12, tzinfo=UTC)
    assert (anna.type, anna.content, list(anna.tags)) == ("entity", "Anna: Lives in Graz", ["person"])
    links = {
        name: (await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=name))).links for name in (TEA, "e1")
    }
    assert {(link.relation, link.from_memory_id == tea.memory_id) for link in links[TEA]} == {
        ("related", True), ("parent", False),
    }  # fmt: skip
    assert [(link.relation, link.label, link.weight) for link in links["e1"]] == [("lives_in", "since 2024", 0.75)]


async def test_what_has_no_place_is_named(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    done = await move_in(cluster, tenant, "mif", a_file(tmp_path / "memories.mif.json", DOCUMENT))

    assert refusals(done.json) == {f"memories {BLANK}": "content: is needed"}
    assert remaining_counts(done.json) == {"relationships": 2, "vendor_extensions.another": 1}
    assert changed(done.json, "memories", "related_memory_ids") == {
        "no such memory in the document: the link is left out": 1
    }
    assert changed(done.json, "memories", "embedding") == {
        "computed again: their-model with 2 dimensions is no model of this cluster": 1
    }


@pytest.mark.system
async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "memories.mif.json", DOCUMENT)

    first = await move_in(cluster, tenant, "mif", source)
    again = await move_in(cluster, tenant, "mif", source)
    compared = await move_in(cluster, tenant, "mif", source, "--compare")

    for kind, count in (("memory", 4), ("link", 3)):
        assert (outcome(first.json, kind), outcome(again.json, kind)) == ((count, count, 0), (count, 0, count))
    assert (compared.code, compared.json["missing"], compared.json["different"]) == (0, {}, [])


async def test_another_document_or_version_is_refused(tmp_path: Path) -> None:
    assert "is no document of MIF" in await refusal_of("mif", a_file(tmp_path / "x.json", {"results": []}))
    older = {**DOCUMENT, "mif_version": "1.0"}
    assert "its mif_version should begin with 2." in await refusal_of("mif", a_file(tmp_path / "x.json", older))
