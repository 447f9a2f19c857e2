"""JSON for models and its schemas: the protos' field names, integers as numbers, short enum names.

Schemas have only keywords that OpenAI's strict mode and Gemini both read. The server checks every limit itself.
https://platform.openai.com/docs/guides/structured-outputs https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import Any

from buf.validate.validate_pb2 import FieldRules
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from skein_gateway.json_schema import constraints
from skein_gateway.json_schema.schemas import LOCAL, Schema, Schemas
from skein_gateway.mcp.json_input import short_name
from skein_kit.json_values import exact
from skein_kit.json_values import fields as json_fields

# Timestamps, Structs and the like keep protobuf's JSON.
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
# Keywords that OpenAI's strict mode and Gemini both read; clients for them refuse a tool that has any other.
COMMON_KEYWORDS = frozenset(
    {
        *("type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum"),
        *("format", "minItems", "maxItems", "minimum", "maximum", "$ref", "$defs"),
    }
)
# The only format of texts that Gemini reads.
TIME_FORMAT = "date-time"
# Any JSON: strict mode wants a type for each value.
_SCALARS: tuple[Schema, ...] = tuple({"type": kind} for kind in ("string", "number", "boolean", "object"))
_ANY: Schema = {"anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": [*_SCALARS]}}]}
# Fields that a model does not need.
OMITTED_FIELDS = frozenset(
    {"content_hash", "created_by", "updated_by", "formula", "version", "dense_path", "model", "tombstones"}
)
# The authors beside a name that a message claims for its speaker.
_AUTHORS = frozenset({"skein.session.v1.Message.created_by", "skein.session.v1.Message.updated_by"})


def with_common_keywords(schema: Schema, defs: Mapping[str, Schema] | None = None) -> Schema:
    """Return a schema with the common keywords alone. Lengths, patterns and most formats go.

    With `defs`, for arguments, what it refers to stands in place, and each value has a type.
    """
    if defs is not None and "$ref" in schema:
        target = defs[schema["$ref"].removeprefix(LOCAL)]
        return with_common_keywords({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, defs)
    kept = {name: value for name, value in schema.items() if name in COMMON_KEYWORDS - {"anyOf"}}
    if kept.get("format") != TIME_FORMAT:
        kept.pop("format", None)
    if kept.get("additionalProperties") is not False:
        kept.pop("additionalProperties", None)
    if "exclusiveMinimum" in schema:
        kept["minimum"] = schema["exclusiveMinimum"]
    if defs is not None and "type" not in kept:
        kept |= _ANY
    for name in ("properties", "$defs"):
        if name in kept:
            kept[name] = {key: with_common_keywords(value, defs) for key, value in kept[name].items()}
    if "items" in kept:
        kept["items"] = with_common_keywords(kept["items"], defs)
    return kept


class InputSchemas(Schemas):
    """Schemas of tool arguments."""

    def message(self, descriptor: Descriptor) -> Schema:
        """Return the schema of a message, with the protos' names."""
        if descriptor.full_name.startswith(_WELL_KNOWN):
            return super().message(descriptor)
        return {
            **self.partial(descriptor, [field.name for field in descriptor.fields if not json_fields.is_text(field)])
        }

    def partial(self, descriptor: Descriptor, names: Collection[str]) -> Schema:
        """Return the schema of a message with only these fields."""
        fields = [field for field in descriptor.fields if field.name in names]
        schema: Schema = {
            "type": "object",
            "properties": {field.name: self.field(field) for field in fields},
            "additionalProperties": False,
        }
        required = [field.name for field in fields if constraints.is_required(field, constraints.rules_of(field))]
        return {**schema, "required": required} if required else schema

    def enum(self, enum: EnumDescriptor) -> Schema:
        """Return the schema of an enum without its zero value."""
        return self._enum_schema(enum, [value.number for value in enum.values if value.number])

    def _enum_schema(self, enum: EnumDescriptor, numbers: Iterable[int]) -> Schema:
        schema = super()._enum_schema(enum, numbers)
        description = schema.get("description", "")
        for name in sorted(schema["enum"], key=len, reverse=True):
            description = description.replace(f"- {name}:", f"- {short_name(enum, name)}:")
        names = {"enum": [short_name(enum, name) for name in schema["enum"]]}
        return schema | names | ({"description": description} if description else {})

    def _value_schema(self, field: FieldDescriptor, rules: FieldRules) -> Schema:
        if field.type in _LONGS:
            return {"type": "integer", "minimum": 0}
        schema = super()._value_schema(field, rules)
        if schema.get("type") in {"integer", "number"}:
            schema.pop("format", None)
        return schema


class OutputSchemas:
    """Schemas of tool results: only which fields may exist."""

    def __init__(self, omit: Collection[str]) -> None:
        """Omit fields of these names."""
        self.defs: dict[str, Schema] = {}
        self._omit = omit

    def schema(self, descriptor: Descriptor) -> Schema:
        """Return the schema of a message with everything that it refers to in its `$defs`."""
        schema = self._message(descriptor)
        return {**schema, "$defs": dict(sorted(self.defs.items()))} if self.defs else schema

    def _message(self, descriptor: Descriptor) -> Schema:
        fields = [
            field
            for field in descriptor.fields
            if not _is_omitted(field, self._omit) and not json_fields.is_text(field)
        ]
        return {"type": "object", "properties": {field.name: self._field(field) for field in fields}}

    def _field(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return {
                "type": "object",
                "additionalProperties": self._value_schema(field.message_type.fields_by_name["value"]),
            }
        value_schema = self._value_schema(field)
        return {"type": "array", "items": value_schema} if field.is_repeated else value_schema

    def _value_schema(self, field: FieldDescriptor) -> Schema:
        kind = field.message_type
        if kind is None:
            return {"type": _KINDS.get(field.type, "string")}
        if kind.full_name.startswith(_WELL_KNOWN):
            return Schemas(descriptions={}).message(kind)
        if kind.full_name not in self.defs:
            # Reserve the name first: a message may contain itself.
            self.defs[kind.full_name] = {}
            self.defs[kind.full_name] = self._message(kind)
        return {"$ref": f"{LOCAL}{kind.full_name}"}


def to_json_value(message: Message, omit: Collection[str] = ()) -> Any:
    """Return a message as JSON for a model, without unset and zero fields and without those in `omit`."""
    if message.DESCRIPTOR.full_name.startswith(_WELL_KNOWN):
        return json_format.MessageToDict(message)
    schema: dict[str, Any] = {}
    free = json_fields.json_field_names(message.DESCRIPTOR)
    for field, value in message.ListFields():
        if _is_omitted(field, omit) or json_fields.is_text(field):
            continue
        if field.name in free:
            schema[field.name] = _with_floats(json_fields.value_of(message, field.name))
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            value_field = field.message_type.fields_by_name["value"]
            schema[field.name] = {str(key): _value(value_field, item, omit) for key, item in value.items()}
        elif field.is_repeated:
            schema[field.name] = [_value(field, item, omit) for item in value]
        else:
            schema[field.name] = _value(field, value, omit)
    return schema


def _is_omitted(field: FieldDescriptor, omit: Collection[str]) -> bool:
    return field.name in omit and field.full_name not in _AUTHORS


def _with_floats(value: Any) -> Any:
    """Return free JSON with decimals as floats where no digit is lost."""
    if isinstance(value, dict):
        return {name: _with_floats(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) and exact.is_double(value) else value


def _value(field: FieldDescriptor, value: Any, omit: Collection[str]) -> Any:
    if field.message_type is not None:
        return to_json_value(value, omit)
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return value if enum_value is None else short_name(field.enum_type, enum_value.name)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return round(value, 6) if isinstance(value, float) else value
