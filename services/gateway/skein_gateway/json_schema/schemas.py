"""Messages of the contract as JSON Schema (2020-12): protobuf's JSON mapping with protovalidate's limits.

Names are in lowerCamelCase, 64-bit integers are strings, numbers are finite; a field at its zero value is one that is
left out. What the protos say in comments is in the descriptions.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from buf.validate import validate_pb2
from google.protobuf.descriptor import FieldDescriptor

from skein_gateway.json_schema import constraints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from buf.validate.validate_pb2 import FieldRules
    from google.protobuf.descriptor import Descriptor, EnumDescriptor
    from google.protobuf.message import Message

Schema = dict[str, Any]
LOCAL = "#/$defs/"

# The types of the stubs do not know what an extension is.
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
# Messages that JSON writes otherwise than as an object of their fields.
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
    """Return what the protos say, by the full name of what they say it of (a value's stands below its enum's)."""
    found: dict[str, str] = json.loads(resources.files("skein").joinpath("comments.json").read_text("utf-8"))
    return found


def descriptor_of(kind: type[Message]) -> Descriptor:
    """Return the descriptor of a message's class."""
    # The stubs' types allow that it has none yet.
    return cast("Descriptor", kind.DESCRIPTOR)


def schema(
    descriptor: Descriptor,
    *,
    refs: str = LOCAL,
    said: Mapping[str, str] | None = None,
    closed: bool = False,
    oneofs: bool = True,
) -> Schema:
    """Return a schema of one message that stands by itself: what it refers to is in its `$defs`.

    `said` are the descriptions instead of the protos' comments, {} for none. `closed` refuses fields that the message
    does not have, as the servers do. Without `oneofs` nothing says which fields exclude each other: some readers take
    no combinations of schemas.
    """
    schemas = Schemas(refs=refs, said=said, closed=closed, oneofs=oneofs)
    found = schemas.message(descriptor)
    return {**found, "$defs": dict(sorted(schemas.defs.items()))} if schemas.defs else found


class Schemas:
    """Schemas that refer to one another; `defs` has each message and enum that was referred to, by its full name."""

    def __init__(
        self,
        *,
        refs: str = LOCAL,
        said: Mapping[str, str] | None = None,
        closed: bool = False,
        oneofs: bool = True,
    ) -> None:
        """Refer to names below `refs`; the rest is as `schema` takes it."""
        self.defs: dict[str, Schema] = {}
        self._refs = refs
        self._said = comments() if said is None else said
        self._closed = closed
        self._oneofs = oneofs

    def reference(self, descriptor: Descriptor) -> Schema:
        """Return what stands for a message where it is used."""
        if descriptor.full_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[descriptor.full_name])
        return self._defined(descriptor.full_name, lambda: self.message(descriptor))

    def message(self, descriptor: Descriptor) -> Schema:
        """Return the schema of a message, in place."""
        if descriptor.full_name in _WELL_KNOWN:
            return dict(_WELL_KNOWN[descriptor.full_name])
        return self._message(descriptor, checked=True)

    def _message(self, descriptor: Descriptor, *, checked: bool) -> Schema:
        rules = descriptor.GetOptions().Extensions[_MESSAGE]
        broken = [f"Rule: {rule.message}." for rule in rules.cel if rule.message and checked]
        found: Schema = {"type": "object", **self._described(descriptor.full_name, broken)}
        fields = {field: constraints.rules_of(field) if checked else constraints.NONE for field in descriptor.fields}
        if fields:
            found["properties"] = {field.json_name: self._field(field, rules) for field, rules in fields.items()}
        needed = [field.json_name for field, rules in fields.items() if constraints.is_required(field, rules)]
        if needed:
            found["required"] = needed
        if self._closed:
            found["additionalProperties"] = False
        return found | (_exclusive(descriptor) if self._oneofs else {})

    def field(self, field: FieldDescriptor) -> Schema:
        """Return the schema of one field's value."""
        return self._field(field, constraints.rules_of(field))

    def _field(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            found = self._map(kind, rules)
        elif field.is_repeated:
            items = self._one(field, rules.repeated.items)
            found = {"type": "array", "items": items, **constraints.sizes(rules)}
        else:
            found = self._one(field, rules)
        if field.GetOptions().deprecated:
            found["deprecated"] = True
        own = found.pop("description", "")
        return {
            **found,
            **self._described(field.full_name, [*([own] if own else []), *constraints.constraint_sentences(rules)]),
        }

    def enum(self, enum: EnumDescriptor) -> Schema:
        """Return what stands for an enum where it is used."""
        return self._defined(enum.full_name, lambda: self._names(enum, [value.number for value in enum.values]))

    def _defined(self, name: str, make: Callable[[], Schema]) -> Schema:
        if name not in self.defs:
            # Named before it is made: a message may hold itself.
            self.defs[name] = {}
            self.defs[name] = make()
        return {"$ref": f"{self._refs}{name}"}

    def _map(self, entry: Descriptor, rules: FieldRules) -> Schema:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        found: Schema = {
            "type": "object",
            "additionalProperties": self._one(value, rules.map.values),
            **constraints.sizes(rules),
        }
        names = constraints.keywords(rules.map.keys) if key.type == FieldDescriptor.TYPE_STRING else {}
        return {**found, "propertyNames": names} if names else found

    def _one(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if field.message_type is not None:
            ignored = rules.ignore == validate_pb2.IGNORE_ALWAYS
            return self._message(field.message_type, checked=False) if ignored else self.reference(field.message_type)
        if field.enum_type is not None:
            numbers = [value.number for value in field.enum_type.values]
            allowed = constraints.enum_numbers(rules, numbers)
            return self.enum(field.enum_type) if allowed == numbers else self._names(field.enum_type, allowed)
        return {**_SCALARS[field.type], **constraints.keywords(rules)}

    def _names(self, enum: EnumDescriptor, numbers: Iterable[int]) -> Schema:
        names = [enum.values_by_number[number].name for number in numbers]
        said = [
            f"- {name}: {' '.join(self._said[f'{enum.full_name}.{name}'].split())}"
            for name in names
            if f"{enum.full_name}.{name}" in self._said
        ]
        return {"type": "string", "enum": names, **self._described(enum.full_name, said)}

    def _described(self, name: str, more: Iterable[str]) -> Schema:
        said = self._said.get(name, "")
        lines = [*([said] if said else []), *(more if self._said else ())]
        return {"description": "\n".join(lines)} if lines else {}


def _exclusive(descriptor: Descriptor) -> Schema:
    """Return the keywords that let at most one field of each oneof be there, or just one where one is needed."""
    found: list[Schema] = []
    for oneof in descriptor.oneofs:
        names = [field.json_name for field in oneof.fields]
        # What proto3 calls optional is a oneof of its own.
        if len(names) == 1:
            continue
        given: list[Schema] = [{"required": [name]} for name in names]
        needed = oneof.GetOptions().Extensions[_ONEOF].required
        found.append({"oneOf": given if needed else [*given, {"not": {"anyOf": given}}]})
    if not found:
        return {}
    return found[0] if len(found) == 1 else {"allOf": found}
