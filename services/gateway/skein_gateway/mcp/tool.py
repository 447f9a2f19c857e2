"""An MCP tool: one public RPC with a few arguments, each mapped to a field of the request."""

from __future__ import annotations

import copy
import enum
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from skein_gateway.connect import codec
from skein_gateway.json_schema import constraints
from skein_gateway.json_schema.schemas import Schema
from skein_gateway.mcp import text_output
from skein_gateway.mcp.exact_numbers import mark_numbers
from skein_gateway.mcp.json_input import is_left_out, to_contract_json
from skein_gateway.mcp.schemas import OMITTED_FIELDS, InputSchemas, OutputSchemas, to_json_value, with_common_keywords
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.errors import FieldInvalid
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.json_values import exact
from skein_kit.text.invisible import show_invisible

_MASK = "update_mask"
# Most characters of an unknown argument's name in an error.
_MAX_NAME = 100
# How protobuf's JSON parser says where an error is.
_PARSER_PREFIX = re.compile(r"(?:Failed to parse \w+ field: )+")
_PARSER_PLACE = re.compile(r" at \S*$")


class Effect(enum.Enum):
    """What a call does to stored data."""

    READS = "reads"
    # Existing data stays unchanged.
    ADDS = "adds"
    CHANGES = "changes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a tool."""

    name: str
    # Field of the request, such as "memory.content"; empty: the field of the same name.
    path: str = ""
    # Description in place of the proto's comment.
    text: str = ""
    required: bool = False
    # The only listed fields of a message; empty: all.
    only: tuple[str, ...] = ()

    @property
    def field_path(self) -> str:
        """Return the path of the field."""
        return self.path or self.name


def required(name: str, path: str = "", text: str = "", *, only: tuple[str, ...] = ()) -> Argument:
    """Return a required argument."""
    return Argument(name=name, path=path, text=text, required=True, only=only)


def optional(name: str, path: str = "", text: str = "", *, only: tuple[str, ...] = ()) -> Argument:
    """Return an optional argument."""
    return Argument(name=name, path=path, text=text, only=only)


# Models repeat calls whose response they did not get.
_REQUEST_ID = optional(
    "request_id", "request_id", "A new id of your own. A call repeated with the same one is done only once."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation:
    """How the work of a tool goes on that its first call does not end."""

    # The field of a response that tells that work remains, and its value then.
    field: str
    unfinished: Any = True
    # The RPC of each further step; empty: the tool's own, with the same request and request_id.
    path: str = ""
    # A field of that RPC's request, and the field of the response that it is.
    id_field: str = ""
    id_source: str = ""
    # Longest time of a step, which then says that work remains.
    step_seconds: float = 10.0

    def is_unfinished(self, response: Message) -> bool:
        """Return whether work remains after this response."""
        return bool(_value_at(response, self.field) == self.unfinished)

    def next_request(self, request: Message, response: Message, kind: type[Message]) -> Message:
        """Return the request of the next step, of this kind."""
        return kind(**{self.id_field: _value_at(response, self.id_source)}) if self.path else request


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool."""

    name: str
    title: str
    # For a model: what it does and when to use it.
    text: str
    # "/skein.memory.v1.MemoryService/CreateMemory"
    path: str
    effect: Effect
    arguments: tuple[Argument, ...]
    # Fields that every call sets, by path.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # Fields that a call sets unless it names them, each with the permission that its caller must have.
    defaults: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    # The message whose changed fields go into update_mask.
    masked_field: str = ""
    # A call may name none of these fields.
    is_mask_optional: bool = False
    # Fields of that message that identify the row.
    key_fields: frozenset[str] = frozenset()
    # A repeated call with the same arguments changes nothing more.
    is_idempotent: bool = True
    # The tool sends data to an address that its caller names.
    is_open_world: bool = False
    # Clients get the schema of its results, which costs tokens of the model's context.
    has_output_schema: bool = True
    omit: frozenset[str] = OMITTED_FIELDS
    # None: the outline of the response.
    render: Callable[[dict[str, Any]], str] | None = None
    # What a person is to judge: characters that are not seen stand as their numbers.
    shows_invisible: bool = False
    # The text of a response without any field.
    empty: str = "Done."
    # What a person is asked before a call that cannot be undone; empty: nothing.
    confirmation: str = ""
    # The argument that makes a call such a one; empty: each call is.
    confirmed_argument: str = ""
    # Clients that can wait get a task while work remains.
    continuation: Continuation | None = None
    # The ui:// resource that shows results; empty for none.
    app: str = ""

    @property
    def permission(self) -> str:
        """Return the permission that a caller needs; empty for none."""
        return ACCESS_RULES[self.path].permission or ""

    @functools.cached_property
    def definition(self) -> types.Tool:
        """Return the tool as clients see it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.text,
            input_schema=self.input_schema,
            output_schema=self.output_schema if self.has_output_schema else None,
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.effect is Effect.READS,
                destructive_hint=self.effect is Effect.CHANGES,
                idempotent_hint=self.is_idempotent,
                open_world_hint=self.is_open_world,
            ),
            _meta={"ui": {"resourceUri": self.app}} if self.app else None,
        )

    @functools.cached_property
    def output_schema(self) -> Schema:
        """Return the schema of the results."""
        return with_common_keywords(OutputSchemas(self.omit).schema(_response(self.path)))

    @functools.cached_property
    def input_schema(self) -> Schema:
        """Return the schema of the arguments."""
        schemas = InputSchemas()
        properties: dict[str, Schema] = {}
        for argument in self.arguments:
            value = self._argument_schema(schemas, argument)
            properties[argument.name] = {**value, "description": argument.text} if argument.text else value
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._required:
            schema["required"] = list(self._required)
        # In place, because strict mode allows no description beside a reference.
        return with_common_keywords(schema, schemas.defs)

    def request(self, arguments: Mapping[str, Any], permissions: Collection[str] = ()) -> Message:
        """Return the request for arguments of a caller with permissions.

        Raises FieldInvalid, which names arguments, not fields.
        """
        by_argument = {argument.name: argument for argument in self.arguments}
        arguments = {name: value for name, value in arguments.items() if not self._is_left_out(name, value)}
        takes = f"is not an argument of {self.name}, which takes {', '.join(by_argument) or 'none'}"
        violations = [(name[:_MAX_NAME], takes) for name in arguments if name not in by_argument][:1]
        violations += [(name, "is required") for name in self._required if arguments.get(name) is None]
        if violations:
            raise FieldInvalid(violations=violations)
        body = self._preset(permissions)
        mask: list[str] = []
        for name, value in arguments.items():
            path = by_argument[name].field_path
            subpath = path.removeprefix(f"{self.masked_field}.") if self.masked_field else path
            if self.masked_field and subpath != path and subpath not in self.key_fields:
                mask.append(_camel(subpath))
            if value is not None:
                _set_path(body, path, to_contract_json(_field_at(self.path, path), value, name))
        if self.masked_field:
            if not mask and not self.is_mask_optional:
                raise FieldInvalid(violations=[("", "name at least one field to change")])
            body[_MASK] = ",".join(mask)
        try:
            text = exact.dumps(exact.to_decimals(body), ensure_ascii=True).encode()
        except ValueError:
            raise FieldInvalid(violations=[("", exact.NO_NUMBER)]) from None
        try:
            return codec.read_json(text, PUBLIC_METHODS[self.path].request)
        except FieldInvalid as error:
            raise FieldInvalid(
                violations=[(self.argument_path(path), _reword(description)) for path, description in error.violations]
            ) from None

    def recover(self, arguments: Mapping[str, Any]) -> Message:
        """Return the request of refused arguments, with those that can be read."""
        body: dict[str, Any] = {}
        paths = {argument.name: argument.field_path for argument in self.arguments}
        for name, value in arguments.items():
            if name in paths and isinstance(value, (str, list)):
                _set_path(body, paths[name], value)
        kind = PUBLIC_METHODS[self.path].request
        return codec.recover_json(exact.dumps(body, ensure_ascii=True).encode(), kind) or kind()

    def _preset(self, permissions: Collection[str]) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for path, value in self.fixed.items():
            _set_path(body, path, copy.copy(value))
        for path, (permission, value) in self.defaults.items():
            if permission in permissions:
                _set_path(body, path, value)
        return body

    def _is_left_out(self, name: str, value: Any) -> bool:
        paths = (argument.field_path for argument in self.arguments if argument.name == name)
        return any(is_left_out(_field_at(self.path, path), value) for path in paths)

    def structured_content(self, response: Message) -> dict[str, Any]:
        """Return a response as JSON for the model."""
        content: dict[str, Any] = to_json_value(response, self.omit)
        return content

    def as_text(self, content: dict[str, Any]) -> str:
        """Return structured content as text for the model, whose own lines no stored text can make."""
        text = text_output.outline(content, _response(self.path)) if self.render is None else self.render(content)
        return text_output.truncate((show_invisible(text) if self.shows_invisible else text) or self.empty)

    def result(self, response: Message) -> types.CallToolResult:
        """Return the result of a call."""
        value = self.structured_content(response)
        return types.CallToolResult(
            content=[types.TextContent(text=self.as_text(value))], structured_content=mark_numbers(value)
        )

    def needs_confirmation(self, request: Message) -> bool:
        """Return whether a person is to confirm this request, whose fields are read as the RPC reads them."""
        flags = {
            argument.name: bool(_value_at(request, argument.field_path))
            for argument in self.arguments
            if argument.name in {self.confirmed_argument, "dry_run"}
        }
        is_final = flags.get(self.confirmed_argument, True) and not flags.get("dry_run", False)
        return bool(self.confirmation) and is_final

    def argument_path(self, path: str) -> str:
        """Return the argument that sets a field of the request; the field itself if none does."""
        best = max(
            (
                argument
                for argument in self.arguments
                if path == argument.field_path
                or path.startswith((f"{argument.field_path}.", f"{argument.field_path}["))
            ),
            key=lambda argument: len(argument.field_path),
            default=None,
        )
        return path if best is None else best.name + path[len(best.field_path) :]

    @functools.cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(
            argument.name
            for argument in self.arguments
            if argument.required
            or (
                "." not in argument.field_path
                and constraints.is_required(*_field_rules(self.path, argument.field_path))
            )
        )

    def _argument_schema(self, schemas: InputSchemas, argument: Argument) -> Schema:
        leaf = _field_at(self.path, argument.field_path)
        if not argument.only:
            return schemas.field(leaf)
        kind: Any = leaf.message_type
        item = schemas.partial(kind, argument.only)
        if not leaf.is_repeated:
            return item
        return {"type": "array", "items": item, **constraints.sizes(constraints.rules_of(leaf))}


def tool(
    name: str,
    title: str,
    method: str,
    effect: Effect,
    text: str,
    *takes: Argument | str,
    **options: Any,
) -> Tool:
    """Return a tool for a method ("memory.v1.MemoryService/GetMemory"). A plain string is an argument of that name.

    A tool that changes data also takes a request_id if its RPC does.
    """
    path = f"/skein.{method}"
    arguments = tuple(optional(each) if isinstance(each, str) else each for each in takes)
    fields: Any = PUBLIC_METHODS[path].request.DESCRIPTOR
    if effect is not Effect.READS and _REQUEST_ID.name in fields.fields_by_name:
        arguments = (*arguments, _REQUEST_ID)
    options = {
        "is_idempotent": effect is not Effect.ADDS,
        "empty": "Nothing was found." if effect is Effect.READS else "Done.",
        **options,
    }
    return Tool(name=name, title=title, text=text, path=path, effect=effect, arguments=arguments, **options)


def _response(path: str) -> Descriptor:
    return cast("Descriptor", PUBLIC_METHODS[path].response.DESCRIPTOR)


def _field_at(path: str, field_path: str) -> FieldDescriptor:
    *parents, leaf = field_path.split(".")
    descriptor: Any = PUBLIC_METHODS[path].request.DESCRIPTOR
    for name in parents:
        descriptor = descriptor.fields_by_name[name].message_type
    return cast("FieldDescriptor", descriptor.fields_by_name[leaf])


def _field_rules(path: str, field_path: str) -> tuple[FieldDescriptor, Any]:
    leaf = _field_at(path, field_path)
    return leaf, constraints.rules_of(leaf)


def _value_at(message: Message, path: str) -> Any:
    value: Any = message
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _set_path(target: dict[str, Any], path: str, value: Any) -> None:
    *parents, leaf = path.split(".")
    for name in parents:
        target = target.setdefault(name, {})
    target[leaf] = value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _reword(description: str) -> str:
    """Remove the contract's message name from a parser error, because a model knows only the tool."""
    if not description.startswith("is not the JSON of"):
        return description
    problem = _PARSER_PREFIX.sub("", description.partition(": ")[2])
    return f"does not match the schema: {_PARSER_PLACE.sub('', problem)}"


def by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    """Return tools by name. Raises LookupError for a duplicate name."""
    tools_by_name = {tool.name: tool for tool in tools}
    if len(tools_by_name) != len(tools):
        message = "two tools have one name"
        raise LookupError(message)
    return tools_by_name
