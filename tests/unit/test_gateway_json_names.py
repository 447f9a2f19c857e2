"""JSON requests name enum values and masks in the ways that their writers know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_gateway.connect.codec import read_json
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.errors import FieldInvalid, UpdateMaskInvalid

DEEPEST = 4


def enum_places(kind: Descriptor, way: tuple[FieldDescriptor, ...] = ()) -> Iterator[tuple[FieldDescriptor, ...]]:
    """Yield the way to each enum field of a message; a way never passes a message twice."""
    for field in kind.fields:
        message = field.message_type
        if field.enum_type is not None:
            yield (*way, field)
        elif message is not None and not message.full_name.startswith("google.") and len(way) < DEEPEST:
            if message.GetOptions().map_entry or any(each.message_type is message for each in way):
                continue
            yield from enum_places(message, (*way, field))


def wrapped(way: tuple[FieldDescriptor, ...], value: str, *, by_json_name: bool) -> dict[str, Any]:
    wrapped_value: Any = value
    for field in reversed(way):
        wrapped_value = {
            field.json_name if by_json_name else field.name: [wrapped_value] if field.is_repeated else wrapped_value
        }
    return dict(wrapped_value)


@over("by_json_name", [True, False])
def test_every_enum_of_every_public_request_takes_short_names(*, by_json_name: bool) -> None:
    seen = 0
    for path, method in PUBLIC_METHODS.items():
        descriptor: Any = method.request.DESCRIPTOR
        for way in enum_places(descriptor):
            enum: Any = way[-1].enum_type
            prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
            for value in enum.values:
                short = wrapped(way, value.name.removeprefix(prefix).lower(), by_json_name=by_json_name)
                whole = wrapped(way, value.name, by_json_name=by_json_name)

                read = [read_json(json.dumps(body).encode(), method.request) for body in (short, whole)]

                assert read[0] == read[1], (path, way[-1].full_name, value.name)
                seen += 1
    assert seen > 100


def test_a_name_that_no_value_has_is_answered_with_those_that_exist() -> None:
    with pytest.raises(FieldInvalid) as refusal:
        read_json(b'{"memory": {"scope": "galaxy"}}', memory_pb2.CreateMemoryRequest)

    ((field, text),) = refusal.value.violations
    assert field == "memory.scope"
    assert all(name in text for name in ("SCOPE_GLOBAL", "SCOPE_AGENT", "SCOPE_USER", "SCOPE_SESSION"))
    assert field in refusal.value.message
    assert text in refusal.value.message


@over(
    "mask",
    [
        "displayName,profile",
        "display_name,profile",
        " display_name , profile ",
        ["displayName", "profile"],
        ["display_name", "profile"],
        {"paths": ["display_name", "profile"]},
    ],
)
def test_a_mask_takes_both_spellings_of_fields_in_every_form(mask: Any) -> None:
    body = json.dumps({"update_mask": mask}).encode()

    read: Any = read_json(body, tenancy_pb2.UpdateAgentRequest)

    assert list(read.update_mask.paths) == ["display_name", "profile"]


@over("mask", ["", [], None, {"paths": []}])
def test_an_empty_mask_stays_empty(mask: Any) -> None:
    read: Any = read_json(json.dumps({"updateMask": mask}).encode(), tenancy_pb2.UpdateAgentRequest)

    assert list(read.update_mask.paths) == []


@over("mask", [7, [7], {"path": "a"}, "a,,b", "a-b", ["a,b"]])
def test_a_mask_in_another_form_is_refused_with_its_name(mask: Any) -> None:
    with pytest.raises(UpdateMaskInvalid, match="update_mask"):
        read_json(json.dumps({"updateMask": mask}).encode(), tenancy_pb2.UpdateAgentRequest)


def test_every_field_that_masks_name_survives_both_spellings() -> None:
    for method in PUBLIC_METHODS.values():
        descriptor: Any = method.request.DESCRIPTOR
        if "update_mask" not in descriptor.fields_by_name:
            continue
        names = [each.name for field in descriptor.fields if field.message_type for each in field.message_type.fields]
        camel = [
            each.json_name for field in descriptor.fields if field.message_type for each in field.message_type.fields
        ]

        read: list[Any] = [
            read_json(json.dumps({"update_mask": paths}).encode(), method.request) for paths in (names, camel)
        ]

        assert list(read[0].update_mask.paths) == list(read[1].update_mask.paths) == names, descriptor.full_name


def test_free_json_keeps_texts_that_look_like_names() -> None:
    body = b'{"memory": {"content": "c", "metadata": {"scope": "global", "update_mask": "a_b"}}}'

    read: Any = read_json(body, memory_pb2.CreateMemoryRequest)

    assert MessageToDict(read.memory.metadata) == {"scope": "global", "update_mask": "a_b"}
