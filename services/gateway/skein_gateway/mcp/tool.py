"""What a tool is: one public RPC with few arguments, each a field of the request, wherever in it that lies."""

from __future__ import annotations

import copy
import enum
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types as types

from skein_gateway.connect import codec
from skein_gateway.json_schema import constraints
from skein_gateway.json_schema.schemas import Schema
from skein_gateway.mcp.json_input import to_contract_json
from skein_gateway.mcp.schemas import OMITTED_FIELDS, InputSchemas, OutputSchemas, to_json_value
from skein_gateway.mcp.text_output import listed, outlined
from skein_gateway.public_methods.forwarder import PUBLIC_METHODS
from skein_kit.errors import FieldInvalid
from skein_kit.identity.permissions import ACCESS_RULES
from skein_kit.json_values import exact

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

_MASK = "update_mask"
# What is told of a name that a model made up.
_MAX_NAME = 100
# How the parser of JSON says where in a message it is.
_WAY = re.compile(r"(?:Failed to parse \w+ field: )+")
_PLACE = re.compile(r" at \S*$")


class Effect(enum.Enum):
    """What a call does to what is kept."""

    READS = "reads"
    # Nothing that was there changes.
    ADDS = "adds"
    CHANGES = "changes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """Something that a model may say."""

    name: str
    # Where it goes in the request: "memory.content"; empty: the field of the same name.
    path: str = ""
    # What it is for, instead of what the proto says.
    text: str = ""
    required: bool = False
    # Of a message, the only fields that are told.
    only: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return the path of the field."""
        return self.path or self.name


def needs(name: str, path: str = "", text: str = "", *, only: tuple[str, ...] = ()) -> Argument:
    """Return an argument that must be given."""
    return Argument(name=name, path=path, text=text, required=True, only=only)


def may(name: str, path: str = "", text: str = "", *, only: tuple[str, ...] = ()) -> Argument:
    """Return an argument that can be left out."""
    return Argument(name=name, path=path, text=text, only=only)


# Models repeat calls whose answer they did not get.
_ONCE = may("request_id", "request_id", "A new id of your own. A call repeated with the same one is done only once.")


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
    # Fields that every call sets.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # The field whose changes update_mask is to name: those of the arguments that are given.
    masked: str = ""
    # Of the masked field, what says which row it is.
    row: frozenset[str] = frozenset()
    # Calling again with the same arguments changes nothing more.
    repeatable: bool = True
    # It sends something to an address that its caller names.
    outside: bool = False
    omit: frozenset[str] = OMITTED_FIELDS
    render: Callable[[dict[str, Any]], str] = outlined

    @property
    def permission(self) -> str:
        """Return what a caller needs, empty for nothing in particular."""
        return ACCESS_RULES[self.path].permission or ""

    @functools.cached_property
    def listed(self) -> types.Tool:
        """Return the tool as it is told to clients."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.text,
            input_schema=self.input_schema,
            output_schema=OutputSchemas(self.omit).schema(_response(self.path)),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.effect is Effect.READS,
                destructive_hint=self.effect is Effect.CHANGES,
                idempotent_hint=self.repeatable,
                open_world_hint=self.outside,
            ),
        )

    @functools.cached_property
    def input_schema(self) -> Schema:
        """Return the schema of the arguments."""
        asked = InputSchemas()
        properties: dict[str, Schema] = {}
        for argument in self.arguments:
            found = self._asked(asked, argument)
            properties[argument.name] = {**found, "description": argument.text} if argument.text else found
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._needed:
            schema["required"] = list(self._needed)
        return {**schema, "$defs": dict(sorted(asked.defs.items()))} if asked.defs else schema

    def request(self, given: Mapping[str, Any]) -> Message:
        """Return the request that arguments make. Raises FieldInvalid, in the arguments' own words."""
        known = {argument.name: argument for argument in self.arguments}
        takes = f"is no argument of {self.name}, which takes {', '.join(known) or 'none'}"
        wrong = [(name[:_MAX_NAME], takes) for name in given if name not in known][:1]
        wrong += [(name, "is needed") for name in self._needed if given.get(name) is None]
        if wrong:
            raise FieldInvalid(violations=wrong)
        asked: dict[str, Any] = {}
        for path, value in self.fixed.items():
            _put(asked, path, copy.copy(value))
        changed: list[str] = []
        for name, value in given.items():
            path = known[name].place
            inside = path.removeprefix(f"{self.masked}.") if self.masked else path
            if self.masked and inside != path and inside not in self.row:
                changed.append(_camel(inside))
            if value is not None:
                _put(asked, path, to_contract_json(_leaf(self.path, path), value, name))
        if self.masked:
            if not changed:
                raise FieldInvalid(violations=[("", "nothing is given that is to change")])
            asked[_MASK] = ",".join(changed)
        try:
            body = exact.dumps(exact.to_decimals(asked), ensure_ascii=True).encode()
        except ValueError:
            raise FieldInvalid(violations=[("", exact.NO_NUMBER)]) from None
        try:
            return codec.read_json(body, PUBLIC_METHODS[self.path].request)
        except FieldInvalid as refusal:
            raise FieldInvalid(
                violations=[(self.named(path), _told(said)) for path, said in refusal.violations]
            ) from None

    def answer(self, response: Message) -> dict[str, Any]:
        """Return what is told of an answer."""
        found: dict[str, Any] = to_json_value(response, self.omit)
        return found

    def named(self, path: str) -> str:
        """Return the argument that a field of the request is; the field itself for none."""
        best = max(
            (one for one in self.arguments if path == one.place or path.startswith((f"{one.place}.", f"{one.place}["))),
            key=lambda one: len(one.place),
            default=None,
        )
        return path if best is None else best.name + path[len(best.place) :]

    @functools.cached_property
    def _needed(self) -> tuple[str, ...]:
        return tuple(
            argument.name
            for argument in self.arguments
            if argument.required
            or ("." not in argument.place and constraints.is_required(*_ruled(self.path, argument.place)))
        )

    def _asked(self, asked: InputSchemas, argument: Argument) -> Schema:
        leaf = _leaf(self.path, argument.place)
        if not argument.only:
            return asked.field(leaf)
        kind: Any = leaf.message_type
        one = asked.some(kind, argument.only)
        if not leaf.is_repeated:
            return one
        return {"type": "array", "items": one, **constraints.sizes(constraints.rules_of(leaf))}


def tool(
    name: str,
    title: str,
    method: str,
    effect: Effect,
    text: str,
    *takes: Argument | str,
    **more: Any,
) -> Tool:
    """Return a tool of a method ("memory.v1.MemoryService/GetMemory"); a bare name takes the field of that name.

    What changes something takes a request_id, where its RPC does.
    """
    path = f"/skein.{method}"
    arguments = tuple(may(each) if isinstance(each, str) else each for each in takes)
    fields: Any = PUBLIC_METHODS[path].request.DESCRIPTOR
    if effect is not Effect.READS and _ONCE.name in fields.fields_by_name:
        arguments = (*arguments, _ONCE)
    more = {"repeatable": effect is not Effect.ADDS, "render": listed if effect is Effect.READS else outlined, **more}
    return Tool(name=name, title=title, text=text, path=path, effect=effect, arguments=arguments, **more)


def _response(path: str) -> Descriptor:
    found: Any = PUBLIC_METHODS[path].response.DESCRIPTOR
    described: Descriptor = found
    return described


def _leaf(path: str, place: str) -> FieldDescriptor:
    *way, last = place.split(".")
    descriptor: Any = PUBLIC_METHODS[path].request.DESCRIPTOR
    for name in way:
        descriptor = descriptor.fields_by_name[name].message_type
    found: FieldDescriptor = descriptor.fields_by_name[last]
    return found


def _ruled(path: str, place: str) -> tuple[FieldDescriptor, Any]:
    leaf = _leaf(path, place)
    return leaf, constraints.rules_of(leaf)


def _put(into: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    for name in way:
        into = into.setdefault(name, {})
    into[last] = value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _told(said: str) -> str:
    """Leave out which message of the contract it was: a model knows the tool alone."""
    if not said.startswith("is not the JSON of"):
        return said
    what = _WAY.sub("", said.partition(": ")[2])
    return f"is not as the schema says: {_PLACE.sub('', what)}"


def by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    """Return tools by name. Two of one name are a fault."""
    found = {one.name: one for one in tools}
    if len(found) != len(tools):
        message = "two tools have one name"
        raise LookupError(message)
    return found
