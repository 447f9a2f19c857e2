"""Messages of the contract, made by hypothesis from their descriptors: valid ones that differ in a few places.

A message that is arbitrary throughout is refused by its first rule. So each one begins as a valid request, of which one
to four fields, at any depth, are replaced: mostly by values within the field's rules, sometimes by values beyond them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import protovalidate
from buf.validate import validate_pb2
from buf.validate.validate_pb2 import FieldRules
from fix_odd_values import (
    FLOATS,
    JSON_TEXTS,
    LENGTHS,
    NANOS,
    ODDEST,
    PATHS,
    QUERIES,
    SECONDS,
    STRUCTS,
    TEXTS,
)
from google.protobuf import duration_pb2, field_mask_pb2, json_format, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

_Value = TypeVar("_Value")
# The types of the stubs do not know what an extension is.
_RULES: Any = validate_pb2.field
_MASK = field_mask_pb2.FieldMask.DESCRIPTOR.full_name
_DEEPEST = 5
_EXTREMES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_PLAIN_TEXT = st.sampled_from(TEXTS) | st.text(max_size=12)
_LETTERS = st.sampled_from(("a", "é", "👩", " a", "\n", "%", "a.", '"', "(", "\u0301"))


@dataclass(frozen=True, slots=True)
class Pool:
    """Texts that name things of the cluster, of whatever kind."""

    names: tuple[str, ...]


def examples(strategy: st.SearchStrategy[_Value], count: int, number: int) -> list[_Value]:
    """Return that many values of a strategy, the same ones for the same `number`."""
    results: list[_Value] = []

    @seed(number)
    @settings(
        # The first is always the simplest one there is.
        max_examples=count + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: _Value) -> None:
        results.append(value)

    collect()
    return results[1:]


@st.composite
def altered(draw: st.DrawFn, origin: Message, pool: Pool) -> Message:
    """Make a copy of a message in which one to four fields have other values."""
    message = _copy(origin)
    is_ruled = draw(st.integers(0, 5)) > 0
    for _ in range(draw(st.sampled_from((1, 2, 2, 3, 4, 6)))):
        changed = _copy(message)
        _alter(draw, changed, pool, 0)
        if changed.ByteSize() <= MAX_MESSAGE_BYTES and (not is_ruled or is_valid(changed)):
            message = changed
    return message


def is_valid(message: Message) -> bool:
    """Say whether a message keeps the rules of the contract, and so gets behind them."""
    try:
        protovalidate.validate(message)
    except (protovalidate.ValidationError, RuntimeError):
        return False
    return True


def _copy(message: Message) -> Message:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def with_extremes(origin: Message) -> Iterator[Message]:
    """Yield copies of a message in each of which one field has the least, the greatest or the oddest value there is.

    Those that break a rule of the contract are left out.
    """
    yield from filter(is_valid, _with_extremes(origin, 0))


def _with_extremes(origin: Message, depth: int) -> Iterator[Message]:
    descriptor: Any = origin.DESCRIPTOR
    for field in descriptor.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        for value in _extremes(field, origin, depth):
            changed = _copy(origin)
            if field.is_repeated:
                del getattr(changed, field.name)[:]
                getattr(changed, field.name).append(value)
            elif field.message_type is not None:
                getattr(changed, field.name).CopyFrom(value)
            else:
                setattr(changed, field.name, value)
            yield changed


def _extremes(field: FieldDescriptor, origin: Message, depth: int) -> Iterator[Any]:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name in _EXTREME_MESSAGES:
            yield from _EXTREME_MESSAGES[name]
        elif depth < 2 and not field.message_type.GetOptions().map_entry:
            value = getattr(_copy(origin), field.name)
            inner = (value[0] if value else value.add()) if field.is_repeated else value
            yield from _with_extremes(inner, depth + 1)
    elif field.enum_type is not None:
        yield from (value.number for value in field.enum_type.values)
    elif field.type == FieldDescriptor.TYPE_STRING and field.name != "page_token":
        rule = _rules(field).repeated.items.string if field.is_repeated else _rules(field).string
        longest = min(rule.max_len or rule.max_bytes or 70_000, 300_000)
        yield from (*ODDEST, "a" * longest, "👩" * longest)
        if field.name.endswith("_json"):
            yield from JSON_TEXTS
    elif field.cpp_type in _EXTREMES:
        rules = _rules(field).repeated.items if field.is_repeated else _rules(field)
        yield from sorted({*_EXTREMES[field.cpp_type], *_bounds(rules)})
    elif field.cpp_type in {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}:
        yield from FLOATS


def _bounds(rules: FieldRules) -> list[Any]:
    """Return the numbers that a field's rules name."""
    ruled: Any = getattr(rules, rules.WhichOneof("type") or "float")
    return [getattr(ruled, name) for name in ("gte", "gt", "lte", "lt") if ruled.HasField(name)]


@st.composite
def damaged(draw: st.DrawFn, wire: bytes) -> bytes:
    """Make bytes from those of a message that are one no longer, or one with fields that it does not have."""
    place = draw(st.integers(0, len(wire)))
    return draw(
        st.sampled_from(
            (
                wire[:place],
                wire[:place] + b"\xff" + wire[place + 1 :],
                wire[:place] + b"\xed\xa0\x80" + wire[place + 3 :],
                wire[:place] + b"\x00" + wire[place:],
                # An unknown field of each wire type, a group that nothing closes, a length beyond the end.
                wire + b"\xfa\xff\xff\xff\x0f\x03abc",
                wire + b"\xf8\xff\xff\xff\x0f\x01",
                wire + b"\x0b\x0c",
                wire + b"\x0b",
                wire + b"\x0a\xff\xff\xff\xff\x0f",
                wire + b"\x0a\x02\xc3\x28",
                wire + b"\x12\x02\xc3\x28",
                wire + b"\x0a\x03\xed\xa0\x80",
                wire + wire,
                # Deeper than protobuf's parser goes.
                b"\x0a\x7f" * 120 + wire,
            )
        )
    )


def _alter(draw: st.DrawFn, message: Message, pool: Pool, depth: int) -> None:
    descriptor: Any = message.DESCRIPTOR
    if not descriptor.fields:
        return
    present = [field for field, _ in message.ListFields()]
    # Only the cluster makes page tokens, so that any other one hides what stands beside it.
    others = [field for field in descriptor.fields if field.name != "page_token" or draw(st.integers(0, 9)) == 0]
    if not others:
        return
    field = draw(st.sampled_from([*others, *present]))
    if field in present and not field.is_repeated and draw(st.integers(0, 9)) == 0:
        message.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _alter_map(draw, getattr(message, field.name), field, pool, depth)
    elif field.is_repeated:
        _alter_list(draw, getattr(message, field.name), field, pool, depth)
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalar(field, "", pool)))
    elif field.message_type.full_name == _MASK:
        named = [name for each in descriptor.fields if each.message_type for name in each.message_type.fields_by_name]
        paths = st.lists(st.sampled_from([*named, *named, *PATHS]), max_size=4)
        getattr(message, field.name).CopyFrom(field_mask_pb2.FieldMask(paths=draw(paths)))
    else:
        _fill(draw, getattr(message, field.name), pool, depth)


def _alter_list(draw: st.DrawFn, values: Any, field: FieldDescriptor, pool: Pool, depth: int) -> None:
    rules = _rules(field).repeated
    most = rules.max_items if rules.HasField("max_items") else 5
    count = draw(st.sampled_from((0, 1, 1, 2, 3, most, most + 1)))
    if draw(st.booleans()):
        del values[:]
    count = min(count, 1001)
    if field.message_type is None:
        distinct = draw(st.lists(_scalar(field, "items", pool), min_size=min(count, 1), max_size=min(count, 4)))
        values.extend((distinct * (count // max(len(distinct), 1) + 1))[:count])
        return
    if values and draw(st.booleans()):
        _alter(draw, values[draw(st.integers(0, len(values) - 1))], pool, depth + 1)
    for number in range(count):
        added = values.add()
        if number < 2:
            _fill(draw, added, pool, depth)
        elif len(values) > 1:
            added.CopyFrom(values[-2])


def _alter_map(draw: st.DrawFn, values: Any, field: FieldDescriptor, pool: Pool, depth: int) -> None:
    kind: Any = field.message_type
    key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
    for _ in range(draw(st.integers(1, 3))):
        name = draw(_scalar(key, "", pool))
        if value.message_type is None:
            values[name] = draw(_scalar(value, "", pool))
        else:
            _fill(draw, values[name], pool, depth)


def _fill(draw: st.DrawFn, message: Message, pool: Pool, depth: int) -> None:
    """Alter a few fields of a message within another one; those with a JSON form of their own get extreme values."""
    kind: Any = message.DESCRIPTOR
    message.SetInParent()
    extreme = _WELL_KNOWN.get(kind.full_name)
    if extreme is not None:
        message.CopyFrom(draw(extreme))
    elif depth < _DEEPEST:
        for _ in range(draw(st.sampled_from((0, 1, 2, 3, 4)))):
            _alter(draw, message, pool, depth + 1)


def _rules(field: FieldDescriptor) -> FieldRules:
    rules: FieldRules = field.GetOptions().Extensions[_RULES]
    return rules


@functools.lru_cache(maxsize=4096)
def _scalar(field: FieldDescriptor, part: str, pool: Pool) -> st.SearchStrategy[Any]:
    """Return the values of one field; with `part`, those of an item of a list."""
    rules = _rules(field).repeated.items if part else _rules(field)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if kind == FieldDescriptor.CPPTYPE_STRING and field.type == FieldDescriptor.TYPE_BYTES:
        return st.sampled_from((b"", b"\0", b"\xff\xfe", b"x" * 1000)) | st.binary(max_size=40)
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _text(field.name, rules, pool)
    bounds = _bounds(rules)
    if kind in {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}:
        return st.sampled_from((*FLOATS, *bounds)) | st.floats(width=32)
    low, high = _EXTREMES[kind]
    near = [
        number for bound in bounds for number in (int(bound) - 1, int(bound), int(bound) + 1) if low <= number <= high
    ]
    return st.sampled_from([0, 1, 2, 7, 1000, *near, *near, low, high, high - 1]) | st.integers(low, high)


@functools.cache
def _enum(enum: EnumDescriptor) -> st.SearchStrategy[int]:
    numbers = [value.number for value in enum.values]
    return st.sampled_from([*numbers, *numbers, max(numbers) + 1, -1, 2**31 - 1, -(2**31)])


def _text(name: str, rules: FieldRules, pool: Pool) -> st.SearchStrategy[str]:
    if name.endswith("_json"):
        return st.sampled_from(JSON_TEXTS)
    rule = rules.string
    choices: list[st.SearchStrategy[str]] = [_PLAIN_TEXT]
    if name.endswith(("_id", "_ids", "name", "source", "ref", "key", "position")):
        choices += [st.sampled_from(pool.names)] * 3
    if name in {"where", "filter", "query", "text", "pattern", "path", "order_by", "content", "old_text"}:
        choices += [st.sampled_from(QUERIES)] * 2
    if getattr(rule, "in"):
        choices.append(st.sampled_from(list(getattr(rule, "in"))))
    if rule.pattern:
        choices += [st.from_regex(rule.pattern, fullmatch=False).map(lambda text: text[:1000])]
    longest = rule.max_len or rule.max_bytes or rule.len or 70_000
    sizes = st.sampled_from((longest, longest, longest + 1)).map(lambda size: min(size, 300_000))
    return st.one_of(*choices, st.builds(lambda letter, size: (letter * size)[:size], _LETTERS, sizes))


def _moment(seconds: Sequence[int], kind: Callable[..., Message]) -> st.SearchStrategy[Message]:
    made = st.builds(
        lambda whole, nanos: kind(seconds=whole, nanos=nanos), st.sampled_from(seconds), st.sampled_from(NANOS)
    )
    return made | st.builds(lambda whole: kind(seconds=whole), st.sampled_from(seconds))


def _struct(text: str) -> struct_pb2.Struct:
    return json_format.ParseDict(json.loads(text), struct_pb2.Struct())


def _well_known() -> dict[str, st.SearchStrategy[Any]]:
    structs = st.sampled_from(STRUCTS).map(_struct)
    numbers = st.sampled_from(FLOATS).map(lambda number: struct_pb2.Value(number_value=number))
    values = st.one_of(
        numbers,
        structs.map(lambda struct: struct_pb2.Value(struct_value=struct)),
        st.sampled_from(TEXTS).map(lambda text: struct_pb2.Value(string_value=text)),
        st.just(struct_pb2.Value()),
        st.just(struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)),
        st.just(struct_pb2.Value(list_value=struct_pb2.ListValue(values=[struct_pb2.Value()]))),
    )
    odd = st.builds(lambda key, value: struct_pb2.Struct(fields={key: value}), st.sampled_from(TEXTS), values)
    return {
        "google.protobuf.Timestamp": _moment(SECONDS, timestamp_pb2.Timestamp),
        "google.protobuf.Duration": _moment(LENGTHS, duration_pb2.Duration),
        _MASK: st.lists(st.sampled_from(PATHS), max_size=3).map(lambda paths: field_mask_pb2.FieldMask(paths=paths)),
        "google.protobuf.Struct": structs | odd,
        "google.protobuf.Value": values,
        "google.protobuf.ListValue": st.lists(values, max_size=3).map(lambda many: struct_pb2.ListValue(values=many)),
    }


_WELL_KNOWN = _well_known()
_EXTREME_MESSAGES: dict[str, list[Message]] = {
    "google.protobuf.Timestamp": [timestamp_pb2.Timestamp(seconds=seconds) for seconds in SECONDS],
    "google.protobuf.Duration": [duration_pb2.Duration(seconds=seconds) for seconds in LENGTHS],
    _MASK: [field_mask_pb2.FieldMask(paths=[path]) for path in PATHS],
    "google.protobuf.Struct": [_struct(text) for text in STRUCTS],
    "google.protobuf.Value": [
        *(struct_pb2.Value(number_value=number) for number in FLOATS),
        *(struct_pb2.Value(string_value=text) for text in ODDEST),
        struct_pb2.Value(),
    ],
}
