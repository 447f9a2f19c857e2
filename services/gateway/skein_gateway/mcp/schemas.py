"""What a model writes and reads: JSON under the protos' own names, with whole numbers as numbers, and schemas of it."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from skein_gateway.json_schema import constraints
from skein_gateway.json_schema.schemas import LOCAL, Schema, Schemas
from skein_gateway.mcp.json_input import short
from skein_kit.json_values import exact
from skein_kit.json_values import fields as json_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from buf.validate.validate_pb2 import FieldRules
    from google.protobuf.descriptor import Descriptor, EnumDescriptor
    from google.protobuf.message import Message

# Written by protobuf's own rules: times, free JSON and the like.
_WELL_KNOWN = "google.protobuf."
_LONGS = frozenset(
    {
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    }
)
_KINDS = {
    **dict.fromkeys(_LONGS, "integer"),
    FieldDescriptor.TYPE_INT32: "integer",
    FieldDescriptor.TYPE_UINT32: "integer",
    FieldDescriptor.TYPE_FLOAT: "number",
    FieldDescriptor.TYPE_DOUBLE: "number",
    FieldDescriptor.TYPE_BOOL: "boolean",
}
# Who reads an answer to act on it needs no hash of it.
OMITTED_FIELDS = frozenset({"content_hash", "created_by", "updated_by", "formula", "version", "dense_path", "model"})


class InputSchemas(Schemas):
    """Schemas of what a model writes."""

    def message(self, descriptor: Descriptor) -> Schema:
        """Return the schema of a message, with the protos' names."""
        if descriptor.full_name.startswith(_WELL_KNOWN):
            return super().message(descriptor)
        return {**self.some(descriptor, [field.name for field in descriptor.fields if not json_fields.is_text(field)])}

    def some(self, descriptor: Descriptor, names: Collection[str]) -> Schema:
        """Return the schema of a message of which only these fields are told."""
        fields = [field for field in descriptor.fields if field.name in names]
        found: Schema = {
            "type": "object",
            "properties": {field.name: self.field(field) for field in fields},
            "additionalProperties": False,
        }
        needed = [field.name for field in fields if constraints.is_required(field, constraints.rules_of(field))]
        return {**found, "required": needed} if needed else found

    def enum(self, enum: EnumDescriptor) -> Schema:
        """Return the names that say something."""
        return self._names(enum, [value.number for value in enum.values if value.number])

    def _names(self, enum: EnumDescriptor, numbers: Iterable[int]) -> Schema:
        found = super()._names(enum, numbers)
        said = found.get("description", "")
        for name in sorted(found["enum"], key=len, reverse=True):
            said = said.replace(f"- {name}:", f"- {short(enum, name)}:")
        names = {"enum": [short(enum, name) for name in found["enum"]]}
        return found | names | ({"description": said} if said else {})

    def _one(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if field.type in _LONGS:
            return {"type": "integer", "minimum": 0}
        found = super()._one(field, rules)
        if found.get("type") in {"integer", "number"}:
            found.pop("format", None)
        return found


class OutputSchemas:
    """Schemas of what a model reads: no more than which fields there may be."""

    def __init__(self, omit: Collection[str]) -> None:
        """Leave fields of these names out."""
        self.defs: dict[str, Schema] = {}
        self._omit = omit

    def schema(self, descriptor: Descriptor) -> Schema:
        """Return a schema of one message that stands by itself."""
        found = self._message(descriptor)
        return {**found, "$defs": dict(sorted(self.defs.items()))} if self.defs else found

    def _message(self, descriptor: Descriptor) -> Schema:
        fields = [
            field for field in descriptor.fields if field.name not in self._omit and not json_fields.is_text(field)
        ]
        return {"type": "object", "properties": {field.name: self._field(field) for field in fields}}

    def _field(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return {"type": "object", "additionalProperties": self._one(field.message_type.fields_by_name["value"])}
        one = self._one(field)
        return {"type": "array", "items": one} if field.is_repeated else one

    def _one(self, field: FieldDescriptor) -> Schema:
        kind = field.message_type
        if kind is None:
            return {"type": _KINDS.get(field.type, "string")}
        if kind.full_name.startswith(_WELL_KNOWN):
            return Schemas(said={}).message(kind)
        if kind.full_name not in self.defs:
            # Named before it is made: a message may hold itself.
            self.defs[kind.full_name] = {}
            self.defs[kind.full_name] = self._message(kind)
        return {"$ref": f"{LOCAL}{kind.full_name}"}


def to_json_value(message: Message, omit: Collection[str] = ()) -> Any:
    """Return a message as a model reads it. What is not set, or zero, is left out."""
    if message.DESCRIPTOR.full_name.startswith(_WELL_KNOWN):
        return json_format.MessageToDict(message)
    found: dict[str, Any] = {}
    free = json_fields.json_field_names(message.DESCRIPTOR)
    for field, value in message.ListFields():
        if field.name in omit or json_fields.is_text(field):
            continue
        if field.name in free:
            found[field.name] = _with_floats(json_fields.value_of(message, field.name))
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _value(of, each, omit) for key, each in value.items()}
        elif field.is_repeated:
            found[field.name] = [_value(field, each, omit) for each in value]
        else:
            found[field.name] = _value(field, value, omit)
    return found


def _with_floats(value: Any) -> Any:
    """Return free JSON with floats for the fractions that have all their digits so."""
    if isinstance(value, dict):
        return {name: _with_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_floats(inner) for inner in value]
    return float(value) if isinstance(value, Decimal) and exact.is_double(value) else value


def _value(field: FieldDescriptor, value: Any, omit: Collection[str]) -> Any:
    if field.message_type is not None:
        return to_json_value(value, omit)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else short(field.enum_type, named.name)
    return round(value, 6) if isinstance(value, float) else value
