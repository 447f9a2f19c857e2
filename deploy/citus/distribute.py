"""`python deploy/citus/distribute.py`: writes what makes a migrated database a Citus cluster, sharded by tenant.

Reads the catalog of a migrated database (one of its own, unless `--url` names another) and the named statements. Writes
distribute.sql, a call for every table, and obstacles.md, what of ours Citus refuses. `--check` compares instead, and
ends with 1 when one of them says something else.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import asyncpg

from skein_cluster import embedded, registry
from skein_kit.database import citus
from skein_kit.database.named_queries import Queries, Query, parse
from skein_kit.database.schema_migrations import migrate

HERE = Path(__file__).resolve().parent
SHARD = "tenant_id"
LOCAL, REFERENCE, DISTRIBUTED = "local", "reference", "distributed"
_SCHEMAS = ["skein", *registry.WITH_DATABASE]
# A table of vectors, whose name depends on the model in force.
_VECTORS = "{table}"
# A table that several services have, in statements of the kit.
_ANY = "any_schema."
_NAME = r"([a-z_0-9.]+|\{table\})"
_INSERTED = re.compile(
    rf"INSERT\s+INTO\s+{_NAME}(?:\s+AS\s+\w+)?\s*(?:\([^)]*\))?\s*(?:SELECT|WITH|TABLE)\b", re.IGNORECASE
)
_UPDATED = re.compile(rf"UPDATE\s+{_NAME}(?:\s+AS\s+\w+)?\s+SET\b(.*)", re.IGNORECASE | re.DOTALL)
# What follows these words is a table, or the name of a WITH.
_TABLE = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+{_NAME}", re.IGNORECASE)
_VOLATILE = re.compile(r"\b(clock_timestamp|random|gen_random_uuid|uuidv7|nextval|timeofday)\s*\(", re.IGNORECASE)

INSERT_SELECT = (
    "Rows are inserted from a SELECT into a distributed table with ON CONFLICT alone (else it becomes a COPY, which"
    " row-level security refuses)"
)
KEEPS_HISTORY = "A table that is not local keeps no former rows, because triggers keep them"
NAMES_TENANT = "A statement on tenants' rows names the tenant, so that one machine answers it"
ACTS_AS_OWNER = "A transaction acts as one role, so it calls no function that acts as the owner"
# Why what breaks a rule is accepted, by the rule: a pattern of names, and the reason. The first that matches counts.
ACCEPTED: Mapping[str, tuple[tuple[str, str], ...]] = {
    KEEPS_HISTORY: (
        (
            "",
            (
                "Citus refuses triggers on such tables, so distribute.sql drops these before it places the tables. No"
                " former rows are kept on Citus, and a read of them as of a time is refused: FAILED_PRECONDITION,"
                " HISTORY_NOT_KEPT."
            ),
        ),
    ),
    NAMES_TENANT: (
        (
            "auth: .*_of_account",
            "The auth sessions of one person lie in several tenants. It is rare, and each machine does its part.",
        ),
        ("tenancy: (list_memberships|list_tenants_of_account)", "A person's memberships lie in several tenants."),
        (
            "tenancy: (list_(due_|organization_)?deletions|count_owned_tenants|read_organization_usage|list_collected)",
            "An operator or a background round asks for all tenants; each machine answers for its own.",
        ),
        (
            "tenancy: read_usage_of_others",
            "A new tenant and each collection need the usage of a limited organization, which lies with its tenants.",
        ),
        (
            "recall: (list_erasures|list_reindexes|list_tenant_dues|count_limited_tenants)",
            "An operator or a background round asks for all tenants; each machine answers for its own.",
        ),
    ),
    ACTS_AS_OWNER: (
        (
            ": list_[a-z]+_tenants",
            "It reads which tenants have work, in a transaction that writes nothing.",
        ),
        (": ensure_month", "It is the only statement of its transaction, which makes a month's partition."),
        (
            (
                "memory: (drop_access_log|refresh_statistics)|recall: drop_receipts"
                "|auth: (expire_audit_checkpoint|purge_audit_(events|checkpoints))"
            ),
            "It is the only statement of its transaction.",
        ),
        (
            "recall: (register_model|register_endpoint)",
            "It makes a table on the coordinator, and writes the registry, which the same transaction does not read.",
        ),
        ("recall: distribute_vectors", "It is the only statement of its transaction."),
        (
            "recall: delete_model",
            "It drops a table of vectors with its entry in the registry, which the transaction leaves alone otherwise.",
        ),
        ("worker: measure_", "It reads statistics of the coordinator alone."),
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """What Citus cares about in a migrated database."""

    tables: Mapping[str, bool]
    unique_without_tenant: tuple[Mapping[str, Any], ...]
    foreign_keys: tuple[Mapping[str, Any], ...]
    triggers: tuple[Mapping[str, Any], ...]
    policies: tuple[Mapping[str, Any], ...]
    sequences: tuple[Mapping[str, Any], ...]
    nested: tuple[str, ...]
    definers: tuple[str, ...]

    @classmethod
    async def read(cls, url: str) -> Catalog:
        """Ask a database."""
        connection = await asyncpg.connect(url, server_settings={"search_path": ""})
        try:
            found = {
                query.name: tuple(
                    dict(row) for row in await connection.fetch(query.text, *query.bind({"schemas": _SCHEMAS}))
                )
                for query in parse((HERE / "catalog.sql").read_text("utf-8"))
            }
        finally:
            await connection.close()
        return cls(
            tables={row["name"]: row["has_tenant"] for row in found.pop("tables")},
            nested=tuple(row["name"] for row in found.pop("nested")),
            definers=tuple(row["name"] for row in found.pop("definers")),
            **found,
        )


def statements() -> Iterator[tuple[str, Query]]:
    """Yield every named statement with its package."""
    for package in ("skein_kit", *(f"skein_{name}" for name in registry.WITH_DATABASE)):
        for query in Queries.load(package).by_name.values():
            yield package, query


def placed(catalog: Catalog, texts: Iterable[str]) -> dict[str, str]:
    """Say for each table where its rows are to be.

    Distributed: every tenant's rows on one machine. Reference, a copy on every machine: what is unique over all
    tenants, and what has no tenant but is tied to such or to tenants' rows, by a foreign key or in a statement. Local:
    the rest, on the coordinator.
    """
    unique = {row["name"] for row in catalog.unique_without_tenant}
    places = {
        name: LOCAL if not has_tenant else REFERENCE if name in unique else DISTRIBUTED
        for name, has_tenant in catalog.tables.items()
    }
    ties = [(row["name"], row["target"]) for row in catalog.foreign_keys]
    together = [{name for name in places if re.search(rf"\b{re.escape(name)}\b", text)} for text in texts]
    while True:
        tied = {
            name
            for name, place in places.items()
            if place == LOCAL
            and (
                any(name in tie and any(places[other] != LOCAL for other in tie) for tie in ties)
                or any(name in group and any(places[other] == DISTRIBUTED for other in group) for group in together)
            )
        }
        if not tied:
            return places
        places |= dict.fromkeys(tied, REFERENCE)


def ordered(catalog: Catalog, places: Mapping[str, str]) -> list[str]:
    """Return the tables that are not local, each after those that its foreign keys name."""
    graph: TopologicalSorter[str] = TopologicalSorter()
    for name in sorted(places, key=lambda name: (places[name] != REFERENCE, name)):
        targets = {row["target"] for row in catalog.foreign_keys if row["name"] == name} - {name}
        graph.add(name, *sorted(targets))
    return [name for name in graph.static_order() if places[name] != LOCAL]


def script(catalog: Catalog, places: Mapping[str, str]) -> str:
    """Return distribute.sql."""
    order = ordered(catalog, places)
    distributed = [name for name in order if places[name] == DISTRIBUTED]
    first = distributed[0]
    lines = [
        "-- Made by deploy/citus/distribute.py; do not edit. For psql, as a superuser, on a coordinator that has its",
        "-- workers, in a database that `skein migrate --citus` has just brought to the newest schema. What was done",
        "-- before a failure stays, and a second run goes on from there. See README.md.",
        r"\set ON_ERROR_STOP on",
        "",
        "DO $$",
        "BEGIN",
        "    IF NOT (SELECT rolcanlogin AND rolbypassrls FROM pg_roles WHERE rolname = 'skein_owner')",
        *(
            f"        OR current_setting('{name}', true) IS DISTINCT FROM '{value}'"
            for name, value in citus.SETTINGS.items()
        ),
        "    THEN",
        "        RAISE 'The database is not prepared for Citus: run skein migrate --citus, and connect again.';",
        "    END IF;",
        "END",
        "$$;",
        "SET citus.multi_shard_modify_mode = 'sequential';",
        "",
        "-- Citus refuses triggers, so no former rows are kept. Those of partitions go with their table's.",
        "SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)",
        "FROM pg_trigger",
        "WHERE tgname IN ('keep_updated', 'keep_deleted') AND tgparentid = 0",
        r"\gexec",
        "",
        "-- A copy on every machine.",
        *_calls(
            "format('SELECT create_reference_table(%L)', name)",
            "repmodel = 't'",
            [name for name in order if places[name] == REFERENCE],
        ),
        "",
        "-- By tenant; all rows of a tenant lie on one machine.",
        *_calls(f"format('SELECT create_distributed_table(%L, ''{SHARD}'')', name)", "partmethod = 'h'", [first]),
        *_calls(
            f"format('SELECT create_distributed_table(%L, ''{SHARD}'', colocate_with => ''{first}'')', name)",
            "partmethod = 'h'",
            distributed[1:],
        ),
        "",
        "-- On the coordinator alone, as they are:",
        *(f"--   {name}" for name, place in sorted(places.items()) if place == LOCAL),
    ]
    return "\n".join(lines) + "\n"


def _calls(statement: str, done: str, names: Iterable[str]) -> list[str]:
    """Return lines that run a statement for each table of which Citus's catalog does not say `done` yet."""
    return [
        f"SELECT {statement}",
        "FROM unnest(ARRAY[",
        ",\n".join(f"    '{name}'" for name in names),
        "]) WITH ORDINALITY AS tables (name, place)",
        # Names and conditions of this file.
        f"WHERE name::regclass NOT IN (SELECT logicalrelid FROM pg_dist_partition WHERE {done})",  # noqa: S608
        "ORDER BY place",
        r"\gexec",
    ]


def obstacles(catalog: Catalog, places: Mapping[str, str], named: Iterable[tuple[str, Query]]) -> dict[str, list[str]]:
    """Return what Citus refuses, or does not do, by the rule that it breaks."""
    queries = [(f"{package}: {query.name}", query) for package, query in named]

    def is_shared(table: str) -> bool:
        return table == _VECTORS or table.startswith(_ANY) or places.get(table) == DISTRIBUTED

    return {
        "A table that is distributed has no uniqueness without the tenant": [
            row["index"] for row in catalog.unique_without_tenant if places[row["name"]] == DISTRIBUTED
        ],
        "A foreign key between distributed tables holds the tenant": [
            f"{row['name']}: {row['key']}"
            for row in catalog.foreign_keys
            if places[row["name"]] == places[row["target"]] == DISTRIBUTED and not row["with_tenant"]
        ],
        "A copied or local table has no foreign key to a distributed one": [
            f"{row['name']}: {row['key']}"
            for row in catalog.foreign_keys
            if places[row["name"]] != DISTRIBUTED and places[row["target"]] == DISTRIBUTED
        ],
        "A foreign key that holds the tenant sets nothing to NULL": [
            f"{row['name']}: {row['key']}"
            for row in catalog.foreign_keys
            if places[row["name"]] == DISTRIBUTED and row["with_tenant"] and row["sets_null"]
        ],
        "A foreign key of a table that is not local follows no update": [
            f"{row['name']}: {row['key']}"
            for row in catalog.foreign_keys
            if places[row["name"]] != LOCAL and row["follows_update"]
        ],
        "A table that is not local has no trigger": [
            f"{row['name']}: {row['trigger']}"
            for row in catalog.triggers
            if places[row["name"]] != LOCAL and not row["keeps_history"]
        ],
        KEEPS_HISTORY: [
            f"{row['name']}: {row['trigger']}"
            for row in catalog.triggers
            if places[row["name"]] != LOCAL and row["keeps_history"]
        ],
        "A policy holds no subquery": [
            f"{row['name']}: {row['policy']}" for row in catalog.policies if "SELECT" in row["words"].upper()
        ],
        "A table that is not local counts with no sequence": [
            f"{row['name']}: {row['column']}" for row in catalog.sequences if places[row["name"]] != LOCAL
        ],
        "Partitions have no partitions": list(catalog.nested),
        INSERT_SELECT: [
            name
            for name, query in queries
            if "ON CONFLICT" not in query.text and any(is_shared(match[1]) for match in _INSERTED.finditer(query.text))
        ],
        "An UPDATE of a distributed table calls no volatile function": [
            name
            for name, query in queries
            if any(is_shared(match[1]) and _VOLATILE.search(match[2]) for match in _UPDATED.finditer(query.text))
        ],
        NAMES_TENANT: [
            name
            for name, query in queries
            if any(is_shared(table) for table in _TABLE.findall(query.text)) and not _names_tenant(query)
        ],
        ACTS_AS_OWNER: [
            name
            for name, query in queries
            if any(re.search(rf"\b{re.escape(function)}\s*\(", query.text) for function in catalog.definers)
        ],
    }


def _names_tenant(query: Query) -> bool:
    """Return whether a statement has a tenant's id, other than to leave the tenant out."""
    if SHARD not in query.parameters:
        return False
    return re.search(rf"(?<!<> )\${query.parameters.index(SHARD) + 1}(?!\d)", query.text) is not None


def reason(rule: str, name: str) -> str:
    """Return why something that breaks a rule is accepted. Raises ValueError where it is not."""
    for pattern, text in ACCEPTED.get(rule, ()):
        if re.search(pattern, name):
            return text
    message = (
        f"{name} breaks a rule of Citus: {rule}. Write it in another way, or accept it with its reason in ACCEPTED."
    )
    raise ValueError(message)


def report(found: Mapping[str, list[str]]) -> str:
    """Return obstacles.md. Raises ValueError for what is not accepted."""
    lines = [
        "# What of ours breaks Citus's rules",
        "",
        "Made by `deploy/citus/distribute.py` from the catalog and the named statements; do not edit.",
        "It has only what is accepted, each with its reason. [README.md](README.md) says what each would take.",
    ]
    for rule, names in found.items():
        lines += ["", f"**{rule}**: " + ("kept." if not names else f"{len(names)} break it, and are accepted.")]
        reasons = {name: reason(rule, name) for name in names}
        for text in dict.fromkeys(reasons.values()):
            lines += ["", text, "", *(f"- `{name}`" for name in names if reasons[name] == text)]
    return "\n".join(lines) + "\n"


async def rendered(url: str) -> dict[Path, str]:
    """Return the text of each file."""
    catalog = await Catalog.read(url)
    named = list(statements())
    places = placed(catalog, [query.text for _, query in named])
    return {
        HERE / "distribute.sql": script(catalog, places),
        HERE / "obstacles.md": report(obstacles(catalog, places, named)),
    }


async def of_a_new_database() -> dict[Path, str]:
    """Return the same of a database that is made for it."""
    with tempfile.TemporaryDirectory(prefix="skein-citus-") as folder:
        # The server may run as another user, who needs access to the folder.
        os.chmod(folder, 0o711)  # noqa: PTH101, S103 - nothing waits for us meanwhile, and it is empty.
        async with embedded.running_server(Path(folder) / "postgres", durable=False) as server:
            await embedded.create_database(server, "skein")
            url = server.url(user="postgres", database="skein")
            await migrate(url, registry.migrations(), registry.WITH_DATABASE)
            return await rendered(url)


def main() -> None:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a migrated database, as a superuser")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    texts = asyncio.run(rendered(options.url) if options.url else of_a_new_database())
    if not options.check:
        for path, text in texts.items():
            path.write_text(text, "utf-8")
        return
    stale = [path.name for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    if stale:
        sys.exit(f"{', '.join(stale)} is not what the schema gives: run `make manifests`")


if __name__ == "__main__":
    main()
