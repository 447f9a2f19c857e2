"""An extractor adds and ends; no statement that runs in its name deletes a memory or changes what one says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fix_query_trees import Node, analyze
from fix_reachable_queries import Place, QueryReach

from skein_kit.database.named_queries import Queries, Query
from skein_kit.identity.permissions import ACCESS_RULES, EXTRACT

if TYPE_CHECKING:
    import asyncpg

# The handlers of an extractor's methods, by service.
HANDLERS: dict[str, dict[str, Place]] = {
    "memory": {
        "BatchCreateMemories": ("skein_memory.memories.rpc", "MemoryHandlers.BatchCreateMemories"),
        "RetractFacts": ("skein_memory.facts.rpc", "FactHandlers.RetractFacts"),
        "KeepRefusedFacts": ("skein_memory.approvals.rpc", "PendingWriteHandlers.KeepRefusedFacts"),
    },
    "session": {
        name: ("skein_session.extractions.rpc", f"ExtractionHandlers.{name}")
        for name in (
            "LeaseExtraction",
            "CompleteExtraction",
            "LeaseModelExtraction",
            "StartModelCall",
            "CompleteModelExtraction",
        )
    },
}
# What says something of a memory. A statement that ends a fact stores its revision, which has the same words.
WORDS = {"content", "title", "data"}
UPDATE, DELETE = 2, 4
EXAMPLES = {"{table}": "embeddings_all_minilm_l6_v2", "{condition}": "true", "{value}": "requested.value"}


def reached(service: str) -> dict[str, tuple[Query, list[Place]]]:
    """Return the queries that an extractor's methods of a service reach, each with the calls that lead to it."""
    package = f"skein_{service}"
    known = {**Queries.load("skein_kit").by_name, **Queries.load(package).by_name}
    chains = QueryReach([package, "skein_kit"], known).queries_of(HANDLERS[service].values())
    return {name: (known[name], chain) for name, chain in chains.items()}


def written(tree: Node, command: int) -> list[tuple[int, set[str]]]:
    """Return the tables that a statement updates or deletes from, with the columns that it sets."""
    found = []
    for query in tree.walk():
        if query.type == "QUERY" and query.number("commandType") == command:
            tables = [table for table in query.below("rtable") if table.type == "RANGETBLENTRY"]
            names = {str(node.fields["resname"][0]) for node in query.below("targetList") if node.type == "TARGETENTRY"}
            found.append((tables[query.number("resultRelation") - 1].number("relid"), names))
    return found


def test_the_handlers_are_those_of_the_extractors_methods() -> None:
    opened = {path for path, rule in ACCESS_RULES.items() if rule.permission == EXTRACT or rule.for_extractors}

    assert {path.rpartition("/")[2] for path in opened} == {name for names in HANDLERS.values() for name in names}


@pytest.mark.system
@pytest.mark.parametrize("service", ["memory", "session"])
async def test_no_statement_of_an_extractor_deletes_a_memory_or_writes_its_words(
    catalog: asyncpg.Connection[asyncpg.Record], service: str
) -> None:
    deleting, writing = dict[str, list[Place]](), dict[str, list[Place]]()
    rows = await catalog.fetch(
        "SELECT unnest($1::text[])::regclass::oid::bigint AS oid", ["memory.memories", "memory.versions"]
    )
    memories = {row["oid"] for row in rows}

    for name, (query, chain) in reached(service).items():
        text = query.text.replace("any_schema.", f"{service}.")
        for mark, example in EXAMPLES.items():
            text = text.replace(mark, example)
        tree = await analyze(catalog, text)
        if any(table in memories for table, _ in written(tree, DELETE)):
            deleting[name] = chain
        if any(table in memories and columns & WORDS for table, columns in written(tree, UPDATE)):
            writing[name] = chain

    assert deleting == {}
    # It stores the next revision whole. The tests of the extractor's rights compare the words of all revisions.
    assert set(writing) == ({"update_memory"} if service == "memory" else set())
