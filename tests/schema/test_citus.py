"""deploy/citus distributes every table there is, in an order that works, and knows what Citus would refuse."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from fix_database import TestDatabase
from fix_own_postgres import password_server

from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server
from skein_kit.database.schema_migrations import migrate

FOLDER = Path(__file__).parents[2] / "deploy/citus"
SCRIPT = (FOLDER / "distribute.sql").read_text("utf-8")
# Each statement that is made, with the tables that it is made for.
_CALLS = re.compile(
    r"^SELECT format\('SELECT create_(\w+)_table\(%L(.*)\)', name\)\nFROM unnest\(ARRAY\[([^]]+)\]", re.MULTILINE
)
_FOUND = [
    (name, (call[1], call[2].replace("''", "'")))
    for call in _CALLS.finditer(SCRIPT)
    for name in re.findall(r"'([^']+)'", call[3])
]
CALLS = dict(_FOUND)
ORDER = [name for name, _ in _FOUND]
LOCAL = set(re.findall(r"^--   (\S+)$", SCRIPT, re.MULTILINE))
TABLES = """
SELECT n.nspname || '.' || c.relname AS name
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
FOREIGN_KEYS = """
SELECT n.nspname || '.' || c.relname AS source, tn.nspname || '.' || tc.relname AS target
FROM pg_constraint AS f
JOIN pg_class AS c ON c.oid = f.conrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_class AS tc ON tc.oid = f.confrelid
JOIN pg_namespace AS tn ON tn.oid = tc.relnamespace
WHERE f.contype = 'f' AND f.conparentid = 0 AND f.conrelid <> f.confrelid
"""


@pytest.fixture(scope="module")
def distribute() -> Any:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("distribute", FOLDER / "distribute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["distribute"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.system
async def test_the_files_are_what_the_schema_gives(distribute: Any, untouched: TestDatabase) -> None:
    for path, text in (await distribute.rendered(untouched.url)).items():
        assert path.read_text("utf-8") == text, f"{path.name}: run make manifests"


async def test_every_table_has_its_place(catalog: asyncpg.Connection[asyncpg.Record]) -> None:
    there = {row["name"] for row in await catalog.fetch(TABLES)}

    assert set(CALLS) | LOCAL == there
    assert not set(CALLS) & LOCAL
    assert len(ORDER) == len(set(ORDER))


async def test_a_table_comes_after_those_that_its_foreign_keys_name(
    catalog: asyncpg.Connection[asyncpg.Record],
) -> None:
    for row in await catalog.fetch(FOREIGN_KEYS):
        if row["source"] not in LOCAL:
            assert ORDER.index(row["target"]) < ORDER.index(row["source"]), dict(row)


def test_all_rows_of_a_tenant_lie_on_one_machine() -> None:
    distributed = {name: rest for name, (kind, rest) in CALLS.items() if kind == "distributed"}
    (first, *_) = distributed

    assert set(distributed.values()) == {", 'tenant_id'", f", 'tenant_id', colocate_with => '{first}'"}
    assert distributed[first] == ", 'tenant_id'"


# Triggers of tables that are not local. Partitions have a copy of each.
TRIGGER_COUNT = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid <> 'worker.pgqueuer'::regclass"


# What the script needs of Citus: its catalog, and functions that enter tables there, one of which may fail.
STAND_IN = """
CREATE TABLE public.pg_dist_partition (
    position integer GENERATED ALWAYS AS IDENTITY, logicalrelid regclass PRIMARY KEY, partmethod "char",
    repmodel "char", colocated regclass
);
CREATE TABLE public.failing (logicalrelid regclass);
CREATE FUNCTION public.create_reference_table(name regclass) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.pg_dist_partition (logicalrelid, partmethod, repmodel) VALUES (name, 'n', 't') $$;
CREATE FUNCTION public.create_distributed_table(name regclass, shard text, colocate_with text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF name IN (SELECT logicalrelid FROM public.failing) THEN RAISE 'a worker is gone'; END IF;
    INSERT INTO public.pg_dist_partition (logicalrelid, partmethod, repmodel, colocated)
    VALUES (name, 'h', 's', colocate_with::regclass);
END $$;
"""


@pytest.mark.system
async def test_the_script_goes_on_after_a_failure_and_places_each_table_once() -> None:
    async with password_server() as server:
        url = server.server.url(user="postgres", database="skein")
        await embedded.create_database(server.server, "skein")
        async with server.superuser("skein") as connection:
            await migrate(url, registry.migrations(), registry.WITH_DATABASE)
            await connection.execute(STAND_IN)
            unprepared = await run_script(server.server)
            await migrate(url, registry.migrations(), registry.WITH_DATABASE, citus=True)
            await connection.execute("INSERT INTO failing VALUES ('recall.postings')")
            failed = await run_script(server.server)
            before = await connection.fetchval("SELECT count(*) FROM pg_dist_partition")
            trigger_count = await connection.fetchval(TRIGGER_COUNT)
            await connection.execute("TRUNCATE failing")
            whole, again = await run_script(server.server), await run_script(server.server)
            rows = await connection.fetch("SELECT * FROM pg_dist_partition ORDER BY position")

    assert "run skein migrate --citus" in unprepared
    assert "a worker is gone" in failed
    assert (before, whole, again) == (ORDER.index("recall.postings"), "", "")
    assert trigger_count == 0
    assert [row["logicalrelid"] for row in rows] == ORDER
    distributed = [row for row in rows if row["partmethod"] == b"h"]
    assert [row["colocated"] for row in distributed] == [
        None,
        *[distributed[0]["logicalrelid"]] * (len(distributed) - 1),
    ]


async def run_script(server: Server) -> str:
    """Run it by psql, and return what psql says when it fails."""
    process = await asyncio.create_subprocess_exec(
        server.binaries / "psql",
        *("--no-psqlrc", "--quiet", "--tuples-only", "--host", server.host, "--port", str(server.port)),
        *("--username", "postgres", "--file", FOLDER / "distribute.sql", "skein"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await process.communicate()
    assert bool(process.returncode) == bool(error)
    return error.decode()


async def test_obstacles_to_citus_are_noticed(distribute: Any, database: TestDatabase) -> None:
    async with database.superuser() as connection:
        await connection.execute(
            """
            CREATE TABLE memory.shelves (
                tenant_id uuid NOT NULL CONSTRAINT shelves_tenant_fkey
                    REFERENCES tenancy.tenants (tenant_id) ON UPDATE CASCADE,
                shelf_id bigint GENERATED ALWAYS AS IDENTITY,
                PRIMARY KEY (tenant_id, shelf_id)
            );
            CREATE POLICY shelves ON memory.shelves USING (tenant_id IN (SELECT tenant_id FROM tenancy.tenants));
            CREATE TRIGGER shelves AFTER INSERT ON memory.shelves
                FOR EACH STATEMENT EXECUTE FUNCTION worker.fn_pgqueuer_changed();
            """
        )
    insert = distribute.Query.parse("fill", "INSERT INTO memory.shelves (tenant_id) SELECT :tenant_id")
    update = distribute.Query.parse(
        "stamp", "UPDATE memory.shelves AS s SET x = clock_timestamp() WHERE tenant_id = :tenant_id"
    )
    refill = distribute.Query.parse(
        "refill", "INSERT INTO memory.shelves (tenant_id) SELECT :tenant_id ON CONFLICT DO NOTHING"
    )
    others = distribute.Query.parse("others", "SELECT count(*) FROM memory.shelves WHERE tenant_id <> :tenant_id")

    catalog = await distribute.Catalog.read(database.url)
    named = [("test", insert), ("test", update), ("test", refill), ("test", others)]
    actual_obstacles = distribute.obstacles(catalog, distribute.placed(catalog, []), named)

    noticed = {
        name for names in actual_obstacles.values() for name in names if "shelves" in name or name.startswith("test")
    }
    assert noticed == {
        "memory.shelves: shelf_id",
        "memory.shelves: shelves",
        "memory.shelves: shelves_tenant_fkey",
        "test: fill",
        "test: others",
        "test: stamp",
    }
    assert sum(names.count("memory.shelves: shelves") for names in actual_obstacles.values()) == 2


def test_what_breaks_a_rule_without_a_reason_is_refused(distribute: Any) -> None:
    accepted = {distribute.NAMES_TENANT: ["skein_tenancy: read_usage_of_others"], "A rule that is kept": []}

    with pytest.raises(ValueError, match="skein_memory: fill breaks a rule of Citus"):
        distribute.report({distribute.INSERT_SELECT: ["skein_memory: fill"]})
    assert "with its tenants.\n\n- `skein_tenancy: read_usage_of_others`\n" in distribute.report(accepted)
    assert "**A rule that is kept**: kept.\n" in distribute.report(accepted)
