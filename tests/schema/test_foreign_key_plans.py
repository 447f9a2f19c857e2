"""How Postgres checks foreign keys in tables that have no statistics yet, as those of a new cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import asyncpg

from skein_kit.ids import new_id

Catalog: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

_FOREIGN_KEYS = """
SELECT key.conrelid::regclass::text || ' ' || key.conname AS name, key.confrelid::regclass::text AS target,
       ARRAY(SELECT format('%I', a.attname)
             FROM unnest(key.confkey) WITH ORDINALITY AS place (number, ordinal)
             JOIN pg_attribute AS a ON a.attrelid = key.confrelid AND a.attnum = place.number
             ORDER BY place.ordinal) AS columns,
       ARRAY(SELECT format_type(a.atttypid, NULL)
             FROM unnest(key.confkey) WITH ORDINALITY AS place (number, ordinal)
             JOIN pg_attribute AS a ON a.attrelid = key.confrelid AND a.attnum = place.number
             ORDER BY place.ordinal) AS types
FROM pg_constraint AS key
WHERE key.contype = 'f' AND key.conparentid = 0
"""
_UNIQUE_INDEXES = (
    "SELECT c.relname::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid WHERE i.indisunique"
)

# A value of each type of a key, of this month, so that a partition can be chosen.
_VALUES = {"uuid": f"'{new_id(datetime.now(UTC))}'", "text": "'a'", "bigint": "1", "bytea": "'a'"}


def _scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in plan:
        yield plan
    for below in plan.get("Plans", ()):
        yield from _scans(below)


async def test_the_row_that_a_foreign_key_names_is_looked_up_in_a_unique_index(catalog: Catalog) -> None:
    """A connection keeps the plan of its first check, so another index would be read in vain while the table grows."""
    keys = await catalog.fetch(_FOREIGN_KEYS)
    unique_indexes = {row["relname"] for row in await catalog.fetch(_UNIQUE_INDEXES)}
    wrong: dict[str, set[str]] = {}

    async with catalog.transaction():
        await catalog.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for number, key in enumerate(keys):
            condition = " AND ".join(f"x.{column} = ${place}" for place, column in enumerate(key["columns"], start=1))
            check = f"SELECT 1 FROM {key['target']} AS x WHERE {condition} FOR KEY SHARE OF x"  # noqa: S608 - no values.
            await catalog.execute(f"PREPARE check_{number} ({', '.join(key['types'])}) AS {check}")
            values = ", ".join(_VALUES[name] for name in key["types"])
            rows = await catalog.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE check_{number} ({values})")
            plan = json.loads(rows[0][0])[0]["Plan"]
            used = {str(scan.get("Index Name", scan["Node Type"])) for scan in _scans(plan)}
            if not used or used - unique_indexes:
                wrong[key["name"]] = used

    assert len(keys) > 50
    assert wrong == {}
