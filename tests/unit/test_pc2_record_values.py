"""Values of port 5596's messages, and error patterns."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_pc2.protocol.errors import RequestError
from skein_pc2.reasoning.actions import error_patterns
from skein_pc2.reasoning.jarvis import jarvis
from skein_pc2.reasoning.records import convert as records
from skein_pc2.reasoning.records import record_values

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.system
@given(json_values)
def test_any_json_value_is_stored_unchanged(value: Any) -> None:
    memory = jarvis.to_memory("ana", value)
    # The service takes surrounding spaces away.
    memory.content = memory.content.strip()

    assert jarvis.to_value(type(memory).FromString(memory.SerializeToString())) == value


@given(st.text())
def test_unstorable_characters_are_replaced(text: str) -> None:
    clean = record_values.replace_unstorable(text + "\0\ud800")

    assert "\0" not in clean
    assert clean.encode()


def nested(count: int) -> Any:
    value: Any = 0
    for _ in range(count):
        value = {"a": [value]}
    return value


@over(("value", "levels"), [(0, 0), ([], 1), ({"a": 1}, 1), ([1, [2, [3]]], 3), (nested(50), 11)])
def test_json_depth_is_counted_up_to_a_maximum(value: Any, levels: int) -> None:
    assert record_values.json_depth(value, max_depth=10) == levels


def test_an_object_of_maximum_depth_can_be_stored() -> None:
    record_values.struct({"a": nested(11)}, "metadata")
    with pytest.raises(RequestError, match="nested"):
        record_values.struct({"a": nested(12)}, "metadata")


@over(
    ("value", "name"),
    [
        ("fact", "fact"),
        (" User-Preference ", "user_preference"),
        ("Web Data", "web_data"),
        (None, "note"),
        ("", "note"),
    ],
)
def test_a_type_is_a_name(value: object, name: str) -> None:
    assert record_values.type_name(value) == name


@over("value", ["!", "1st", "x" * 65, 5, [], "お茶"])
def test_an_invalid_name_is_no_type(value: object) -> None:
    with pytest.raises(RequestError):
        record_values.type_name(value)


@over("value", ["HIGH", "MEDIUM", "LOW"])
def test_a_priority_comes_back_as_it_was(value: str) -> None:
    assert (
        record_values.to_priority(record_values.parse_importance(value))
        == record_values.to_priority(record_values.parse_importance(value.lower()))
        == value
    )


def test_priorities_of_operations_are_understood() -> None:
    assert (
        record_values.parse_importance("normal")
        == record_values.parse_importance("MEDIUM")
        == record_values.parse_importance(None)
    )


def test_a_repeated_message_gets_the_same_memory_ids() -> None:
    message = {"content": "a", "request_id": "r"}

    assert records.new_id(message) == records.new_id({**message, "timestamp": "later"})
    assert records.new_id(message) != records.new_id(message, 1)
    assert records.new_id(message) != records.new_id({**message, "content": "b"})
    assert records.new_id({"content": "a"}) != records.new_id({"content": "a"})
    assert len(records.new_id({})) == len("mem_") + 16


@given(st.text(max_size=50), st.text(max_size=200))
def test_matching_never_raises(pattern: str, text: str) -> None:
    error_patterns.first_match([(pattern, "s")], text, deadline=time.monotonic() + 1)


@given(st.text(min_size=1, max_size=50))
def test_an_accepted_pattern_is_stored_unchanged(pattern: str) -> None:
    try:
        memory = error_patterns.pattern_memory("t", pattern, "s")
    except RequestError:
        return

    assert error_patterns.pattern_of(memory) == (pattern, "s")
    assert error_patterns.pattern_of(memory, "other") is None


@over("pattern", [r"(a+)+$", r"(a|a)*b", r"(.*)*x", r"(\w+\s?)*$", r"^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_catastrophic_patterns_are_matched_in_linear_time(pattern: str) -> None:
    started = time.monotonic()
    error_patterns.first_match(
        [(pattern, "s")] * 20, "a" * error_patterns.MAX_MESSAGE_CHARACTERS + "!", deadline=started + 60
    )

    # Where they explode, the first of them takes longer than the age of the universe.
    assert time.monotonic() - started < 60


def test_matching_stops_at_its_deadline() -> None:
    assert error_patterns.first_match([("a", "s")], "a", deadline=time.monotonic() - 1) is None


def test_a_solution_without_a_pattern_is_none() -> None:
    for data in ({}, {"pattern": "a"}, {"pattern": 5, "solution": "s"}, {"pattern": "a", "solution": ""}):
        memory = error_patterns.pattern_memory("t", "a", "s")
        memory.data.Clear()
        memory.data.update(json.loads(json.dumps(data)))

        assert error_patterns.pattern_of(memory) is None
