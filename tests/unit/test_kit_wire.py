from __future__ import annotations

import pytest
from fix_catalogue import over
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_kit.errors import FieldInvalid
from skein_kit.json_values.exact import MAX_JSON_BYTES
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import json_text

DEEPEST = 30


def memory_of(levels: int, *, of: str) -> memory_pb2.Memory:
    """Return a memory whose data has so many levels, the outermost object counted."""
    value = Value(string_value="x")
    for _ in range(levels - 1):
        value = Value(
            list_value=ListValue(values=[value]) if of == "lists" else None,
            struct_value=Struct(fields={"a": value}) if of == "objects" else None,
        )
    return memory_pb2.Memory(data=Struct(fields={"a": value}))


@over("of", ["lists", "objects"])
def test_stored_values_can_be_answered_however_deep_they_are_nested(of: str) -> None:
    """Protobuf reads 100 levels of messages, and an answer wraps an item in more of them than the request did."""
    text = json_text(memory_of(DEEPEST, of=of), "data")

    hit = recall_pb2.Hit(memory=memory_pb2.Memory(**fields(data=text)))
    answer = gateway_pb2.RecallResponse(hits=[hit])

    assert gateway_pb2.RecallResponse.FromString(answer.SerializeToString()) == answer


@over("of", ["lists", "objects"])
def test_a_value_that_could_not_be_answered_is_refused(of: str) -> None:
    with pytest.raises(FieldInvalid) as caught:
        json_text(memory_of(DEEPEST + 1, of=of), "data")

    assert caught.value.violations == (("data", "is nested more than 30 levels deep"),)


@over("letter", ["a", "ä", "家"])
def test_a_field_holds_a_quarter_of_a_mebibyte_of_json_and_not_a_byte_more(letter: str) -> None:
    room, size = MAX_JSON_BYTES - len('{"a":""}'), len(letter.encode())
    fitting = letter * (room // size) + "b" * (room % size)

    text = json_text(memory_of_text(fitting), "data")
    with pytest.raises(FieldInvalid) as caught:
        json_text(memory_of_text(fitting + "b"), "data")

    assert text is not None
    assert len(text.encode()) == MAX_JSON_BYTES
    assert caught.value.violations == (("data", "holds more than 256 KiB of JSON"),)


def memory_of_text(text: str) -> memory_pb2.Memory:
    return memory_pb2.Memory(data=Struct(fields={"a": Value(string_value=text)}))
