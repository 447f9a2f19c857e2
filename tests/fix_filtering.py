"""Random conditions, and random memories and messages that they may or may not hold for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Tags
from skein_kit.filters.fields import FIELDS, ITEM_FIELDS, Field, Kind

# Few words, so that conditions often hold. Letters whose small forms are one letter each.
WORDS = st.sampled_from(["", "a", "tea", "Tea ", "Ärger", 'it\'s "x"', "50%", "a_b", "\\", "ω", "日本", "line\nbreak"])
NUMBERS = st.sampled_from([0.0, 0.1, 0.5, 0.25, 1.0, 2.0, 5.0, 10.0, -3.5, 1e21])
TIMES = st.sampled_from([datetime(2026, 1, day, hour, tzinfo=UTC) for day in (1, 2, 3) for hour in (0, 12)])
TAGS = st.sampled_from(["a", "b", "a b", "ü"])
KEYS = st.sampled_from(["a", "b", "a b", "1", 'q"'])
# Of properties, which are compared exactly.
EXACT_NUMBERS = NUMBERS.map(lambda number: Decimal(str(number)))
SCALARS = st.one_of(WORDS, NUMBERS, st.booleans())
DIGESTS = st.sampled_from(["ab" * 32, "00" * 32])


def _values(kind: Kind, allowed: tuple[str, ...]) -> st.SearchStrategy[Any]:
    if allowed:
        return st.sampled_from(allowed)
    return {
        Kind.TEXT: WORDS, Kind.NUMBER: NUMBERS, Kind.TIME: TIMES, Kind.BOOLEAN: st.booleans(), Kind.DIGEST: DIGESTS,
        Kind.PROPERTIES: st.one_of(WORDS, EXACT_NUMBERS, st.booleans()),
    }[kind]  # fmt: skip


def _path(name: str, keys: list[str]) -> tuple[str, ...]:
    return (name, *keys)


def _conditions(fields: Mapping[str, Field]) -> st.SearchStrategy[Expression]:
    results: list[st.SearchStrategy[Expression]] = [
        st.builds(
            Tags,
            st.sampled_from(["any", "all", "none"]),
            st.lists(TAGS, min_size=1, max_size=3, unique=True).map(tuple),
        ),
        st.just(Has(("tags",))),
        st.just(Has(("metadata",))),
    ]
    for name, field in fields.items():
        if field.kind is Kind.TAGS or name in {"memory_id", "message_id"}:
            continue
        path: st.SearchStrategy[Any] = st.just((name,))
        if field.kind is Kind.PROPERTIES:
            path = st.builds(_path, st.just(name), st.lists(KEYS, min_size=1, max_size=3))
        values = _values(field.kind, field.values)
        signs = ["=", "!="]
        results.append(st.builds(In, path, st.lists(values, min_size=1, max_size=3).map(tuple)))
        results.append(st.builds(Has, path))
        if field.kind in {Kind.NUMBER, Kind.TIME}:
            signs += ["<", "<=", ">", ">="]
        results.append(st.builds(Compare, path, st.sampled_from(signs), values))
        if field.kind is Kind.PROPERTIES:
            ordered = st.one_of(WORDS, EXACT_NUMBERS)
            results.append(st.builds(Compare, path, st.sampled_from(["<", "<=", ">", ">="]), ordered))
        if field.kind is Kind.TEXT and not field.values:
            results.append(st.builds(Contains, path, WORDS.filter(bool)))
    return st.one_of(results)


def _expressions(fields: Mapping[str, Field]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        _conditions(fields),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        ),
        max_leaves=5,
    )


EXPRESSIONS = _expressions(FIELDS)
# Of memories and messages.
ITEM_EXPRESSIONS = _expressions(ITEM_FIELDS)

JSON = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.none() | st.dictionaries(KEYS, JSON, max_size=3)
_SET = WORDS.filter(bool)
MEMORIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "external_id": st.none() | _SET,
        "type": _SET,
        "title": st.none() | _SET,
        "key": st.none() | _SET,
        "content": WORDS,
        "source": st.none() | _SET,
        "source_agent": st.none() | _SET,
        "agent_id": st.none() | _SET,
        "subject_id": st.none() | _SET,
        "session_id": st.none() | _SET,
        "created_by": _SET,
        "updated_by": _SET,
        "scope": st.sampled_from(["global", "user"]),
        "level": st.sampled_from(["tactical", "operational"]),
        "confidence": st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        "importance": st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.5 / 9, 1.0]),
        "revision": st.integers(1, 5),
        "create_time": TIMES,
        "update_time": TIMES,
        "delete_time": st.none() | TIMES,
        "expire_time": st.none() | TIMES,
        "archive_time": st.none() | TIMES,
        "valid_from_time": st.none() | TIMES,
        "valid_to_time": st.none(),
        "tags": st.lists(TAGS, max_size=3, unique=True),
        "metadata": OBJECTS,
        "data": OBJECTS,
    }
)
MESSAGES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "external_id": st.none() | _SET,
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": WORDS,
        "name": st.none() | _SET,
        "subject_id": st.none() | _SET,
        "agent_id": st.none() | _SET,
        "session_id": _SET,
        "sequence": st.integers(1, 10),
        "tool_call_id": st.none() | _SET,
        "model": st.none() | _SET,
        "step_id": st.none() | _SET,
        "group_id": st.none() | _SET,
        "sender_id": st.none() | _SET,
        "offline_thread_id": st.none() | _SET,
        "metadata": OBJECTS,
        "create_time": TIMES,
        "created_by": _SET,
        "is_active": st.booleans(),
        "revision": st.integers(1, 5),
        "update_time": st.none() | TIMES,
        "updated_by": st.none() | _SET,
    }
)
