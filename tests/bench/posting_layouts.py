"""`python tests/bench/posting_layouts.py`: compares ways to store the postings, by bytes, searches and writes.

Synthetic documents, in tables of their own (posting_layouts.sql) beside the real `recall.postings`, on an embedded
Postgres. Searches run as the service's role under row-level security. Times are processor time of the database's own
process, so other load on the machine counts little. docs/decisions/postings.md has the figures.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import click
import numpy as np
import uvloop
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import report

from skein_cluster import embedded, registry
from skein_kit.database.schema_migrations import migrate

# Planted terms, and the share of a tenant's documents that have them.
_PLANTED: Final = {"planted1": 0.01, "planted10": 0.1, "planted50": 0.5}
_BATCH, _HITS, _MEASURED_ITEMS, _WRITES = 1000, 200, 300, 100

_READ_SIZES = """
    SELECT name, pg_table_size(name::regclass) AS size FROM unnest($1::text[]) AS name
    UNION ALL
    SELECT i.indexrelid::regclass::text, pg_relation_size(i.indexrelid)
    FROM unnest($1::text[]) AS name JOIN pg_index AS i ON i.indrelid = name::regclass
"""
_ADD_TENANT = """
    INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time)
    VALUES ($1::uuid, $1::uuid, 'bench', $1::uuid::text, now(), now())
"""
_ADD_DOCUMENTS = """
    INSERT INTO recall.documents (tenant_id, item_id, kind, scope, length, revision, pending, is_counted)
    SELECT $1, s.item_id, 'memory', 'global', s.length, 1, false, false FROM stage AS s WHERE s.number BETWEEN $2 AND $3
"""
_ADD_POSTINGS = """
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT $1, word.term, 'memory', s.item_id, word.frequency, s.length
    FROM stage AS s CROSS JOIN unnest(s.terms, s.frequencies) AS word (term, frequency)
    WHERE s.number BETWEEN $2 AND $3
"""
_ADD_TERMS = """
    INSERT INTO bench.document_terms (tenant_id, item_id, kind, length, terms, frequencies)
    SELECT $1, s.item_id, 'memory', s.length, s.terms, s.frequencies FROM stage AS s WHERE s.number BETWEEN $2 AND $3
"""
_ADD_GIN = """
    INSERT INTO bench.{} (tenant_id, item_id, kind, length, terms, keys, frequencies)
    SELECT $1, s.item_id, 'memory', s.length, s.terms,
           ARRAY(SELECT bench.term_key($1, word.term) FROM unnest(s.terms) WITH ORDINALITY AS word (term, place)
                 ORDER BY word.place),
           s.frequencies
    FROM stage AS s WHERE s.number BETWEEN $2 AND $3
"""
# Ids ascend, so new postings go to the end of each list: the last block is filled, and others follow.
_MARK_COUNTED = "UPDATE recall.documents SET is_counted = true WHERE tenant_id = $1 AND NOT is_counted"
_PACK = """
    WITH fresh AS MATERIALIZED (
        SELECT d.item_id, d.kind, d.length, d.terms, d.frequencies
        FROM recall.documents AS uncounted
        JOIN bench.document_terms AS d ON d.tenant_id = $1 AND d.item_id = uncounted.item_id
        WHERE uncounted.tenant_id = $1 AND NOT uncounted.is_counted
    ), added AS MATERIALIZED (
        SELECT word.term, fresh.kind, fresh.item_id, word.frequency, fresh.length
        FROM fresh CROSS JOIN unnest(fresh.terms, fresh.frequencies) AS word (term, frequency)
    ), opened AS (
        DELETE FROM bench.blocks AS b
        USING (SELECT DISTINCT added.term, added.kind FROM added) AS list
        WHERE b.tenant_id = $1 AND b.term = list.term AND b.kind = list.kind AND cardinality(b.item_ids) < 64
        RETURNING b.term, b.kind, b.item_ids, b.frequencies, b.lengths
    ), posting AS (
        SELECT * FROM added
        UNION ALL
        SELECT o.term, o.kind, each.* FROM opened AS o CROSS JOIN unnest(o.item_ids, o.frequencies, o.lengths) AS each
    ), placed AS (
        SELECT p.*, (row_number() OVER (PARTITION BY p.term, p.kind ORDER BY p.item_id) - 1) / 64 AS block
        FROM posting AS p
    )
    INSERT INTO bench.blocks
    SELECT $1, term, kind, (array_agg(item_id ORDER BY item_id))[1], array_agg(item_id ORDER BY item_id),
           array_agg(frequency ORDER BY item_id), array_agg(length ORDER BY item_id)
    FROM placed GROUP BY term, kind, block
"""
_UNPACK = """
    WITH gone AS (
        SELECT b.term, b.kind, b.first_item, array_position(b.item_ids, d.item_id) AS place
        FROM bench.document_terms AS d
        CROSS JOIN unnest(d.terms) AS word (term)
        CROSS JOIN LATERAL (
            SELECT * FROM bench.blocks AS b
            WHERE b.tenant_id = d.tenant_id AND b.term = word.term AND b.kind = d.kind AND b.first_item <= d.item_id
            ORDER BY b.first_item DESC LIMIT 1
        ) AS b
        WHERE d.tenant_id = $1 AND d.item_id = $2
    ), emptied AS (
        DELETE FROM bench.blocks AS b USING gone
        WHERE b.tenant_id = $1 AND b.term = gone.term AND b.kind = gone.kind AND b.first_item = gone.first_item
            AND cardinality(b.item_ids) = 1
    )
    UPDATE bench.blocks AS b
    SET item_ids = b.item_ids[:gone.place - 1] || b.item_ids[gone.place + 1:],
        frequencies = b.frequencies[:gone.place - 1] || b.frequencies[gone.place + 1:],
        lengths = b.lengths[:gone.place - 1] || b.lengths[gone.place + 1:]
    FROM gone
    WHERE b.tenant_id = $1 AND b.term = gone.term AND b.kind = gone.kind AND b.first_item = gone.first_item
        AND cardinality(b.item_ids) > 1
"""
_RANK = """
    SELECT p.item_id,
           1.9 * sum(p.idf * p.frequency
                     / (p.frequency + (0.225::double precision + p.length * $3::float8))) AS bm25
    FROM ({}) AS p
    GROUP BY p.item_id ORDER BY bm25 DESC, p.item_id LIMIT $4
"""
_MATCH_ROWS = _RANK.format("""
    SELECT run.item_id, weight.idf, (run.frequency + run.header_frequency)::double precision AS frequency,
           run.length::double precision AS length
    FROM unnest($1::text[], $2::float8[]) AS weight (term, idf)
    CROSS JOIN LATERAL (
        SELECT * FROM recall.postings AS run
        WHERE run.tenant_id = $5 AND run.term = weight.term AND run.kind = ANY ('{memory,message}'::text[])
    ) AS run
""")
_MATCH_BLOCKS = _RANK.format("""
    SELECT each.item_id, weight.idf, each.frequency::double precision AS frequency,
           each.length::double precision AS length
    FROM unnest($1::text[], $2::float8[]) AS weight (term, idf)
    CROSS JOIN LATERAL (
        SELECT * FROM bench.blocks AS run
        WHERE run.tenant_id = $5 AND run.term = weight.term AND run.kind = ANY ('{memory,message}'::text[])
    ) AS run
    CROSS JOIN LATERAL unnest(run.item_ids, run.frequencies, run.lengths) AS each (item_id, frequency, length)
    UNION ALL
    SELECT d.item_id, weight.idf, d.frequencies[array_position(d.terms, weight.term)], d.length
    FROM recall.documents AS uncounted
    JOIN bench.document_terms AS d ON d.tenant_id = $5 AND d.item_id = uncounted.item_id
    CROSS JOIN unnest($1::text[], $2::float8[]) AS weight (term, idf)
    WHERE uncounted.tenant_id = $5 AND NOT uncounted.is_counted AND d.terms && $1::text[]
        AND weight.term = ANY (d.terms)
""")
_MATCH_GIN = _RANK.format("""
    SELECT d.item_id, d.length::double precision AS length, weight.idf,
           d.frequencies[array_position(d.keys, weight.key)]::double precision AS frequency
    FROM bench.gin_off AS d
    CROSS JOIN (
        SELECT bench.term_key($5, term) AS key, idf FROM unnest($1::text[], $2::float8[]) AS one (term, idf)
    ) AS weight
    WHERE d.tenant_id = $5 AND d.keys && ARRAY(SELECT bench.term_key($5, term) FROM unnest($1::text[]) AS term)
""").replace("GROUP BY", "WHERE p.frequency IS NOT NULL GROUP BY")
_MATCH_GIN_DEFINER = """
    SELECT * FROM bench.match_gin(
        ARRAY(SELECT bench.term_key($5, one.term) FROM unnest($1::text[]) WITH ORDINALITY AS one (term, place)
              ORDER BY place),
        $2, $3, $4)
"""
_READ = """
    SELECT weight.place::integer AS place, string_agg({}, '') AS postings
    FROM unnest($1::text[]) WITH ORDINALITY AS weight (term, place)
    CROSS JOIN LATERAL (
        SELECT * FROM {} AS run
        WHERE run.tenant_id = $2 AND run.term = weight.term AND run.kind = ANY ('{{memory,message}}'::text[])
    ) AS run
    GROUP BY weight.place ORDER BY weight.place
"""
_READ_ROWS = _READ.format(
    "uuid_send(run.item_id) || int2send(run.frequency::smallint) || int2send(run.header_frequency::smallint) "
    "|| int2send(run.length::smallint)",
    "recall.postings",
)
_READ_PACKED = _READ.format("run.postings", "bench.packed")
_PACK_BYTES = """
    INSERT INTO bench.packed
    SELECT b.tenant_id, b.term, b.kind, b.first_item, (
        SELECT string_agg(uuid_send(each.item_id) || int2send(each.frequency) || int2send(0::smallint)
                          || int2send(each.length), '' ORDER BY each.item_id)
        FROM unnest(b.item_ids, b.frequencies, b.lengths) AS each (item_id, frequency, length)
    )
    FROM bench.blocks AS b
"""
_PACK_SHARED = """
    WITH placed AS (
        SELECT b.tenant_id, b.kind, b.term, each.*,
               (row_number() OVER (PARTITION BY b.tenant_id, b.kind ORDER BY b.term, each.item_id) - 1) / 64 AS block
        FROM bench.blocks AS b
        CROSS JOIN unnest(b.item_ids, b.frequencies, b.lengths) AS each (item_id, frequency, length)
    ), list AS (
        SELECT p.tenant_id, p.kind, p.block, p.term, (array_agg(p.item_id ORDER BY p.item_id))[1] AS first_item,
               count(*)::smallint AS size,
               string_agg(uuid_send(p.item_id) || int2send(p.frequency) || int2send(0::smallint)
                          || int2send(p.length), '' ORDER BY p.item_id) AS postings
        FROM placed AS p GROUP BY p.tenant_id, p.kind, p.block, p.term
    )
    INSERT INTO bench.shared
    SELECT l.tenant_id, l.kind, (array_agg(l.term ORDER BY l.term))[1], (array_agg(l.first_item ORDER BY l.term))[1],
           array_agg(l.term ORDER BY l.term), array_agg(l.size ORDER BY l.term),
           string_agg(l.postings, '' ORDER BY l.term)
    FROM list AS l GROUP BY l.tenant_id, l.kind, l.block
"""
# The block that begins before the term may end with it; those that begin with it follow.
_READ_SHARED = """
    SELECT weight.place::integer AS place, string_agg(substring(
               run.postings FROM 1 + 22 * (
                   SELECT coalesce(sum(size), 0)::integer
                   FROM unnest(run.sizes[:array_position(run.terms, weight.term) - 1]) AS size
               ) FOR 22 * run.sizes[array_position(run.terms, weight.term)]), '') AS postings
    FROM unnest($1::text[]) WITH ORDINALITY AS weight (term, place)
    CROSS JOIN unnest('{memory,message}'::text[]) AS searched (kind)
    CROSS JOIN LATERAL (
        (SELECT * FROM bench.shared AS b
         WHERE b.tenant_id = $2 AND b.kind = searched.kind AND b.first_term < weight.term
         ORDER BY b.first_term DESC, b.first_item DESC LIMIT 1)
        UNION ALL
        SELECT * FROM bench.shared AS b WHERE b.tenant_id = $2 AND b.kind = searched.kind AND b.first_term = weight.term
    ) AS run
    WHERE weight.term = ANY (run.terms)
    GROUP BY weight.place ORDER BY weight.place
"""
_POSTING: Final = np.dtype([("item_id", "S16"), ("frequency", ">i2"), ("header", ">i2"), ("length", ">i2")])
# A search is ranked by the statement, or by this process.
_SEARCHES: Final = {
    "rows": (_MATCH_ROWS, True),
    "rows, service ranks": (_READ_ROWS, False),
    "blocks": (_MATCH_BLOCKS, True),
    "blocks, service ranks": (_READ_PACKED, False),
    "shared blocks, service ranks": (_READ_SHARED, False),
    "GIN": (_MATCH_GIN, True),
    "GIN, definer": (_MATCH_GIN_DEFINER, True),
}
_PER_STEM = 0.02
# As measure_items reads the counts of frequent terms.
_MEASURE_ROWS = """
    SELECT count(p.frequency) FROM unnest($2::text[]) AS word (term) CROSS JOIN unnest($3::uuid[]) AS item (item_id)
    CROSS JOIN LATERAL (
        SELECT run.frequency FROM recall.postings AS run
        WHERE run.tenant_id = $1 AND run.term = word.term AND run.kind = 'memory'
            AND run.item_id BETWEEN item.item_id AND item.item_id
        LIMIT 1
    ) AS p
"""
_MEASURE_TERMS = """
    SELECT count(d.frequencies[array_position(d.terms, word.term)])
    FROM unnest($3::uuid[]) AS item (item_id)
    JOIN bench.document_terms AS d ON d.tenant_id = $1 AND d.item_id = item.item_id
    CROSS JOIN unnest($2::text[]) AS word (term)
"""
_SIZES: Final = {
    "rows": ("recall.postings",),
    "blocks": ("bench.document_terms", "bench.blocks"),
    "blocks, binary": ("bench.document_terms", "bench.packed"),
    "shared blocks": ("bench.document_terms", "bench.shared"),
    "GIN, fastupdate off": ("bench.gin_off",),
    "GIN, fastupdate on": ("bench.gin_on",),
}
_WAYS: Final = {
    "rows": (_ADD_POSTINGS, "DELETE FROM recall.postings WHERE tenant_id = $1 AND item_id = $2", None),
    "blocks": (_ADD_TERMS, "DELETE FROM bench.document_terms WHERE tenant_id = $1 AND item_id = $2", _UNPACK),
    "GIN, fastupdate off": (
        _ADD_GIN.format("gin_off"), "DELETE FROM bench.gin_off WHERE tenant_id = $1 AND item_id = $2", None,
    ),
    "GIN, fastupdate on": (
        _ADD_GIN.format("gin_on"), "DELETE FROM bench.gin_on WHERE tenant_id = $1 AND item_id = $2", None,
    ),
}  # fmt: skip


@dataclass(kw_only=True, slots=True)
class Cost:
    """What statements cost the database."""

    milliseconds: float = 0.0
    wal_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is filled in and measured."""

    tenants: int
    documents: int
    # Of a document, from and to.
    words: tuple[int, int]
    vocabulary: int
    # Documents of one insertion, which the worker packs together.
    batch: int
    turns: int
    pack: bool
    gin: bool


@click.command()
@click.option("--tenants", default=1, show_default=True)
@click.option("--documents", default=10_000, show_default=True, help="Of each tenant.")
@click.option("--words", type=(int, int), default=(12, 40), show_default=True, help="Of a document, from and to.")
@click.option("--vocabulary", default=50_000, show_default=True, help="Words that a tenant's documents may have.")
@click.option("--batch", default=1000, show_default=True, help="Documents that are packed together.")
@click.option("--turns", default=15, show_default=True, help="Of each search.")
@click.option("--pack/--no-pack", default=True, help="Whether the worker has packed the blocks.")
@click.option("--gin/--no-gin", default=True, help="Whether GIN indexes are measured too.")
def main(**options: Any) -> None:
    """Print bytes of an entry, processor time of searches, and processor time and WAL of writes."""
    uvloop.run(_compare(Options(**options)))


async def _compare(options: Options) -> None:
    ways = {name: way for name, way in _WAYS.items() if options.gin or "GIN" not in name}
    async with _database() as connection:
        ids = [UUID(int=(0x0197 << 112) | (7 << 76) | (2 << 62) | number) for number in range(1, options.tenants + 1)]
        packing, entries = Cost(), options.tenants * options.documents
        for number, tenant_id in enumerate(ids):
            await _stage(connection, options.documents + _WRITES + _BATCH, options, seed=number)
            # No trigger checks rows against others.
            await connection.execute("SET session_replication_role = replica")
            await connection.execute(_ADD_TENANT, tenant_id)
            for first in range(1, options.documents + 1, options.batch):
                last = min(first + options.batch - 1, options.documents)
                await connection.execute(_ADD_DOCUMENTS, tenant_id, first, last)
                for add, _, _ in ways.values():
                    await connection.execute(add, tenant_id, first, last)
                if options.pack:
                    async with _costs(connection, packing):
                        await connection.execute(_PACK, tenant_id)
                    await connection.execute(_MARK_COUNTED, tenant_id)
                    # As autovacuum does between two rounds.
                    await connection.execute("VACUUM bench.blocks, recall.documents")
            await connection.execute("RESET session_replication_role")
        await connection.execute(_PACK_BYTES)
        await connection.execute(_PACK_SHARED)
        await _vacuum(connection)
        sizes = {name: tables for name, tables in _SIZES.items() if options.gin or "GIN" not in name}
        await _print_sizes(connection, sizes, entries)
        report.console().print(
            f"packing, a document: {packing.milliseconds / entries:.3f} ms, "
            f"{packing.wal_bytes / entries:,.0f} bytes of WAL"
        )
        searches = {name: search for name, search in _SEARCHES.items() if options.gin or "GIN" not in name}
        if not options.pack:
            del searches["blocks, service ranks"], searches["shared blocks, service ranks"]
        await _print_searches(connection, ids[-1], options, searches)
        await _print_measures(connection, ids[-1], options.turns)
        await _print_writes(connection, ids[-1], options.documents, ways)


async def _print_sizes(
    connection: asyncpg.Connection[asyncpg.Record], sizes: Mapping[str, Sequence[str]], entries: int
) -> None:
    table = Table("layout", "table or index", "bytes", title="Bytes of the words of an entry")
    for layout, names in sizes.items():
        rows = await connection.fetch(_READ_SIZES, list(names))
        for row in rows:
            table.add_row(layout, row["name"], f"{row['size'] / entries:,.0f}")
        table.add_row(layout, "all", f"{sum(row['size'] for row in rows) / entries:,.0f}")
    report.console().print(table)


async def _print_searches(
    connection: asyncpg.Connection[asyncpg.Record],
    tenant_id: UUID,
    options: Options,
    searches: Mapping[str, tuple[str, bool]],
) -> None:
    questions = {
        "1 %": ["planted1"],
        "10 %": ["planted10"],
        "50 %": ["planted50"],
        "1 % and two rarer terms": ["planted1", "w900", "w9000"],
        "1 % and 10 %": ["planted1", "planted10"],
    }
    await _become_recall(connection, tenant_id)
    table = Table(
        "search", *searches, title=f"Postgres + service: ms of processor time, pages; {options.documents:,} documents"
    )
    for name, terms in questions.items():
        idfs = [3.1 - number for number in range(len(terms))]
        found: dict[str, list[tuple[UUID, float]]] = {}
        costs: dict[str, list[tuple[float, float]]] = {layout: [] for layout in searches}
        pages = {}
        for layout, (query, is_ranked) in searches.items():
            arguments = (terms, idfs, _PER_STEM, _HITS, tenant_id) if is_ranked else (terms, tenant_id)
            pages[layout] = await _pages(connection, query, arguments)
        for _ in range(options.turns):
            for layout, (query, is_ranked) in searches.items():
                cost, start = Cost(), time.thread_time()
                async with _costs(connection, cost):
                    start = time.thread_time()
                    if is_ranked:
                        rows = await connection.fetch(query, terms, idfs, _PER_STEM, _HITS, tenant_id)
                        found[layout] = [(row["item_id"], row["bm25"]) for row in rows]
                    else:
                        found[layout] = _ranked(await connection.fetch(query, terms, tenant_id), idfs)
                    own = time.thread_time() - start
                costs[layout].append((cost.milliseconds, own * 1000))
        for layout, hits in found.items():
            if hits != found["rows"]:
                report.console().print(f"{name}: {layout} found other items or scores than rows", style="red")
        table.add_row(
            name,
            *(
                " + ".join(f"{statistics.median(part):.2f}" for part in zip(*costs[layout], strict=True))
                + f", {pages[layout]:,}"
                for layout in searches
            ),
        )
    report.console().print(table)
    if options.gin:
        plan = await connection.fetch(f"EXPLAIN {_MATCH_GIN}", ["planted1"], [3.1], _PER_STEM, _HITS, tenant_id)
        is_used = any("gin_off_keys" in row[0] for row in plan)
        report.console().print(f"GIN index used under row-level security: {is_used}")
    await connection.execute("RESET ROLE")


def _ranked(rows: Sequence[asyncpg.Record], idfs: Sequence[float]) -> list[tuple[UUID, float]]:
    """Rank postings as the statement does, and add the scores of an item in the order of the terms."""
    if not rows:
        return []
    lists = [(idfs[row["place"] - 1], np.frombuffer(row["postings"], _POSTING)) for row in rows]
    parts = []
    for idf, postings in lists:
        frequency = postings["frequency"].astype(np.float64) + postings["header"]
        parts.append(idf * frequency / (frequency + (0.225 + postings["length"] * _PER_STEM)))
    ids, scores = np.concatenate([postings["item_id"] for _, postings in lists]), np.concatenate(parts)
    if len(lists) > 1:
        ids, places = np.unique(ids, return_inverse=True)
        scores = np.bincount(places, weights=scores)
    scores = 1.9 * scores
    best = np.arange(len(scores))
    if len(scores) > _HITS:
        best = np.flatnonzero(scores >= np.partition(scores, -_HITS)[-_HITS])
    best = best[np.lexsort((ids[best], -scores[best]))][:_HITS]
    return [(UUID(bytes=ids[row].ljust(16, b"\0")), float(scores[row])) for row in best.tolist()]


async def _pages(connection: asyncpg.Connection[asyncpg.Record], query: str, arguments: Sequence[Any]) -> int:
    """Return how many pages a search touches."""
    plan = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) {query}", *arguments)
    root = json.loads(plan)[0]["Plan"]
    return int(root["Shared Hit Blocks"]) + int(root["Shared Read Blocks"])


async def _vacuum(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Let an index-only scan find all pages visible to all, which they are not while the server looks at a table."""
    names = ["recall.documents", *{name for names in _SIZES.values() for name in names}]
    while True:
        await connection.execute(f"VACUUM (ANALYZE) {', '.join(names)}")
        if not await connection.fetchval(
            "SELECT count(*) FROM unnest($1::text[]) AS name JOIN pg_class AS c ON c.oid = name::regclass "
            "WHERE c.relallvisible < c.relpages",
            names,
        ):
            return
        await asyncio.sleep(1)


async def _become_recall(connection: asyncpg.Connection[asyncpg.Record], tenant_id: UUID) -> None:
    await connection.execute("SET ROLE skein_recall")
    await connection.execute("SELECT set_config('skein.tenant_id', $1, false)", str(tenant_id))


async def _print_measures(connection: asyncpg.Connection[asyncpg.Record], tenant_id: UUID, turns: int) -> None:
    await _become_recall(connection, tenant_id)
    items = await connection.fetchval(
        "SELECT ARRAY(SELECT item_id FROM recall.documents WHERE tenant_id = $1 "
        "ORDER BY hashtext(item_id::text) LIMIT $2)",
        tenant_id, _MEASURED_ITEMS,
    )  # fmt: skip
    words = [*_PLANTED, "w10", "w100"]
    for layout, query in {"rows": _MEASURE_ROWS, "terms in the document's row": _MEASURE_TERMS}.items():
        times = []
        for _ in range(turns):
            cost = Cost()
            async with _costs(connection, cost):
                count = await connection.fetchval(query, tenant_id, words, items)
            times.append(cost.milliseconds)
        report.console().print(
            f"counts of {len(words)} terms in {len(items)} items, {layout}: "
            f"{statistics.median(times):.2f} ms, {count} found"
        )
    await connection.execute("RESET ROLE")


async def _print_writes(
    connection: asyncpg.Connection[asyncpg.Record],
    tenant_id: UUID,
    documents: int,
    ways: Mapping[str, tuple[str, str, str | None]],
) -> None:
    table = Table(
        "layout", "insert one: ms", "WAL", "insert 1,000: ms each", "WAL each", "delete one: ms", "WAL", title="Writes"
    )
    first = documents + 1
    await connection.execute(_ADD_DOCUMENTS, tenant_id, first, first + _WRITES + _BATCH - 1)
    old = await connection.fetchval(
        "SELECT ARRAY(SELECT item_id FROM stage WHERE number <= $1 ORDER BY hashint4(number) LIMIT $2)",
        documents,
        _WRITES,
    )
    for layout, (add, delete, before_delete) in ways.items():
        one, many, deletion = Cost(), Cost(), Cost()
        for number in range(first, first + _WRITES):
            async with _costs(connection, one):
                await connection.execute(add, tenant_id, number, number)
        async with _costs(connection, many):
            await connection.execute(add, tenant_id, first + _WRITES, first + _WRITES + _BATCH - 1)
        for item_id in old:
            async with _costs(connection, deletion), connection.transaction():
                if before_delete is not None:
                    await connection.execute(before_delete, tenant_id, item_id)
                await connection.execute(delete, tenant_id, item_id)
        table.add_row(
            layout,
            *(
                text
                for cost, count in ((one, _WRITES), (many, _BATCH), (deletion, _WRITES))
                for text in (f"{cost.milliseconds / count:.2f}", f"{cost.wal_bytes / count:,.0f}")
            ),
        )
    report.console().print(table)


@asynccontextmanager
async def _costs(connection: asyncpg.Connection[asyncpg.Record], cost: Cost) -> AsyncIterator[None]:
    """Add what the statements of the block cost the connection's process."""
    statistics_file = Path(f"/proc/{connection.get_server_pid()}/schedstat")
    wal = await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    start = int(statistics_file.read_text().split()[0])
    yield
    cost.milliseconds += (int(statistics_file.read_text().split()[0]) - start) / 1e6
    cost.wal_bytes += int(await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn") - wal)


async def _stage(connection: asyncpg.Connection[asyncpg.Record], count: int, options: Options, *, seed: int) -> None:
    """Make documents of words whose frequency follows Zipf's law, and of planted terms."""
    source = np.random.default_rng(seed)
    rows = []
    for number, size in enumerate(source.integers(options.words[0], options.words[1] + 1, count).tolist(), 1):
        words, frequencies = np.unique(
            np.exp(source.random(size) * np.log(options.vocabulary)).astype(np.int32), return_counts=True
        )
        terms = [f"w{word}" for word in words.tolist()]
        planted = [term for term, share in _PLANTED.items() if source.random() < share]
        item_id = UUID(int=((0x0197_0000_0000 + seed * 10_000_000 + number) << 80) | (7 << 76)
                       | (2 << 62) | int(source.integers(2**62)))  # fmt: skip
        rows.append((number, item_id, size, terms + planted, frequencies.tolist() + [1] * len(planted)))
    await connection.execute(
        "CREATE TEMPORARY TABLE IF NOT EXISTS stage (number integer PRIMARY KEY, item_id uuid, length integer, "
        "terms text[], frequencies smallint[]); TRUNCATE stage"
    )
    await connection.copy_records_to_table("stage", records=rows)
    await connection.execute("ANALYZE stage")


@asynccontextmanager
async def _database() -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Open a migrated database with the tables of the candidates."""
    with tempfile.TemporaryDirectory(prefix="skein-bench-") as name:
        Path(name).chmod(0o711)
        async with embedded.running_server(Path(name) / "pg", durable=False) as server:
            await embedded.create_database(server, "layouts")
            url = server.url(user=embedded.SUPERUSER, database="layouts")
            await migrate(url, registry.migrations(), registry.WITH_DATABASE, passwords={})
            connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(url)
            try:
                await connection.execute(Path(__file__).with_suffix(".sql").read_text("utf-8"))
                await connection.execute("SET plan_cache_mode = force_custom_plan")
                extensions = await connection.fetchval(
                    "SELECT string_agg(name, ', ' ORDER BY name) FROM pg_available_extensions"
                )
                leakproof = await connection.fetchval(
                    "SELECT bool_or(proleakproof) FROM pg_proc WHERE proname IN ('arrayoverlap', 'arraycontains')"
                )
                report.console().print(f"extensions: {extensions}\narray operators are leakproof: {leakproof}")
                yield connection
            finally:
                await connection.close()


if __name__ == "__main__":
    main()
