"""Moving in from LangGraph's PostgresStore: a graph reads from Skein what it wrote to Postgres."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import a_database, fill, move_in, outcome, refusal_of, refusals, remaining_counts

from skein.memory.v1 import memory_pb2
from skein_langgraph.store import SkeinStore

# The tables that PostgresStore.setup() makes.
DDL = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP,
    expires_at TIMESTAMP WITH TIME ZONE, ttl_minutes INT,
    PRIMARY KEY (prefix, key)
);
CREATE TABLE store_vectors (
    prefix text NOT NULL, key text NOT NULL, field_name text NOT NULL, embedding vector(3),
    PRIMARY KEY (prefix, key, field_name),
    FOREIGN KEY (prefix, key) REFERENCES store (prefix, key) ON DELETE CASCADE
);
"""
MADE, CHANGED = datetime(2026, 3, 2, 7, 12, tzinfo=UTC), datetime(2026, 3, 4, 8, 30, tzinfo=UTC)
DEEP: dict[str, Any] = {"level": 0}
for level in range(1, 25):
    DEEP = {"level": level, "below": DEEP}
ITEMS: dict[tuple[str, ...], dict[str, Any]] = {
    ("users", "anna"): {
        "drinks": {"likes": "green tea", "cups": 3, "ratio": 0.5, "often": True, "not": None, "in": ["a", {"b": []}]},
        "numbers": {"whole": 1.0, "large": 9007199254740993, "price": 0.1},
        "empty": {},
        "deep": DEEP,
    },
    ("users", "bob"): {"drinks": {"likes": "coffee"}},
    ("x" * 300,): {"k" * 300: {"long": "names"}},
}


@pytest.fixture
async def source(cluster: Cluster) -> AsyncIterator[str]:
    """A store with two people's items."""
    async with a_database(cluster, DDL) as (url, connection):
        for namespace, items in ITEMS.items():
            for key, value in items.items():
                row = {"prefix": ".".join(namespace), "key": key, "value": json.dumps(value)}
                await fill(connection, "store", {**row, "created_at": MADE, "updated_at": CHANGED})
        await connection.execute(
            "UPDATE store SET expires_at = '2090-01-01Z', ttl_minutes = 60 WHERE prefix = 'users.bob'"
        )
        await connection.execute("INSERT INTO store_vectors VALUES ('users.bob', 'drinks', '$', '[1,2,3]')")
        yield url


@pytest.mark.system
async def test_a_graph_reads_its_items_from_skein_as_it_wrote_them(
    cluster: Cluster, tenant: Tenant, source: str
) -> None:
    done = await move_in(cluster, tenant, "langgraph-pg", source)

    assert done.code == 0, done.err
    assert remaining_counts(done.json) == {"store_vectors": 1}
    async with SkeinStore(endpoint=cluster.endpoint, api_key=tenant.api_key) as store:
        for namespace, items in ITEMS.items():
            for key, value in items.items():
                item = await store.aget(namespace, key)
                assert item is not None
                assert json.dumps(item.value, sort_keys=True) == json.dumps(value, sort_keys=True)
                assert (item.namespace, item.key) == (namespace, key)
                assert (item.created_at, item.updated_at) == (MADE, CHANGED)
        assert set(await store.alist_namespaces()) == set(ITEMS)
        best = (await store.asearch(("users",), query="green tea"))[0]
        assert (best.namespace, best.key) == (("users", "anna"), "drinks")
        await store.aput(("users", "bob"), "drinks", {"likes": "juice"})
        item = await store.aget(("users", "bob"), "drinks")
    assert item is not None
    assert item.value == {"likes": "juice"}


@pytest.mark.system
async def test_a_time_to_live_comes_along(cluster: Cluster, tenant: Tenant, source: str) -> None:
    await move_in(cluster, tenant, "langgraph-pg", source)

    request = memory_pb2.GetMemoryRequest(memory_id="langgraph:users.bob..drinks")
    memory = (await tenant.memory.GetMemory(request)).memory
    assert memory.expire_time.ToDatetime(tzinfo=UTC) == datetime(2090, 1, 1, tzinfo=UTC)
    assert json.loads(memory.metadata_json)["langgraph"]["ttl_minutes"] == 60
    assert memory.content == "likes: coffee"


@pytest.mark.system
async def test_a_repeated_import_writes_nothing_and_compares_equal(
    cluster: Cluster, tenant: Tenant, source: str
) -> None:
    dry = await move_in(cluster, tenant, "langgraph-pg", source, "--dry-run")
    missing = await move_in(cluster, tenant, "langgraph-pg", source, "--compare")
    first = await move_in(cluster, tenant, "langgraph-pg", source)
    again = await move_in(cluster, tenant, "langgraph-pg", source)
    compared = await move_in(cluster, tenant, "langgraph-pg", source, "--compare")

    # An item or a namespace is a memory.
    assert (dry.json["read"]["memory"], missing.json["missing"]["memory"]["count"]) == (9, 9)
    assert (outcome(first.json, "memory"), outcome(again.json, "memory")) == ((9, 9, 0), (9, 0, 9)), first.err
    assert (compared.code, compared.json["missing"], compared.json["different"]) == (0, {}, [])


async def test_a_value_that_is_no_object_is_refused(cluster: Cluster, tenant: Tenant) -> None:
    async with a_database(cluster, DDL) as (url, connection):
        await fill(connection, "store", {"prefix": "users", "key": "list", "value": "[1]"})

        done = await move_in(cluster, tenant, "langgraph-pg", url)

    assert (done.code, refusals(done.json)) == (1, {"store users list": "value is no JSON object"})


async def test_another_database_is_refused(cluster: Cluster) -> None:
    async with a_database(cluster, "CREATE TABLE store (key text, value jsonb)") as (url, _):
        assert "its table store has no column prefix" in await refusal_of("langgraph-pg", url)
