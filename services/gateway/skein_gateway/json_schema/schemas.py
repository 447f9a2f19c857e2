"""Messages of the contract as JSON Schema (2020-12): protobuf's JSON mapping with protovalidate's limits.

Names are in lowerCamelCase, 64-bit integers are strings, numbers are finite, and zero values are left out. Comments of
the protos become descriptions.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from typing import Any, cast

from buf.validate import validate_pb2
from buf.validate.validate_pb2 import FieldRules
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from skein_gateway.json_schema import constraints

Schema = dict[str, Any]
LOCAL = "#/$defs/"

# The type stubs do not know extensions.
_MESSAGE: Any = validate_pb2.message
_ONEOF: Any = validate_pb2.oneof

_WHOLE: Schema = {"type": "integer", "format": "int32"}
_COUNT: Schema = {"type": "integer", "format": "int64", "minimum": 0}
_LONG: Schema = {"type": "string", "format": "int64", "pattern": "^-?[0-9]{1,20}$"}
_LONG_COUNT: Schema = {"type": "string", "format": "uint64", "pattern": "^[0-9]{1,20}$"}
_SCALARS: Mapping[int, Schema] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_INT32: _WHOLE,
    FieldDescriptor.TYPE_SINT32: _WHOLE,
    FieldDescriptor.TYPE_SFIXED32: _WHOLE,
    FieldDescriptor.TYPE_UINT32: _COUNT,
    FieldDescriptor.TYPE_FIXED32: _COUNT,
    FieldDescriptor.TYPE_INT64: _LONG,
    FieldDescriptor.TYPE_SINT64: _LONG,
    FieldDescriptor.TYPE_SFIXED64: _LONG,
    FieldDescriptor.TYPE_UINT64: _LONG_COUNT,
    FieldDescriptor.TYPE_FIXED64: _LONG_COUNT,
}
# Messages whose JSON is not an object of their fields.
_WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$",
        "description": 'Seconds, as "3.5s".',
    },
    "google.protobuf.FieldMask": {"type": "string", "description": 'Names of fields, as "title,validFromTime".'},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Empty": {"type": "object"},
    "google.protobuf.Any": {"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]},
    "google.protobuf.BoolValue": {"type": ["boolean", "null"]},
    "google.protobuf.StringValue": {"type": ["string", "null"]},
    "google.protobuf.BytesValue": {"type": ["string", "null"], "contentEncoding": "base64"},
    "google.protobuf.FloatValue": {"type": ["number", "null"]},
    "google.protobuf.DoubleValue": {"type": ["number", "null"]},
    "google.protobuf.Int32Value": {"type": ["integer", "null"]},
    "google.protobuf.UInt32Value": {"type": ["integer", "null"], "minimum": 0},
    "google.protobuf.Int64Value": {**_LONG, "type": ["string", "null"]},
    "google.protobuf.UInt64Value": {**_LONG_COUNT, "type": ["string", "null"]},
}


@functools.cache
def comments() -> Mapping[str, str]:
    """Return the comments of the protos by full name; those of enum values below the name of their enum."""
    schema_part: dict[str, str] = json.loads(resources.files("skein").joinpath("comments.json").read_text("utf-8"))
    return schema_part


def descriptor_of(kind: type[Message]) -> Descriptor:
    """Return the descriptor of a message's class."""
    # The type stubs allow None here.
    return cast("Descriptor", kind.DESCRIPTOR)


def schema(
    descriptor: Descriptor,
    *,
    refs: str = LOCAL,
    descriptions: Mapping[str, str] | None = None,
    closed: bool = False,
    oneofs: bool = True,
) -> Schema:
    """Return the schema of a message with everything that it refers to in its `$defs`.

    `descriptions` replace the protos' comments; {} for none. `closed` refuses unknown fields, as the servers do.
    `oneofs=False` leaves out which fields exclude each other, for readers that do not support combined schemas.
    """
    schemas = Schemas(refs=refs, descriptions=descriptions, closed=closed, oneofs=oneofs)
    schema_part = schemas.message(descriptor)
    return {**schema_part, "$defs": dict(sorted(schemas.defs.items()))} if schemas.defs else schema_part


class Schemas:
    """Schemas that refer to one another. `defs` holds each referenced message and enum by its full name."""

    def __init__(
        self,
        *,
        refs: str = LOCAL,
        descriptions: Mapping[str, str] | None = None,
        closed: bool = False,
        oneofs: bool = True,
    ) -> None:
        """Prefix references with `refs`; the other options are those of `schema`."""
        self.defs: dict[str, Schema] = {}
        self._refs = refs
        self._texts = comments() if descriptions is None else descriptions
        self._closed = closed
        self._oneofs = oneofs

    def reference(self, descriptor: Descriptor) -> Schema:
        """Return the reference to a message, or the schema of a well-known type."""
        if descriptor.full_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[descriptor.full_name])
        return self._define(descriptor.full_name, lambda: self.message(descriptor))

    def message(self, descriptor: Descriptor) -> Schema:
        """Return the schema of a message inline."""
        if descriptor.full_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[descriptor.full_name])
        return self._message(descriptor, checked=True)

    def _message(self, descriptor: Descriptor, *, checked: bool) -> Schema:
        rules = descriptor.GetOptions().Extensions[_MESSAGE]
        rules_text = [f"Rule: {rule.message}." for rule in rules.cel if rule.message and checked]
        schema_part: Schema = {"type": "object", **self._description(descriptor.full_name, rules_text)}
        fields = {field: constraints.rules_of(field) if checked else constraints.NONE for field in descriptor.fields}
        if fields:
            schema_part["properties"] = {field.json_name: self._field(field, rules) for field, rules in fields.items()}
        required = [field.json_name for field, rules in fields.items() if constraints.is_required(field, rules)]
        if required:
            schema_part["required"] = required
        if self._closed:
            schema_part["additionalProperties"] = False
        return schema_part | (_exclusive(descriptor) if self._oneofs else {})

    def field(self, field: FieldDescriptor) -> Schema:
        """Return the schema of one field's value."""
        return self._field(field, constraints.rules_of(field))

    def _field(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            schema_part = self._map(kind, rules)
        elif field.is_repeated:
            items = self._value_schema(field, rules.repeated.items)
            schema_part = {"type": "array", "items": items, **constraints.sizes(rules)}
        else:
            schema_part = self._value_schema(field, rules)
        if field.GetOptions().deprecated:
            schema_part["deprecated"] = True
        description = schema_part.pop("description", "")
        sentences = [*([description] if description else []), *constraints.constraint_sentences(rules)]
        return {**schema_part, **self._description(field.full_name, sentences)}

    def enum(self, enum: EnumDescriptor) -> Schema:
        """Return the reference to an enum."""
        return self._define(enum.full_name, lambda: self._enum_schema(enum, [value.number for value in enum.values]))

    def _define(self, name: str, make: Callable[[], Schema]) -> Schema:
        if name not in self.defs:
            # Reserve the name first: a message may contain itself.
            self.defs[name] = {}
            self.defs[name] = make()
        return {"$ref": f"{self._refs}{name}"}

    def _map(self, entry: Descriptor, rules: FieldRules) -> Schema:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        schema_part: Schema = {
            "type": "object",
            "additionalProperties": self._value_schema(value, rules.map.values),
            **constraints.sizes(rules),
        }
        names = constraints.keywords(rules.map.keys) if key.type == FieldDescriptor.TYPE_STRING else {}
        return {**schema_part, "propertyNames": names} if names else schema_part

    def _value_schema(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if field.message_type is not None:
            ignored = rules.ignore == validate_pb2.IGNORE_ALWAYS
            return self._message(field.message_type, checked=False) if ignored else self.reference(field.message_type)
        if field.enum_type is not None:
            numbers = [value.number for value in field.enum_type.values]
            allowed = constraints.enum_numbers(rules, numbers)
            return self.enum(field.enum_type) if allowed == numbers else self._enum_schema(field.enum_type, allowed)
        return {**_SCALARS[field.type], **constraints.keywords(rules)}

    def _enum_schema(self, enum: EnumDescriptor, numbers: Iterable[int]) -> Schema:
        names = [enum.values_by_number[number].name for number in numbers]
        descriptions = [
            f"- {name}: {' '.join(self._texts[f'{enum.full_name}.{name}'].split())}"
            for name in names
            if f"{enum.full_name}.{name}" in self._texts
        ]
        return {"type": "string", "enum": names, **self._description(enum.full_name, descriptions)}

    def _description(self, name: str, more: Iterable[str]) -> Schema:
        descriptions = self._texts.get(name, "")
        lines = [*([descriptions] if descriptions else []), *(more if self._texts else ())]
        return {"description": "\n".join(lines)} if lines else {}


def _exclusive(descriptor: Descriptor) -> Schema:
    """Return the keywords that allow at most one field of each oneof, or exactly one if it is required."""
    schema_part: list[Schema] = []
    for oneof in descriptor.oneofs:
        names = [field.json_name for field in oneof.fields]
        # A proto3 optional field is a oneof with one field.
        if len(names) == 1:
            continue
        alternatives: list[Schema] = [{"required": [name]} for name in names]
        required = oneof.GetOptions().Extensions[_ONEOF].required
        schema_part.append({"oneOf": alternatives if required else [*alternatives, {"not": {"anyOf": alternatives}}]})
    if not schema_part:
        return {}
    return schema_part[0] if len(schema_part) == 1 else {"allOf": schema_part}
