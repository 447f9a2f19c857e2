"""Fields that clients of port 5596 send and read again, and the decay manager's changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein_pc2.reasoning.actions import decay
from skein_pc2.reasoning.records import convert as records

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
# Keys with a memory field are read into it, and rejected when they have another type.
names = st.text().filter(lambda name: name not in {*records.MEMORY_KEYS, *records.COMPUTED_FIELDS, "content", "text"})


def store_and_read(values: dict[str, Any]) -> pb.Memory:
    """Return the memory of sent values, as the service returns it."""
    memory = records.parse_memory(values, external_id="mem_1", importance=0.5)
    memory.create_time.FromDatetime(AT)
    records.store_sent_fields(memory, values)
    memory.content = memory.content.strip()
    return pb.Memory.FromString(memory.SerializeToString())


@pytest.mark.system
@given(st.dictionaries(names, json_values, max_size=5))
def test_sent_fields_are_returned_unchanged(more: dict[str, Any]) -> None:
    values = {"content": " text\n", "type": "Web-Data", "title": None, "tags": ["b", "a"], "source": "", **more}

    record = records.to_record(store_and_read(values), AT)

    assert {name: record[name] for name in values} == values


def test_changes_of_a_typed_client_take_precedence_over_sent_fields() -> None:
    memory = store_and_read({"content": " text ", "type": "Web-Data", "title": None, "tags": ["b", "a"], "mine": 1})
    memory.content, memory.type, memory.title = "other", "fact", "Title"
    memory.tags[:] = ["c"]

    record = records.to_record(memory, AT)

    assert (record["content"], record["type"], record["title"]) == ("other", "fact", "Title")
    assert (record["tags"], record["mine"]) == (["c"], 1)


def test_times_are_epoch_floats() -> None:
    record = records.to_record(store_and_read({"content": "a"}), AT)

    assert record["created_at"] == AT.timestamp()
    assert isinstance(record["last_accessed"], float)


@pytest.mark.system
@given(st.dictionaries(names, json_values, max_size=5), st.floats(0, 1))
def test_changes_of_the_decay_manager_are_returned(more: dict[str, Any], freshness: float) -> None:
    memory = store_and_read({"content": "text"})
    message = session_pb2.Message(message_id="m1", session_id="s", content="said")
    message.create_time.FromDatetime(AT)
    more = {name: value for name, value in more.items() if name not in {"id", "memory_id", "message_id", "priority"}}
    changed_fields = {"freshness_score": freshness, "type": "long_term", **more}

    item = {**decay.memory_item(memory, AT), **changed_fields}
    changed_item = {**decay.message_item(message, AT), **changed_fields, "content": "in short"}
    decay.change_memory(memory, item, AT)
    decay.change_message(message, changed_item, AT)

    assert decay.memory_item(memory, AT) == item
    assert decay.message_item(message, AT) == changed_item
    assert not decay.change_memory(memory, item, AT)
    assert not decay.change_message(message, changed_item, AT)
    assert (memory.type, message.content) == ("note", "said")


def test_a_changed_content_changes_the_memory() -> None:
    memory = store_and_read({"content": "text"})
    item = {**decay.memory_item(memory, AT), "content": "in short", "type": "preference"}

    paths = decay.change_memory(memory, item, AT)

    assert (memory.content, memory.type) == ("in short", "preference")
    assert {"content", "type"} <= set(paths)


@over("timestamp", ["yesterday", "", None, 5, "1900-01-01T00:00:00", "0001-01-01T00:00:00"])
def test_a_new_memory_may_have_any_time(timestamp: Any) -> None:
    item = {"content": "c", "type": "medium_term", "timestamp": timestamp}

    memory = decay.new_memory(item, external_id="mem_1", at=AT)

    assert not memory.HasField("create_time")
    assert decay.memory_item(memory, AT)["timestamp"] == timestamp


def test_a_new_memory_is_never_created_in_the_future() -> None:
    item = {"content": "c", "type": "medium_term", "timestamp": "2126-01-01T00:00:00"}

    assert decay.new_memory(item, external_id="m", at=AT).create_time.ToDatetime(tzinfo=UTC) == AT
