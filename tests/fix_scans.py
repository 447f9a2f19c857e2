"""A thousand tenants in a migrated database, made by the database itself, and plausible values for any statement."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from skein_kit.ids import min_id_at, now

# The tenant that is asked: the largest one, with a tenth of everything.
TENANT = uuid.UUID(int=1)
ENTRIES = 60_000
# Partitions and tables with fewer rows are rightly read whole.
FEW_ROWS = 1000
# The times that things were made at in all, however long ago the first is.
_SLOTS = 7000

_FILL = """
    SET session_replication_role = replica;
    SET synchronous_commit = off;
    SELECT memory.ensure_month(now() - ago * interval '1 month'), session.ensure_month(now() - ago * interval '1 month')
    FROM generate_series(0, {months} + 1) AS ago;
    INSERT INTO memory.memories
        (tenant_id, memory_id, external_id, type, key, content, source, agent_id, subject_id, session_id, scope, level,
         confidence, importance, metadata, content_hash, create_time, update_time, created_by, updated_by)
    SELECT {tenant}, {new_id}, 'x' || n, (ARRAY['note', 'note', 'fact', 'task'])[1 + n % 4], 'key ' || n % 5000,
           'text ' || n, 'source ' || n % 300, 'agent ' || n % 30, 'subject ' || n % 300, 'session ' || n % 300,
           'global', 'operational', 0.7, n % 100 / 100.0, jsonb_build_object('plan', 'plan ' || n % 20),
           sha256(n::text::bytea), now(), now(), 'test', 'test'
    FROM generate_series(1, {entries}) AS n;
    INSERT INTO memory.tags (tenant_id, memory_id, tag)
    SELECT tenant_id, memory_id, unnest(ARRAY['common', source]) FROM memory.memories;
    INSERT INTO memory.properties (tenant_id, memory_id, name, value)
    SELECT tenant_id, memory_id, 'metadata.plan', metadata ->> 'plan' FROM memory.memories;
    INSERT INTO memory.external_ids (tenant_id, external_id, memory_id)
    SELECT tenant_id, external_id, memory_id FROM memory.memories;
    INSERT INTO memory.fact_keys (tenant_id, key, memory_id)
    SELECT tenant_id, external_id, memory_id FROM memory.memories WHERE type = 'fact';
    INSERT INTO memory.links
        (tenant_id, link_id, from_memory_id, to_memory_id, relation, weight, create_time, created_by, author_keys)
    SELECT tenant_id, memory_id, memory_id, next_id, 'related', 1, now(), 'test', ARRAY['test']
    FROM (SELECT tenant_id, memory_id, lead(memory_id) OVER (PARTITION BY tenant_id ORDER BY memory_id) AS next_id
          FROM memory.memories) AS neighbours
    WHERE next_id IS NOT NULL;
    INSERT INTO memory.sources (tenant_id, memory_id, position, kind, role, source_id)
    SELECT tenant_id, memory_id, 0, 'memory', 'part', next_id
    FROM (SELECT tenant_id, memory_id, lead(memory_id) OVER (PARTITION BY tenant_id ORDER BY memory_id) AS next_id
          FROM memory.memories) AS neighbours
    WHERE next_id IS NOT NULL;
    INSERT INTO memory.trust (tenant_id, memory_id, trust)
    SELECT tenant_id, memory_id, get_byte(content_hash, 0) / 255.0 FROM memory.memories;
    INSERT INTO memory.trust_work (tenant_id, memory_id, after_id)
    SELECT tenant_id, memory_id, memory_id FROM memory.memories WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO memory.versions
        (tenant_id, memory_id, revision, type, content, tags, scope, level, confidence, importance, create_time,
         update_time, until_time, created_by, updated_by)
    SELECT tenant_id, memory_id, 1, type, content, '{{}}', scope, level, 0.5, 0.5, now(), now(), now(), 'test', 'test'
    FROM memory.memories;
    INSERT INTO memory.changes
        (tenant_id, change_id, event_type, entity_type, entity_id, summary, principal, create_time)
    SELECT tenant_id, memory_id, 'memory_created', 'memory', memory_id, 'x', 'test', now() FROM memory.memories
    WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO memory.access_counts (tenant_id, memory_id, access_count, last_access_time)
    SELECT tenant_id, memory_id, 1, now() FROM memory.memories WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO memory.requests (tenant_id, principal, method, request_id, fingerprint, response, create_time)
    SELECT tenant_id, 'test', 'test', memory_id, '', '', now() - random() * interval '30 days' FROM memory.memories
    WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO memory.tombstones (tenant_id, digest, create_time)
    SELECT tenant_id, content_hash, now() FROM memory.memories WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO session.sessions
        (tenant_id, session_id, state, session_type, subject_id, agent_id, create_time, update_time, active_time,
         created_by, message_count, last_sequence)
    SELECT {tenant}, 'session ' || n / 10, 'active', 'conversation', 'subject ' || n % 300, 'agent ' || n % 30,
           now(), now() - n * interval '1 second', now(), 'test', 10, 9
    FROM generate_series(1, {entries}) AS n WHERE n % 10 = 0;
    INSERT INTO session.messages
        (tenant_id, message_id, session_id, sequence, role, content, agent_id, subject_id, create_time, created_by)
    SELECT {tenant}, {new_id}, 'session ' || n / 10, n % 10, 'user', 'text ' || n, 'agent ' || n % 30,
           'subject ' || n % 300, now(), 'test'
    FROM generate_series(1, {entries}) AS n;
    INSERT INTO session.message_order (tenant_id, session_id, sequence, message_id)
    SELECT tenant_id, session_id, sequence, message_id FROM session.messages;
    INSERT INTO recall.documents
        (tenant_id, item_id, kind, type, scope, source, key, importance, agent_id, subject_id, session_id, length,
         revision, pending, is_counted)
    SELECT tenant_id, memory_id, 'memory', type, scope, source, key, importance, agent_id, subject_id, session_id, 5, 1,
           false, get_byte(content_hash, 0) > 0
    FROM memory.memories WHERE get_byte(content_hash, 0) < 64;
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT tenant_id, unnest(ARRAY['text', source]), 'memory', memory_id, 1, 5 FROM memory.memories
    WHERE get_byte(content_hash, 0) < 64;
    RESET session_replication_role;
"""


def fill(*, entries: int, largest: int, tenant_id: uuid.UUID = TENANT, tenants: int = 1000, months: int = 3) -> str:
    """Return statements that give the tenant `largest` memories and messages, and the others the rest of `entries`."""
    other = f"lpad(to_hex(2 + n % {tenants - 1}), 32, '0')"
    # Every tenant has rows of every month: times in a fixed disorder.
    age = f"n::bigint * 7919 % {_SLOTS} * interval '{6 * months} minutes'"
    return _FILL.format(
        entries=entries,
        months=months,
        tenant=f"(CASE WHEN n <= {largest} THEN '{tenant_id}' ELSE {other} END)::uuid",
        new_id=f"""(lpad(to_hex((extract(epoch FROM date_trunc('hour', now()) - {age}) * 1000)::bigint), 12, '0')
            || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid""",
    )


FILL = fill(entries=ENTRIES, largest=ENTRIES // 10)


def value_of(name: str, kind: str, known: uuid.UUID) -> Any:
    """Return a plausible value for a parameter by its name and type; `known` is the id of a memory and a message."""
    if name == "tenant_id":
        return TENANT
    plain = kind.removesuffix("[]")
    value = {
        "uuid": known, "text": "x", "varchar": "x", "int8": 1, "int4": 1, "int2": 1, "bool": True, "float8": 0.5,
        "numeric": 1, "timestamptz": now(), "bytea": b"x", "jsonb": '{"x": 1}', "interval": timedelta(days=1),
    }.get(plain)  # fmt: skip
    # The name's own value, where it is of the parameter's type.
    named = NAMED.get(name)
    if kind.endswith("[]"):
        return named if isinstance(named, list) and type(named[0]) is type(value) else [value]
    return named if type(named) is type(value) else value


_FAR = datetime(2100, 1, 1, tzinfo=UTC)
NAMED: dict[str, Any] = {
    "count": 51,
    "limit": 51,
    "most": 51,
    "rows": 51,
    "fan": 51,
    "window": 51,
    "scan": 200,
    "candidates": 50,
    "chunks": 200,
    "before_id": min_id_at(_FAR),
    "before": min_id_at(_FAR),
    "from_id": min_id_at(datetime(2026, 1, 1, tzinfo=UTC)),
    "agent_id": "agent 3",
    "subject_id": "subject 3",
    "session_id": "session 3",
    "source": "source 3",
    "session_ids": ["session 3", "session 4"],
    "tags": ["source 3"],
    "kinds": ["memory"],
    "kind": "memory",
    "relations": ["related"],
    "filtered": True,
}
