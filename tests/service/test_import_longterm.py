"""Moving in from a long-term memory on D1: realms, vectors, and what --all does."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import move_all_in, move_in, remaining_counts
from fix_stores import LONGTERM, InvalidText, database, longterm, vectors
from google.protobuf import json_format

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import tenancy_pb2

AT = "2026-03-02T07:12:00Z"
DIMENSIONS = 384


@pytest.fixture
async def model(cluster: Cluster) -> AsyncIterator[str]:
    """Return the name of a model that the cluster does not know, and forget it when the test is over."""
    name = f"their-{uuid.uuid4().hex[:8]}"
    yield name
    listed = await cluster.operator.recall.ListEmbeddingModels(recall_pb2.ListEmbeddingModelsRequest())
    if name in {known.model for known in listed.embedding_models}:
        await cluster.operator.recall.DeleteEmbeddingModel(recall_pb2.DeleteEmbeddingModelRequest(model=name))


def renamed(path: Path, model: str, suffix: str = "") -> Path:
    """Give the rows of `longterm` another model, and its tenants names that no other test has."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE long_term_memory SET embedding_model = ? WHERE embedding_model IS NOT NULL", (model,)
        )
        connection.execute("UPDATE long_term_memory SET tenant_id = tenant_id || ?", (suffix,))
        connection.commit()
    return path


async def test_one_of_several_realms_has_to_be_named(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = str(longterm(tmp_path / "long.sqlite"))

    unnamed = await move_in(cluster, tenant, "longterm-d1", source)
    unknown = await move_in(cluster, tenant, "longterm-d1", source, "--realm", "initech")
    both = await move_in(cluster, tenant, "longterm-d1", source, "--realm", "acme", "--all")

    assert (unnamed.code, unknown.code, both.code) == (1, 1, 2)
    assert "--realm" in unnamed.err
    assert "It has acme, globex." in unnamed.err
    assert "no realm 'initech'. It has acme, globex." in unknown.err
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


async def test_a_realm_comes_into_the_caller_s_tenant_and_no_other_does(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source, dump = longterm(tmp_path / "long.sqlite"), vectors(tmp_path / "vectors.jsonl")
    arguments = ("longterm-d1", str(source), "--realm", "acme", "--vectors", str(dump))

    done = await move_in(cluster, tenant, *arguments)
    again = await move_in(cluster, tenant, *arguments)

    assert done.code == 1, done.err
    assert [entry["where"] for entry in done.json["refused"]] == ["long_term_memory 01D"]
    assert (done.json["written"]["memory"], sum(again.json["written"].values())) == (4, 0)
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(order_by="create_time"))
    memories = {memory.external_id: memory for memory in listed.memories}
    assert {name: memory.agent_id for name, memory in memories.items()} == {
        "01A": "planner", "01B": "planner", "01C": "writer", "01F": "writer",
    }  # fmt: skip
    assert {memory.create_time.ToJsonString() for name, memory in memories.items() if name in "01A 01B 01C"} == {AT}
    assert json_format.MessageToDict(memories["01B"].metadata) == {"metadata_text": "oops"}
    # A tenant registers no models: these vectors are made anew, and the report says which.
    record = next(entry for entry in done.json["records"] if entry["kind"] == "embedding")
    assert (record["read"], record["recomputed"]) == (2, 2)
    assert {(entry["table"], entry["count"], entry["why"]) for entry in done.json["left"]} == {
        ("vectors", 1, "an earlier vector of the same id"),
        ("vectors", 1, "no JSON object with an id and values"),
        ("vectors", 1, "no row of long_term_memory has its id"),
    }
    assert "computed again: the vector's dimensions differ from the row's" in {
        entry["how"] for entry in done.json["coerced"]
    }


@pytest.mark.system
async def test_all_makes_a_tenant_for_each_realm_and_registers_their_model(
    cluster: Cluster, model: str, tmp_path: Path
) -> None:
    suffix = f"-{uuid.uuid4().hex[:8]}"
    source = renamed(longterm(tmp_path / "long.sqlite"), model, suffix)
    dump = vectors(tmp_path / "vectors.jsonl")
    arguments = ("longterm-d1", str(source), "--vectors", str(dump))

    done = await move_all_in(cluster, *arguments)
    again = await move_all_in(cluster, *arguments)
    compared = await move_all_in(cluster, *arguments, "--compare")

    assert set(done.json["tenants"]) == {f"acme{suffix}", f"globex{suffix}"}, done.err
    assert again.json["tenants"] == done.json["tenants"]
    assert (done.json["written"]["memory"], done.json["written"]["embedding"]) == (5, 2)
    assert sum(again.json["written"].values()) == 0
    assert (compared.code, compared.json["in_skein"]) == (0, {"memory": 5})
    for name, count in (("acme", 4), ("globex", 1)):
        acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": done.json["tenants"][f"{name}{suffix}"]})
        listed = await acting.memory.ListMemories(memory_pb2.ListMemoriesRequest())
        assert len(listed.memories) == count
    models = await cluster.operator.recall.ListEmbeddingModels(recall_pb2.ListEmbeddingModelsRequest())
    assert (3, "caller") in {
        (known.dimensions, known.provider) for known in models.embedding_models if known.model == model
    }
    tenants = await cluster.operator.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=1000))
    assert sum(suffix in one.display_name for one in tenants.tenants) == 2


async def test_a_comparison_makes_no_tenant_and_counts_a_realm_that_has_none_as_missing(
    cluster: Cluster, model: str, tmp_path: Path
) -> None:
    suffix = f"-{uuid.uuid4().hex[:8]}"
    source = renamed(longterm(tmp_path / "long.sqlite"), model, suffix)

    compared = await move_all_in(cluster, "longterm-d1", str(source), "--compare")

    listed = await cluster.operator.tenancy.ListTenants(tenancy_pb2.ListTenantsRequest(page_size=1000))
    assert not [one.slug for one in listed.tenants if suffix in one.display_name]
    assert (compared.code, compared.json["inconsistency"], compared.json["in_skein"]) == (1, 1.0, {})
    assert compared.json["missing"]["memory"]["count"] == compared.json["in_source"]["memory"] == 5
    assert compared.json["without_tenant"] == [f"acme{suffix}", f"globex{suffix}"]


async def test_rows_of_no_tenant_are_counted_as_left_behind(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    rows = [
        (f"m{number}", key, "a", "tea", "{}", None, None, None, AT)
        for number, key in enumerate(("acme", None, " ", InvalidText(b"\xff")))
    ]
    ddl = LONGTERM.replace("tenant_id TEXT NOT NULL", "tenant_id TEXT")
    source = database(tmp_path / "long.sqlite", ddl, {"long_term_memory": rows})

    done = await move_in(cluster, tenant, "longterm-d1", str(source))

    assert (done.code, done.json["written"]["memory"]) == (0, 1), done.err
    assert done.json["rows"] == {"long_term_memory": 4}
    assert remaining_counts(done.json) == {"long_term_memory": 3}


async def test_vectors_of_the_model_in_force_are_searched(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    axis = [1.0] + [0.0] * (DIMENSIONS - 1)
    row = ("sentence-transformers", "sentence-transformers/all-MiniLM-L6-v2", DIMENSIONS, AT)
    texts = ("the harbour at dawn", "a recipe for rye bread")
    source = database(
        tmp_path / "long.sqlite",
        LONGTERM,
        {"long_term_memory": [(f"v{number}", "acme", "a", text, "{}", *row) for number, text in enumerate(texts)]},
    )
    dump = tmp_path / "vectors.jsonl"
    dump.write_text(json.dumps({"id": "v1", "values": axis}) + "\n", "utf-8")

    done = await move_in(cluster, tenant, "longterm-d1", str(source), "--vectors", str(dump))
    query = recall_pb2.RecallRequest(limit=1)
    query.embedding.extend(axis)
    hit = (await tenant.recall.Recall(query)).hits[0]

    assert (done.code, done.json["written"]["embedding"]) == (0, 1), done.err
    assert hit.memory.external_id == "v1"
    assert hit.similarity == pytest.approx(1, abs=1e-3)


async def test_a_dump_that_holds_no_vectors_is_a_clear_error(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = longterm(tmp_path / "long.sqlite")
    other = tmp_path / "other.jsonl"
    other.write_text('{"name": "no vector"}\n', "utf-8")

    empty = await move_in(cluster, tenant, "longterm-d1", str(source), "--vectors", str(other))
    absent = await move_in(cluster, tenant, "longterm-d1", str(source), "--vectors", str(tmp_path / "absent"))
    misplaced = await move_in(cluster, tenant, "duyetbot-d1", str(source), "--vectors", str(other))

    assert (empty.code, absent.code, misplaced.code) == (1, 2, 2)
    assert "holds no vectors" in empty.err
    assert "does not exist" in absent.err
    assert "--vectors does not apply to duyetbot-d1" in misplaced.err


async def test_vectors_of_a_registered_model_are_kept_with_who_made_them(
    cluster: Cluster, tenant: Tenant, model: str, tmp_path: Path
) -> None:
    registered = recall_pb2.EmbeddingModel(model=model, provider="caller", dimensions=1536)
    request = recall_pb2.RegisterEmbeddingModelRequest(embedding_model=registered)
    await cluster.operator.recall.RegisterEmbeddingModel(request)
    axis = [0.0] * 1535 + [1.0]
    row = ("openai", model, 1536, AT)
    source = database(
        tmp_path / "long.sqlite", LONGTERM, {"long_term_memory": [("v0", "acme", "a", "the harbour", "{}", *row)]}
    )
    dump = tmp_path / "vectors.jsonl"
    dump.write_text(json.dumps({"id": "v0", "values": axis}) + "\n", "utf-8")

    done = await move_in(cluster, tenant, "longterm-d1", str(source), "--vectors", str(dump))
    asked = recall_pb2.BatchGetIndexStatesRequest(item_ids=["v0"], show_embeddings=True)
    (state,) = (await tenant.recall.BatchGetIndexStates(asked)).states

    assert (done.code, done.json["written"]["embedding"]) == (0, 1), done.err
    (kept,) = [vector for vector in state.vectors if vector.model == model]
    assert (kept.provider, kept.dimensions, kept.vector_count, kept.from_caller) == ("openai", 1536, 1, True)
    assert list(kept.embeddings[0].values) == axis
