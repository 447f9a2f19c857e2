"""How accesses become statements: each row once, few statements, few different ones."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from skein_kit.access_log.event import AccessEvent
from skein_kit.access_log.writer import insert_statements, use_count_statements
from skein_kit.database.named_queries import Query
from skein_kit.ids import new_ids

AT = datetime(2026, 3, 1, tzinfo=UTC)
(TENANT,) = new_ids(AT, 1)
IDS = [str(id_) for id_ in new_ids(AT, 100)]


def access_of(memories: int, request_id: str = "r") -> AccessEvent:
    return AccessEvent(
        tenant_id=TENANT,
        method="Recall",
        operation="search",
        principal="key:1",
        memory_ids=tuple(IDS[:memories]),
        session_id=None,
        agent_id=None,
        subject_id=None,
        claimed_agent_id=None,
        claimed_session_id=None,
        item_count=memories,
        request_data="{}",
        success=True,
        error_code=None,
        error_reason=None,
        client_address=None,
        request_id=request_id,
        create_time=AT,
    )


def rows(statement: tuple[Query, dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows that Postgres would insert."""
    query, values = statement
    bound = query.bind(values)
    text = query.text[query.text.index("VALUES") :]
    groups = text[text.index("(") + 1 : -1].split("), (")
    return [tuple(bound[int(each[1:]) - 1] for each in group.split(", ")) for group in groups]


def test_each_memory_of_each_call_has_its_row_with_what_the_call_shares() -> None:
    calls = [access_of(memories, f"r{number}") for number, memories in enumerate((10, 0, 1, 100, 10, 37))]

    results = [row for statement in insert_statements(TENANT, calls) for row in rows(statement)]

    expected = [(place, call.request_id) for call in calls for place in call.memory_ids_or_none]
    assert Counter((row[2], row[17]) for row in results) == Counter(expected)
    assert {row[0] for row in results} == {TENANT}
    assert len({row[1] for row in results}) == len(results)
    assert {row[3:5] for row in results} == {("search", "Recall")}


def test_calls_of_one_size_go_together_and_need_few_different_statements() -> None:
    statements = {
        query.text for calls in range(1, 60) for query, _ in insert_statements(TENANT, [access_of(10)] * calls)
    }

    assert len(list(insert_statements(TENANT, [access_of(10)] * 16))) == 1
    assert len(statements) <= 6


def test_uses_are_counted_in_the_order_of_ids() -> None:
    (statement,) = use_count_statements(TENANT, Counter({IDS[1]: 2, IDS[0]: 1}))

    assert statement.index(f"'{IDS[0]}', 1)") < statement.index(f"'{IDS[1]}', 2)")
    assert list(use_count_statements(TENANT, Counter())) == []
