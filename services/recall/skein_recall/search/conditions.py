"""The conditions of a filter as SQL: those that the search index tests, and where the others are tested."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from skein_kit.database import named_queries
from skein_kit.filters.compiler import ENTRIES, MESSAGES, FilterTable
from skein_recall.queries import QUERIES
from skein_recall.search.filter import Filter


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTest:
    """The table that has the rows of a kind of items, and the statements that test them without and with a budget."""

    table: FilterTable
    filter_query: named_queries.Query
    scan_query: named_queries.Query


ROW_TESTS = MappingProxyType(
    {
        "memory": RowTest(table=ENTRIES, filter_query=QUERIES["filter_memories"], scan_query=QUERIES["scan_memories"]),
        "message": RowTest(
            table=MESSAGES, filter_query=QUERIES["filter_messages"], scan_query=QUERIES["scan_messages"]
        ),
    }
)

# SQL of the conditions of a filter, by name; `d` is the document. A statement has only the conditions of its filter, so
# that it is planned for them.
_CONDITIONS = MappingProxyType(
    {
        "types": "d.type = ANY (:types::text[])",
        "scopes": "d.scope = ANY (:scopes::text[])",
        "source": "d.source = :source::text",
        "key": "lower(d.key) = lower(:key::text)",
        "min_importance": "d.importance >= :min_importance::double precision",
        "agent_id": "d.agent_id = :agent_id::text",
        "subject_id": "d.subject_id = :subject_id::text",
        "session_id": "d.session_id = :session_id::text",
        # A memory without a row has the neutral trust. That of a message is tested when it is read; it is never higher.
        "min_trust": """CASE WHEN :min_trust::double precision <= 0.5
            THEN d.item_id <> ALL (ARRAY(
                SELECT s.memory_id FROM memory.trust AS s
                WHERE s.tenant_id = :tenant_id AND s.trust < :min_trust::double precision))
            ELSE d.item_id = ANY (ARRAY(
                SELECT s.memory_id FROM memory.trust AS s
                WHERE s.tenant_id = :tenant_id AND s.trust >= :min_trust::double precision))
            END""",
        # Memories have neither role nor speaker.
        "roles": "d.kind = 'memory' OR d.role = ANY (:roles::text[])",
        "speakers": "d.kind = 'memory' OR d.speaker = ANY (:speakers::text[])",
        "start_time": "d.item_id >= :start_time::uuid",
        "end_time": "d.item_id < :end_time::uuid",
        "tags_any": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_any::text[])))""",
        "tags_all": """d.item_id = ANY (ARRAY(
            SELECT t.memory_id FROM memory.tags AS t
            WHERE t.tenant_id = :tenant_id AND t.tag = ANY (:tags_all::text[])
            GROUP BY t.memory_id HAVING count(*) = cardinality(:tags_all::text[])))""",
        # Row-level security keeps other agents' memories out of what is read; here they take no place of others.
        "bound_agent": """d.kind = 'message' OR d.scope = 'global' OR d.agent_id = :bound_agent_id::text
            OR (d.agent_id IS NULL AND d.scope <> 'agent')""",
        # As for agents.
        "space": "d.space_id = ANY (:seen_space_ids::uuid[])",
        # A message, which has no scope, belongs to its session and to its subject.
        "visible_to": """(d.subject_id IS NULL OR d.subject_id = coalesce(:seeing_subject_id::text, d.subject_id))
            AND CASE d.scope
                WHEN 'global' THEN true
                WHEN 'agent' THEN d.agent_id = :seeing_agent_id::text
                ELSE (d.agent_id IS NULL OR d.agent_id = coalesce(:seeing_agent_id::text, d.agent_id))
                    AND CASE d.scope
                        WHEN 'user' THEN d.subject_id = :seeing_subject_id::text
                        WHEN 'session' THEN d.session_id = :seeing_session_id::text
                        ELSE d.session_id = :seeing_session_id::text OR d.subject_id = :seeing_subject_id::text
                        END
                END""",
    }
)


def condition_sql(filter_: Filter) -> str:
    """Return the conditions that the index tests as SQL; "true" without any."""
    return " AND ".join(f"({_CONDITIONS[name]})" for name in filter_.index_conditions) or "true"
