"""JSON text whose numbers stay as they are written."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf.struct_pb2 import Struct
from hypothesis import example, given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.json_values import exact, fields, number_marks, structs

NUMBERS = (
    st.integers(min_value=-(10**300), max_value=10**300)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr).map(Decimal)
    | st.decimals(min_value=-(10**9), max_value=10**9, places=30)
)
VALUES = st.recursive(
    NUMBERS | st.text(st.characters(exclude_categories=["Cs"])) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.system
@given(OBJECTS)
def test_a_written_value_is_read_equal(value: dict[str, Any]) -> None:
    assert exact.parse(exact.serialize(value)) == value
    assert exact.loads(exact.canonical(value)) == value


@pytest.mark.system
@given(OBJECTS)
def test_a_struct_agrees_with_the_text_that_it_is_rounded_from(value: dict[str, Any]) -> None:
    memory = pb.Memory()

    fields.set_value(memory, "data", value)
    fields.complete_json_fields(memory)

    assert fields.value_of(memory, "data") == value


@given(OBJECTS)
@example({"a": 2**53 + 1, "b": Decimal(19287566101054270)})
def test_marked_numbers_survive_a_struct(value: dict[str, Any]) -> None:
    memory = pb.Memory()
    memory.data.update(number_marks.mark_numbers(value))

    number_marks.unmark_message(memory)

    if memory.data_json:
        assert exact.loads(memory.data_json) == value
    else:
        assert structs.equal_as_doubles(memory.data, value)


@given(OBJECTS)
def test_json_goes_through_a_message_and_back(value: dict[str, Any]) -> None:
    memory = pb.Memory()

    fields.from_values({"content": "x", "data": value, "confidence": Decimal("0.5")}, memory)
    result = fields.to_values(memory, with_texts=False)

    assert result == {"content": "x", "data": value, "confidence": 0.5}


def test_true_is_not_one() -> None:
    assert not exact.equal_json('{"a": true}', '{"a": 1}')
    assert exact.equal_json('{"a": 1.0, "b": 2}', '{"b": 2, "a": 1}')


def test_spaces_do_not_count_towards_the_size_of_a_text() -> None:
    text = '{"a":"' + "x" * (exact.MAX_JSON_BYTES - 8) + '"}'

    assert exact.parse(text.replace(":", ":" + " " * 1000)) == exact.parse(text)
    with pytest.raises(exact.InvalidJson):
        exact.parse(text.replace("x", "xx", 1))


@over(
    ("number", "spelled"),
    [
        ("1e300", "1E+300"),
        ("1" + "0" * 300, "1E+300"),
        ("1e30", "1" + "0" * 30),
        ("-0.0", "0.0"),
        ("1.10", "1.10"),
        ("2e-7", "0.0000002"),
    ],
)
def test_a_number_has_one_spelling_in_replies(number: str, spelled: str) -> None:
    """The database writes numbers in a form of its own; a reply that repeats a request has the same."""
    assert exact.canonical(exact.loads(f"[{number}]")) == f"[{spelled}]"


def test_an_empty_object_is_set() -> None:
    memory = pb.Memory(data_json="{}")

    fields.complete_json_fields(memory)

    assert memory.HasField("data")


def test_a_place_in_a_list_is_named() -> None:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(), pb.Memory(metadata_json="[]")])

    with pytest.raises(FieldInvalid) as caught:
        fields.complete_json_fields(request)

    assert caught.value.violations == (("memories[1].metadata_json", "is not the JSON of an object"),)


def test_a_truth_value_beside_a_number_is_a_disagreement() -> None:
    struct = Struct()
    struct.update({"a": True})

    with pytest.raises(FieldInvalid):
        fields.complete_json_fields(pb.Memory(data=struct, data_json='{"a":1}'))


@over("number", ["1e-9999999999", "1e9999999999", "0e9999999999999999999999", "1e99999", "-1E-99999"])
@over("read", [exact.loads, exact.loads_mixed])
def test_a_number_with_an_extreme_exponent_is_refused_before_it_is_written_out(read: Any, number: str) -> None:
    value = read(f'{{"n": {number}}}')

    with pytest.raises(exact.InvalidJson):
        exact.serialize(value)
    with suppress(ValueError):
        assert len(exact.dumps(exact.to_decimals(value))) < 100


@over("read", [exact.loads, exact.loads_mixed, exact.parse])
def test_json_has_no_infinities_and_no_nan(read: Any) -> None:
    for constant in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(exact.InvalidJson):
            read(f'{{"n": {constant}}}')


@over("number", ["1e-00000001", "1E+000000002", "1e0", "25e00"])
def test_leading_zeros_of_an_exponent_say_nothing(number: str) -> None:
    (value,) = exact.parse(f"[{number}]")

    assert value == Decimal(number)


@over("empty", [None, ""])
def test_a_text_that_is_null_or_empty_says_nothing(empty: str | None) -> None:
    values = {"content": "x", "dataJson": empty, "data": {"n": 9007199254740993}}
    message = pb.Memory()

    fields.from_values(values, message)

    assert exact.loads(message.data_json) == {"n": 9007199254740993}
