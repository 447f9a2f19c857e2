"""Skein's store beside LangGraph's own in-memory one: the same operations have the same results."""

from __future__ import annotations

import json
import uuid
from typing import Any

from fix_cluster import Cluster, Tenant
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from skein_langgraph.store import SkeinStore

LABELS = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=3).map(tuple)
PATHS = st.lists(st.one_of(LABELS, st.just("*")), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "l", " m.n "])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, -2.5, 3, 2**60, "", "x", "X", "y z", 'q"u\\o', "7"])
INNER = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from("mn"), SCALARS, max_size=2))
VALUES = st.dictionaries(st.sampled_from(["f", "g", "h-i", "o p"]), INNER, max_size=3)
NUMBERS = st.sampled_from([0, 1, 2.5, 7, "7"])
CONDITIONS = st.one_of(
    INNER,
    st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS, min_size=1, max_size=2),
)
FILTERS = st.dictionaries(st.sampled_from(["f", "g", "h-i", "o p"]), CONDITIONS, max_size=2)
MATCHES = st.builds(MatchCondition, match_type=st.sampled_from(["prefix", "suffix"]), path=PATHS)
WRITES = st.one_of(
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, index=st.sampled_from([None, False]), ttl=st.none()),
    st.builds(PutOp, NAMESPACES, KEYS, st.none(), index=st.none(), ttl=st.none()),
)
READS = st.one_of(
    st.builds(GetOp, NAMESPACES, KEYS, refresh_ttl=st.booleans()),
    st.builds(
        SearchOp,
        PREFIXES,
        filter=st.one_of(st.none(), FILTERS),
        limit=st.just(1000),
        offset=st.just(0),
        query=st.none(),
        refresh_ttl=st.booleans(),
    ),
    st.builds(
        ListNamespacesOp,
        match_conditions=st.lists(MATCHES, max_size=2).map(tuple),
        max_depth=st.one_of(st.none(), st.integers(1, 3)),
        limit=st.integers(1, 20),
        offset=st.integers(0, 3),
    ),
)
# Writes, then reads, and again.
BATCHES = st.lists(st.tuples(st.lists(WRITES, min_size=1, max_size=6), st.lists(READS, max_size=6)), max_size=4)

Batches = list[tuple[list[Op], list[Op]]]


def comparable(op: Op, result: Any) -> Any:
    """Return what a result says, without what only one of the stores can know: times and the order of a search."""
    if isinstance(op, GetOp):
        return None if result is None else describe_item(result)
    if isinstance(op, SearchOp):
        return sorted(describe_item(item) for item in result)
    return result


def describe_item(item: Item) -> str:
    """Return an item as text, in which 1 is not 1.0 and not true."""
    return json.dumps([item.namespace, item.key, item.value], sort_keys=True)


def model_of(model: InMemoryStore, op: Op) -> tuple[bool, Any]:
    """Return whether the model has an answer, and which: it has none for what cannot be compared as a number."""
    # It goes on listing namespaces in which there is nothing any more, or that were only asked for.
    for namespace in [namespace for namespace, items in model._data.items() if not items]:
        del model._data[namespace]
    try:
        return True, comparable(op, model.batch([op])[0])
    except (TypeError, ValueError):
        return False, None


def examples() -> list[Batches]:
    """Return what to try, the same each time: drawn at once, because the cluster of the test draws chances as well."""
    results: list[Batches] = []

    @settings(max_examples=15, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(BATCHES)
    def collect(batches: Batches) -> None:
        results.append(batches)

    collect()
    return results


async def test_it_answers_as_the_store_in_memory_does(cluster: Cluster, tenant: Tenant) -> None:
    compared = 0
    for batches in examples():
        model = InMemoryStore()
        # A root of its own for each example keeps what others wrote apart.
        root = f"t{uuid.uuid4().hex[:12]}"
        async with SkeinStore(endpoint=cluster.endpoint, api_key=tenant.api_key, root=root) as store:
            for writes, reads in batches:
                model.batch(writes)
                await store.abatch(writes)
                answers = await store.abatch(reads)
                for op, answer in zip(reads, answers, strict=True):
                    known, expected = model_of(model, op)
                    compared += known
                    assert not known or comparable(op, answer) == expected, op

    assert compared > 30
