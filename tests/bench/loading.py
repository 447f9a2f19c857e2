"""Writes a population past the services, in the rows that they would have written. All that knows the tables is here.

Loaded as the superuser, without triggers: foreign keys hold because of what is written, and are not looked up. What the
worker does later (counting terms) is done at the end, so that nothing is left to do while calls are measured.
"""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import numpy as np
from bench.population import SPAN_MILLISECONDS

from skein_auth.api_keys.model import ApiKeyToken
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.population import Block
    from numpy.typing import NDArray

    Connection = asyncpg.Connection[asyncpg.Record]

# What a B-tree tuple holds of a vector; the dimensions beyond stand in a column of their own.
COVERED = 1280
_ATTEMPTS = 5
_ARRIVING = """
    CREATE TEMP TABLE arriving (
        tenant_id uuid, memory_id uuid, content text, tag text, type text, agent_id text, session_id text,
        create_time timestamptz
    );
    CREATE TEMP TABLE words (tenant_id uuid, memory_id uuid, term text, frequency integer);
"""
_ENTRIES = """
    INSERT INTO memory.entries
        (tenant_id, memory_id, type, content, source_agent, agent_id, session_id, scope, level, confidence, importance,
         content_hash, create_time, update_time, created_by, updated_by)
    SELECT tenant_id, memory_id, type, content, agent_id, agent_id, session_id, 'global', 'operational', 0.7, 0.5,
           sha256(content::bytea), create_time, create_time, 'bench', 'bench'
    FROM arriving;
    INSERT INTO memory.tags (tenant_id, memory_id, tag)
    SELECT tenant_id, memory_id, unnest(ARRAY['common', tag]) FROM arriving;
    INSERT INTO words
    SELECT tenant_id, memory_id, term.lexeme, cardinality(term.positions)
    FROM arriving, unnest(to_tsvector('pg_catalog.english', content)) AS term;
"""
_DOCUMENTS = """
    INSERT INTO recall.documents
        (tenant_id, item_id, kind, type, scope, importance, agent_id, session_id, length, revision, pending {columns})
    SELECT a.tenant_id, a.memory_id, 'memory', a.type, 'global', 0.5, a.agent_id, a.session_id, w.length, 1, false
           {values}
    FROM arriving AS a
    JOIN (SELECT memory_id, sum(frequency) AS length FROM words GROUP BY memory_id) AS w USING (memory_id);
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT w.tenant_id, w.term, 'memory', w.memory_id, w.frequency, d.length
    FROM words AS w
    JOIN (SELECT memory_id, sum(frequency) AS length FROM words GROUP BY memory_id) AS d USING (memory_id)
    ORDER BY w.tenant_id, w.term, w.memory_id;
    TRUNCATE arriving, words;
"""
# Columns that not every schema has, and what they hold.
_NEWER = {"author": "a.agent_id", "counted": "true"}
_COUNTS = """
    INSERT INTO recall.corpora (tenant_id, kind, documents, length)
    SELECT tenant_id, kind, count(*), sum(length) FROM recall.documents GROUP BY tenant_id, kind
    ON CONFLICT (tenant_id, kind) DO UPDATE SET documents = excluded.documents, length = excluded.length;
    INSERT INTO recall.frequencies (tenant_id, term, kind, documents)
    SELECT tenant_id, term, kind, count(*) FROM recall.postings GROUP BY tenant_id, term, kind HAVING count(*) >= {long}
    ON CONFLICT (tenant_id, term, kind) DO UPDATE SET documents = excluded.documents;
"""
# Lists of terms that are shorter are counted as they are read.
LONG_LIST = 256


@dataclass(frozen=True, slots=True)
class Member:
    """A tenant, and a key for it."""

    tenant_id: UUID
    api_key: str


async def newest_check_key(connection: Connection) -> bytes:
    """Read what the check digits of new API keys are made with."""
    key: bytes = await connection.fetchval("SELECT secret FROM auth.check_keys ORDER BY create_time DESC LIMIT 1")
    return key


async def make_tenants(connection: Connection, count: int) -> list[Member]:
    """Write so many tenants with a key each."""
    at = datetime.now(UTC)
    organization_id = await connection.fetchval("SELECT organization_id FROM tenancy.organizations LIMIT 1")
    check_key = await newest_check_key(connection)
    keys = [ApiKeyToken.new(new_id(at), new_id(at), check_key) for _ in range(count)]
    await connection.copy_records_to_table(
        "tenants",
        schema_name="tenancy",
        columns=["tenant_id", "organization_id", "display_name", "slug", "create_time", "update_time"],
        records=[(key.tenant_id, organization_id, "bench", f"bench-{key.tenant_id.hex}", at, at) for key in keys],
    )
    permissions = sorted(ROLE_PERMISSIONS["member"])
    await connection.copy_records_to_table(
        "api_keys",
        schema_name="auth",
        columns=["tenant_id", "api_key_id", "display_name", "permissions", "secret_hash", "create_time", "created_by"],
        records=[(key.tenant_id, key.key_id, "bench", permissions, key.secret_hash(), at, "bench") for key in keys],
    )
    return [Member(key.tenant_id, key.encode()) for key in keys]


class Loader:
    """Writes blocks of entries through one connection."""

    def __init__(self, connection: Connection, members: Sequence[Member], table: str) -> None:
        """Write for these tenants, vectors into a `table` of the schema recall."""
        self._connection = connection
        self._tenants = [member.tenant_id for member in members]
        self._table = table
        self._documents = ""
        self._has_rest = False

    async def begin(self) -> None:
        """Learn what the tables have, and make the months that entries fall into."""
        there = await self._connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'recall'"
        )
        columns = {(row["table_name"], row["column_name"]) for row in there}
        newer = {name: value for name, value in _NEWER.items() if ("documents", name) in columns}
        self._documents = _DOCUMENTS.format(
            columns="".join(f", {name}" for name in newer), values="".join(f", {value}" for value in newer.values())
        )
        self._has_rest = (self._table, "rest") in columns
        await self._connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        await self._connection.execute(_ARRIVING)
        months = SPAN_MILLISECONDS // (28 * 24 * 3600 * 1000) + 1
        for ago in range(months + 1):
            await self._month(ago)

    async def _month(self, ago: int) -> None:
        """Make the partition of a month, in a transaction of its own; it may lose against what the cluster writes."""
        for _ in range(_ATTEMPTS):
            with suppress(asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError):
                await self._connection.execute("SELECT memory.ensure_month(now() - $1::int * interval '1 month')", ago)
                return
        message = "The cluster's own writes kept a month's partition from being made."
        raise RuntimeError(message)

    async def load(self, block: Block) -> None:
        """Write a block whole."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        values = {name: value.tolist() for name, value in block.attributes.items()}
        records = [
            (
                self._tenants[tenant],
                UUID(bytes=bytes(id_)),
                text,
                value_of("tag", values["tag"][place]),
                value_of("type", values["type"][place]),
                value_of("agent", values["agent"][place]),
                value_of("session", values["session"][place]),
                epoch + timedelta(milliseconds=milliseconds),
            )
            for place, (tenant, id_, text, milliseconds) in enumerate(
                zip(block.tenants.tolist(), block.ids, block.texts, block.milliseconds.tolist(), strict=True)
            )
        ]
        async with self._connection.transaction():
            await self._connection.copy_records_to_table("arriving", records=records)
            await self._connection.execute(_ENTRIES)
            await self._connection.execute(self._documents)
            await self._vectors(block)

    async def _vectors(self, block: Block) -> None:
        owners = _owners(self._tenants, block)
        parts: list[tuple[str, Any, Any]] = [
            ("tenant_id", "V16", owners),
            ("item_id", "V16", block.ids.view("V16").ravel()),
            ("chunk", ">i2", 0),
            ("kind", "V6", b"memory"),
        ]
        if self._has_rest and block.vectors.shape[1] > COVERED:
            parts.append(("embedding", "halfvec", block.vectors[:, :COVERED]))
            parts.append(("rest", "halfvec", block.vectors[:, COVERED:]))
        else:
            parts.append(("embedding", "halfvec", block.vectors))
        await self._connection.copy_to_table(
            self._table,
            schema_name="recall",
            columns=[name for name, _, _ in parts],
            source=io.BytesIO(copied([(form, value) for _, form, value in parts], len(owners))),
            format="binary",
        )

    async def end(self) -> None:
        """Count what the worker would count, and bring statistics and visibility up to date, as autovacuum does."""
        if await self._connection.fetchval("SELECT to_regclass('recall.frequencies') IS NOT NULL"):
            await self._connection.execute(_COUNTS.format(long=LONG_LIST))
        await self._connection.execute("RESET session_replication_role; RESET synchronous_commit")
        await self._connection.execute("DROP TABLE arriving, words")
        await self._connection.execute("VACUUM (ANALYZE)")
        await self._connection.execute("CHECKPOINT")


def value_of(attribute: str, number: int) -> str:
    """Return what an attribute's value is called, wherever it is stored or asked for."""
    return f"{attribute}_{number}"


def copied(columns: Sequence[tuple[str, Any]], count: int) -> bytes:
    """Return rows in COPY's binary form: columns of one length each, given as numpy's type or "halfvec" or "vector".

    One array of all rows is made and written as it lies in memory, which is a hundred times as fast as row by row.
    """
    vectors = {"halfvec": ">f2", "vector": ">f4"}
    fields: list[Any] = [("columns", ">i2")]
    for place, (form, value) in enumerate(columns):
        fields.append((f"length{place}", ">i4"))
        if form in vectors:
            fields += [(f"dimensions{place}", ">i2"), (f"unused{place}", ">i2")]
            fields.append((f"value{place}", vectors[form], (value.shape[1],)))
        else:
            fields.append((f"value{place}", form))
    rows: NDArray[Any] = np.zeros(count, dtype=np.dtype(fields))
    rows["columns"] = len(columns)
    for place, (form, value) in enumerate(columns):
        size = rows.dtype[f"value{place}"].itemsize
        rows[f"length{place}"] = size + 4 if form in vectors else size
        if form in vectors:
            rows[f"dimensions{place}"] = value.shape[1]
        rows[f"value{place}"] = np.void(value) if isinstance(value, bytes) else value
    header = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
    return header + rows.tobytes() + struct.pack(">h", -1)


def _owners(tenants: Sequence[UUID], block: Block) -> NDArray[Any]:
    """Return the tenant of each entry as 16 bytes."""
    known = np.frombuffer(b"".join(tenant.bytes for tenant in tenants), dtype="V16")
    owners: NDArray[Any] = known[block.tenants]
    return owners
