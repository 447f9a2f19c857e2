from __future__ import annotations

from skein.memory.v1 import memory_pb2
from skein_importers.comparison import Comparison, differing_fields
from skein_importers.records import Kind, Record
from skein_importers.sources.base import CountWithSamples


def memory(**fields: object) -> memory_pb2.Memory:
    return memory_pb2.Memory(**fields)  # type: ignore[arg-type]  # As the tests give them.


def test_fields_that_the_source_leaves_open_may_have_any_value() -> None:
    assert differing_fields(memory(content="tea"), memory(content="tea", type="note", importance=0.5), ()) == []


def test_a_value_stored_in_another_form_is_the_same() -> None:
    expected = memory(content=" tea ", tags=["b", "a"], importance=0.1)
    expected.create_time.FromNanoseconds(1_772_435_520_123_456_789)
    expected.data.update({"a": [1, {"b": None}], "c": 2})
    result = memory(content="tea", tags=["a", "b"], importance=0.1 + 1e-9)
    result.create_time.FromNanoseconds(1_772_435_520_123_456_000)
    result.data.update({"c": 2.0, "a": [1, {"b": None}]})

    assert differing_fields(expected, result, ()) == []


def test_every_field_that_differs_is_named() -> None:
    expected = memory(content="tea", tags=["a"], importance=0.1, type="fact", session_id="s")
    expected.data.update({"a": 1})
    expected.create_time.FromSeconds(1)
    result = memory(content="coffee", tags=["a", "b"], importance=0.2, type="note", session_id="t")
    result.data.update({"a": 2})

    assert set(differing_fields(expected, result, {"session_id"})) == {
        "content", "tags", "importance", "type", "data", "create_time",
    }  # fmt: skip


def test_fields_that_each_cluster_sets_itself_are_not_compared() -> None:
    expected = memory(content="tea", created_by="ann", updated_by="ann", revision=3)
    expected.record_time.FromSeconds(1)

    assert differing_fields(expected, memory(content="tea", created_by="bob", revision=1), ()) == []


def test_missing_and_different_records_both_count_as_differences() -> None:
    comparison = Comparison()
    comparison.in_source["memory"] = 4

    comparison.add_missing(Record(where="line 1", kind=Kind.MEMORY, item=memory(external_id="a")))
    comparison.add_missing(Record(where="line 2", kind=Kind.MEMORY, item=memory(external_id="b")))
    comparison.different["memory", "content"] = CountWithSamples(count=1)

    assert (comparison.differences, comparison.share) == (3, 0.75)
