"""Moving in from mem0: what get_all returns, points of Qdrant, and collections in Postgres."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import a_database, changed, move_in, outcome, refusal_of, refusals
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2

TEA, GARDEN, PLAN = (f"0d2c4c1e-7b1f-4f63-9a55-00000000000{number}" for number in range(1, 4))
GONE, KITCHEN = "0d2c4c1e-7b1f-4f63-9a55-0000000000ff", "0d2c4c1e-7b1f-4f63-9a55-0000000000e1"
# What `Memory.get_all` of mem0 2 returns, with the relations of its graph memory and fields of its platform.
EXPORT: dict[str, Any] = {
    "results": [
        {"id": TEA, "memory": "Drinks tea in the morning", "hash": "ab12", "created_at": "2026-03-02T07:12:00.25+00:00",
         "updated_at": "2026-03-04T08:00:00+00:00", "user_id": "anna", "agent_id": "butler", "run_id": "run-7",
         "metadata": {"room": "kitchen", "cups": 2}, "categories": ["food", "habits"], "actor_id": "anna"},
        {"id": GARDEN, "memory": "Waters the garden on Mondays", "hash": "cd34", "created_at": None,
         "updated_at": None, "user_id": "anna", "expiration_date": "2090-01-31", "score": None},
        {"id": PLAN, "memory": "   ", "user_id": "anna"},
    ],
    "relations": [{"source": "anna", "relationship": "lives_in", "target": "graz"}],
}  # fmt: skip
# A table of the pgvector store; the collection's name is the caller's.
TABLE = "CREATE TABLE {} (id UUID PRIMARY KEY, vector vector(3), payload JSONB);"
DDL = "CREATE EXTENSION IF NOT EXISTS vector;" + "".join(
    TABLE.format(name) for name in ("mem0", "mem0_entities", "mem0migrations")
)
PAYLOADS = {
    TEA: {"data": "Drinks tea in the morning", "hash": "ab12", "created_at": "2026-03-02T07:12:00.25+00:00",
          "updated_at": "2026-03-04T08:00:00+00:00", "user_id": "anna", "agent_id": "butler", "run_id": "run-7",
          "text_lemmatized": "drink tea morning", "room": "kitchen", "cups": 2},
    GARDEN: {"data": "Waters the garden on Mondays", "user_id": "anna", "expiration_date": "2020-01-31"},
}  # fmt: skip
ENTITY = {"data": "Kitchen", "entity_type": "PLACE", "linked_memory_ids": [TEA, GONE], "user_id": "anna"}


async def count(tenant: Tenant) -> int:
    return len((await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=100))).memories)


def a_file(path: Path, *pages: Any) -> str:
    path.write_text("\n".join(map(json.dumps, pages)), "utf-8")
    return str(path)


async def test_memories_of_get_all_keep_their_ids_owners_times_and_metadata(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "all.json", EXPORT)

    done = await move_in(cluster, tenant, "mem0-json", source)

    assert done.code == 1, done.err
    tea, garden = await tenant.get_memory(TEA), await tenant.get_memory(GARDEN)
    assert (tea.content, tea.subject_id, tea.agent_id, tea.session_id) == (
        "Drinks tea in the morning", "anna", "butler", "run-7",
    )  # fmt: skip
    assert list(tea.tags) == ["food", "habits"]
    assert tea.create_time.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 2, 7, 12, 0, 250_000, tzinfo=UTC)
    assert tea.update_time.ToDatetime(tzinfo=UTC) == datetime(2026, 3, 4, 8, tzinfo=UTC)
    assert MessageToDict(tea.metadata) == {
        "room": "kitchen", "cups": 2.0, "mem0": {"hash": "ab12", "actor_id": "anna"},
    }  # fmt: skip
    assert garden.expire_time.ToDatetime(tzinfo=UTC) == datetime(2090, 2, 1, tzinfo=UTC)
    assert outcome(done.json, "memory") == (3, 3, 0)
    assert refusals(done.json) == {f"memories {PLAN}": "memory is empty"}
    assert changed(done.json, "memories", "expiration_date") == {
        "a day became the end of that day in UTC": 1, "a time without a zone, taken as UTC": 1,
    }  # fmt: skip
    relation = (
        await tenant.memory.ListMemories(
            memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(types=["relationship"]))
        )
    ).memories[0]
    assert relation.content == "anna lives in graz"


async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = a_file(tmp_path / "all.json", {**EXPORT, "results": EXPORT["results"][:2]})

    dry = await move_in(cluster, tenant, "mem0-json", source, "--dry-run")
    before = await count(tenant)
    first = await move_in(cluster, tenant, "mem0-json", source)
    again = await move_in(cluster, tenant, "mem0-json", source)
    compared = await move_in(cluster, tenant, "mem0-json", source, "--compare")

    assert (dry.code, before, dry.json["read"]["memory"]) == (0, 0, 3)
    assert (first.code, again.code, compared.code) == (0, 0, 0), first.err + again.err + compared.err
    assert (outcome(first.json, "memory"), outcome(again.json, "memory")) == ((3, 3, 0), (3, 0, 3))
    assert (compared.json["missing"], compared.json["different"]) == ({}, [])
    assert await count(tenant) == 3


async def test_points_of_qdrant_come_page_by_page(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    points = [{"id": name, "payload": payload, "vector": None} for name, payload in PAYLOADS.items()]
    pages = [{"result": {"points": [point], "next_page_offset": None}, "status": "ok"} for point in points]
    entity = {"result": {"points": [{"id": KITCHEN, "payload": ENTITY}]}, "status": "ok"}
    source = a_file(tmp_path / "points.jsonl", *pages, entity)

    done = await move_in(cluster, tenant, "mem0-json", source)

    assert done.code == 0, done.err
    tea, kitchen = await tenant.get_memory(TEA), await tenant.get_memory(KITCHEN)
    assert MessageToDict(tea.metadata) == {"room": "kitchen", "cups": 2.0, "mem0": {"hash": "ab12"}}
    assert (kitchen.type, kitchen.content) == ("entity", "Kitchen")
    assert outcome(done.json, "link") == (1, 1, 0)
    assert changed(done.json, "memories", "text_lemmatized") == {"made again by the cluster": 1}


@pytest.mark.system
async def test_a_collection_in_postgres_comes_with_its_entities(cluster: Cluster, tenant: Tenant) -> None:
    async with a_database(cluster, DDL) as (url, connection):
        for table, rows in (("mem0", PAYLOADS), ("mem0_entities", {KITCHEN: ENTITY})):
            for name, payload in rows.items():
                await connection.execute(
                    f"INSERT INTO {table} VALUES ($1::uuid, '[1,2,3]', $2::jsonb)",  # noqa: S608 - our names.
                    name,
                    json.dumps(payload),
                )

        first = await move_in(cluster, tenant, "mem0-pgvector", url)
        again = await move_in(cluster, tenant, "mem0-pgvector", url)
        compared = await move_in(cluster, tenant, "mem0-pgvector", url, "--compare")

    assert (first.code, again.code, compared.code) == (0, 0, 0), first.err + again.err + compared.err
    assert (outcome(first.json, "memory"), outcome(first.json, "link")) == ((3, 3, 0), (1, 1, 0))
    assert (outcome(again.json, "memory"), outcome(again.json, "link")) == ((3, 0, 3), (1, 0, 1))
    assert (compared.json["missing"], compared.json["different"]) == ({}, [])
    assert (await tenant.get_memory(TEA)).content == "Drinks tea in the morning"
    links = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id=KITCHEN))
    assert [link.relation for link in links.links] == ["mentions"]
    # The second memory expired there, and is stored as such.
    assert changed(first.json, "mem0", "expire_time") == {"in the past: stored as expired": 1}
    assert changed(first.json, "mem0_entities", "linked_memory_ids") == {
        "no such memory there: the link is left out": 1
    }


@pytest.mark.system
async def test_one_of_several_collections_has_to_be_named(cluster: Cluster, tenant: Tenant) -> None:
    async with a_database(cluster, DDL + TABLE.format("travel")) as (url, connection):
        await connection.execute("INSERT INTO travel VALUES ($1, NULL, $2)", TEA, '{"data": "Likes trains"}')

        unnamed = await move_in(cluster, tenant, "mem0-pgvector", url)
        named = await move_in(cluster, tenant, "mem0-pgvector", url, "--realm", "travel")

    assert unnamed.code == 1
    assert "It has mem0, travel." in unnamed.err
    assert (named.code, outcome(named.json, "memory")) == (0, (1, 1, 0))


async def test_what_is_not_mem0_s_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    other = a_file(tmp_path / "other.json", {"users": [1]})

    async with a_database(cluster, "CREATE TABLE notes (id INT)") as (url, _):
        assert "no table has the columns id, vector and payload" in await refusal_of("mem0-pgvector", url)
    assert "holds no memories of mem0" in await refusal_of("mem0-json", other)
