"""The unary Connect protocol: messages as JSON or protobuf, errors as JSON, timeouts. Knows no server.

See https://connectrpc.com/docs/protocol. Request JSON is checked before protobuf's parser, which accepts an empty list
or text as an empty message, and keeps the last of two spellings of a field. Both are mistakes that would silently
change what a call selects or stores.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from skein_gateway.connect import json_names
from skein_kit.admission.processor_time import with_pauses
from skein_kit.errors import FieldInvalid, status_code
from skein_kit.json_values import exact, fields
from skein_kit.json_values import fields as json_fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

JSON = "application/json"
PROTO = "application/proto"
# Content types of requests to streaming methods.
STREAMING = ("application/connect+json", "application/connect+proto")
VERSION_HEADER = "connect-protocol-version"
TIMEOUT_HEADER = "connect-timeout-ms"
# Flags of the last envelope of a stream.
_END_OF_STREAM = b"\x02"
_SEPARATORS = (", ", ": ")
# Deeper than any message of the contract. Keeps a hostile body from exhausting the stack.
_MAX_DEPTH = 64
# An object in a list is one level of messages and two levels of JSON.
_MAX_JSON_DEPTH = 2 * _MAX_DEPTH
# How protobuf's JSON parser names a field: nested prefixes, a path at the end, or a name in quotes.
_PARSER_PREFIXES = re.compile(r"(?:Failed to parse \w+ field: )+")
_PARSER_PREFIX = re.compile(r"Failed to parse (\w+) field: ")
_PARSER_SUFFIX = re.compile(r' at "?([\w.]+?)"?\.*$')
_UNKNOWN = re.compile(r'has no field named "([^"]*)"')
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
# Timeout in milliseconds. The protocol has no zero: it would end each call before it began.
TIMEOUT_PATTERN = "[1-9][0-9]{0,9}"
_TIMEOUT = re.compile(TIMEOUT_PATTERN)
# HTTP status of each code, from the protocol's table.
_HTTP: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
    grpc.StatusCode.UNAUTHENTICATED: 401,
}
_DETAILS = {
    kind.DESCRIPTOR.full_name: kind
    for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
}
# Messages with a JSON form of their own, which the parser checks.
_WELL_KNOWN = "google.protobuf."
_NOT_AN_OBJECT = "must be a JSON object"


def timeout_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the caller's timeout in seconds; None without one. Raises FieldInvalid."""
    text = headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    if not _TIMEOUT.fullmatch(text):
        raise FieldInvalid(
            violations=[(TIMEOUT_HEADER, "must be a positive whole number of milliseconds with at most ten digits")]
        )
    return int(text) / 1000


def check_version(headers: Mapping[str, str]) -> None:
    """Raise FieldInvalid unless the protocol version is absent or 1."""
    if headers.get(VERSION_HEADER, "1") != "1":
        raise FieldInvalid(violations=[(VERSION_HEADER, "must be 1")])


def read_json(body: bytes, kind: type[Message]) -> Message:
    """Parse a message; an empty body is an empty message. Raises FieldInvalid.

    Refuses unknown fields, duplicate fields, and anything but an object in place of a message: those are typing errors.
    """
    try:
        text = body.decode("utf-8").strip() or "{}"
    except UnicodeDecodeError:
        raise FieldInvalid(violations=[("", "is not UTF-8")]) from None
    descriptor: Any = kind.DESCRIPTOR
    values = json_names.normalize(read(text, kind, _MAX_JSON_DEPTH), descriptor)
    try:
        message = json_format.ParseDict(values, kind(), max_recursion_depth=_MAX_DEPTH)
    except Exception as error:  # noqa: BLE001 - the parser raises many types, all about the caller's text.
        # The parser's message mentions only the caller's text, so the caller may read it.
        parser_message = str(error).partition("\n")[0]
        raise FieldInvalid(
            violations=[
                (_field_path(parser_message), f"is not the JSON of a {kind.DESCRIPTOR.full_name}: {parser_message}")
            ]
        ) from None
    fields.drop_duplicates_to_fit(message, MAX_MESSAGE_BYTES)
    return message


def recover_json(body: bytes, kind: type[Message]) -> Message | None:
    """Return the fields of a refused request that can be read; None without any."""
    message = kind()
    with suppress(Exception):
        # The parser fills the message until it meets a field that it cannot read.
        json_format.ParseDict(json.loads(body), message, ignore_unknown_fields=True, max_recursion_depth=_MAX_DEPTH)
    return message if message.ListFields() else None


def _field_path(message: str) -> str:
    """Return the path of the field that the parser names, in snake_case; empty for none."""
    prefix = _PARSER_PREFIXES.match(message)
    path = _PARSER_PREFIX.findall(prefix.group()) if prefix else []
    suffix, unknown = _PARSER_SUFFIX.search(message), _UNKNOWN.search(message)
    suffix_path = suffix.group(1).split(".")[1:] if suffix else []
    path = max(path, suffix_path, key=len)
    if unknown:
        path = [*path, unknown.group(1)]
    return _CAPITAL.sub(lambda capital: f"_{capital.group().lower()}", ".".join(path))


def dump_json(message: Message) -> bytes:
    """Serialize a message as protobuf's JSON. Numbers in Struct fields keep all digits."""
    members = (f"{json.dumps(name)}: {_dump_value(value)}" for name, value in fields.to_values(message).items())
    return f"{{{', '.join(members)}}}".encode()


def _dump_value(value: Any) -> str:
    if not isinstance(value, list):
        return exact.dumps(value, separators=_SEPARATORS)
    # Item by item: the encoder would keep other threads waiting for the whole list.
    return f"[{', '.join(exact.dumps(item, separators=_SEPARATORS) for item in with_pauses(value))}]"


def error(status: Status) -> tuple[int, bytes]:
    """Return the HTTP status and the JSON body of an error."""
    return _HTTP[status_code(status)], json.dumps(_error_body(status), ensure_ascii=False).encode()


def stream_error(status: Status) -> bytes:
    """Return the body of a stream that has no message and ends with an error."""
    trailer = json.dumps({"error": _error_body(status)}, ensure_ascii=False).encode()
    return _END_OF_STREAM + len(trailer).to_bytes(4, "big") + trailer


def unsupported_media_error(message: str) -> bytes:
    """Return the JSON body for a content type or encoding that the gateway does not read."""
    return json.dumps({"code": _name(grpc.StatusCode.UNIMPLEMENTED), "message": message}).encode()


def http_status(code: grpc.StatusCode) -> int:
    """Return the HTTP status of an error code."""
    return _HTTP[code]


def error_codes() -> list[str]:
    """Return the protocol's names of all error codes."""
    return [_name(code) for code in _HTTP]


def _error_body(status: Status) -> dict[str, Any]:
    body: dict[str, Any] = {"code": _name(status_code(status)), "message": status.message}
    if status.details:
        body["details"] = [_detail(detail) for detail in status.details]
    return body


def _name(code: grpc.StatusCode) -> str:
    # The protocol uses the American spelling.
    return "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()


def _detail(packed: PackedAny) -> dict[str, Any]:
    name = packed.type_url.rpartition("/")[2]
    result: dict[str, Any] = {"type": name, "value": base64.b64encode(packed.value).decode().rstrip("=")}
    kind = _DETAILS.get(name)
    if kind is not None:
        result["debug"] = json_format.MessageToDict(kind.FromString(packed.value))
    return result


class JsonObject(dict[str, Any]):
    """A JSON object with one of its duplicate keys, or None."""

    repeated: str | None = None


def read(text: str, kind: type[Message], max_depth: int) -> Any:
    """Parse the JSON text of a message of this type. Raises FieldInvalid.

    Numbers inside Struct fields go unchanged into the text field beside them; the returned values hold floats.
    Levels below `max_depth` stay unchecked: protobuf's parser refuses them.
    """
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=exact.integer, parse_float=exact.decimal)
    except (ValueError, RecursionError) as error:
        raise FieldInvalid(violations=[("", f"is not JSON: {error}")]) from None
    _check_message(value, kind.DESCRIPTOR, "", max_depth)
    try:
        return json_fields.prepare_for_parse(value, kind.DESCRIPTOR)
    except RecursionError:
        raise FieldInvalid(violations=[("", "is nested too deeply")]) from None


def _object(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    value = JsonObject(pairs)
    if len(value) < len(pairs):
        value.repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return value


def _check_message(value: Any, kind: Any, path: str, depth: int) -> None:
    if kind.full_name.startswith(_WELL_KNOWN):
        _check_plain(value, path, depth)
        return
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    fields = _fields(kind)
    if value.repeated is not None:
        repeated_field = fields.get(value.repeated)
        _refuse_repeated(path, value.repeated if repeated_field is None else repeated_field.name, [value.repeated])
    spelled: dict[int, str] = {}
    for key, item in value.items():
        field = fields.get(key)
        # protobuf's parser reports unknown fields.
        if field is None:
            continue
        if (other := spelled.setdefault(field.number, key)) != key:
            _refuse_repeated(path, field.name, [other, key])
        if item is not None and field.message_type is not None and depth > 0:
            _check_field(item, field, _joined(path, field.name), depth - 1)


def _check_field(value: Any, field: FieldDescriptor, path: str, depth: int) -> None:
    kind: Any = field.message_type
    if kind.GetOptions().map_entry:
        _check_map(value, kind.fields_by_name["value"].message_type, path, depth)
    elif not field.is_repeated:
        _check_message(value, kind, path, depth)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_message(item, kind, f"{path}[{index}]", depth)


def _check_map(value: Any, kind: Any, path: str, depth: int) -> None:
    if not isinstance(value, JsonObject):
        raise FieldInvalid(violations=[(path, _NOT_AN_OBJECT)])
    if value.repeated is not None:
        _refuse_repeated(path, value.repeated, [value.repeated])
    if kind is not None:
        for key, item in value.items():
            _check_message(item, kind, _joined(path, key), depth)


def _check_plain(value: Any, path: str, depth: int) -> None:
    """Check free JSON, whose keys may have any name but must be unique."""
    if depth <= 0:
        return
    if isinstance(value, JsonObject):
        if value.repeated is not None:
            _refuse_repeated(path, value.repeated, [value.repeated])
        for key, item in value.items():
            _check_plain(item, _joined(path, key), depth - 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_plain(item, f"{path}[{index}]", depth - 1)


@functools.cache
def _fields(kind: Any) -> dict[str, FieldDescriptor]:
    """Return the fields by both spellings of their names."""
    return {name: field for field in kind.fields for name in (field.name, field.json_name)}


def _refuse_repeated(path: str, name: str, keys: Sequence[str]) -> None:
    message = " and ".join(keys) if len(keys) > 1 else f"{keys[0]} twice"
    raise FieldInvalid(violations=[(_joined(path, name), f"occurs more than once: {message}")])


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
