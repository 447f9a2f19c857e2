"""The Connect protocol's unary form: messages as JSON or bytes, errors as JSON, time limits. Knows no server.

See https://connectrpc.com/docs/protocol.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2

from skein_gateway.connect import json_names, strict_json
from skein_kit.errors import FieldInvalid, status_code
from skein_kit.json_values import exact, fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.any_pb2 import Any as PackedAny
    from google.protobuf.message import Message
    from google.rpc.status_pb2 import Status

JSON = "application/json"
PROTO = "application/proto"
# How clients send requests of methods that answer with a stream.
STREAMING = ("application/connect+json", "application/connect+proto")
VERSION_HEADER = "connect-protocol-version"
TIMEOUT_HEADER = "connect-timeout-ms"
# The flags of the protocol's last message in a stream.
_END_OF_STREAM = b"\x02"
# Longer than any message of the contract nests; keeps a hostile body from exhausting the stack.
_MAX_DEPTH = 64
# An object within a list is one level of messages, and two of JSON.
_MAX_JSON_DEPTH = 2 * _MAX_DEPTH
# How the parser of JSON tells where it is: by fields inside of one another, by a path at the end, by a name in quotes.
_PARSED = re.compile(r"(?:Failed to parse \w+ field: )+")
_WAY = re.compile(r"Failed to parse (\w+) field: ")
_PLACE = re.compile(r' at "?([\w.]+?)"?\.*$')
_UNKNOWN = re.compile(r'has no field named "([^"]*)"')
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")
# A time limit. The protocol has no zero: it would end each call before it began.
TIMEOUT_PATTERN = "[1-9][0-9]{0,9}"
_TIMEOUT = re.compile(TIMEOUT_PATTERN)
# The HTTP status that goes with each code, from the protocol's table.
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


def time_limit(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the caller gives; None when it names none."""
    text = headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    if not _TIMEOUT.fullmatch(text):
        raise FieldInvalid(
            violations=[(TIMEOUT_HEADER, "is not a positive whole number of milliseconds, of ten digits at most")]
        )
    return int(text) / 1000


def check_version(headers: Mapping[str, str]) -> None:
    """Refuse a version of the protocol that is not this one."""
    if headers.get(VERSION_HEADER, "1") != "1":
        raise FieldInvalid(violations=[(VERSION_HEADER, "is not 1")])


def read_json(body: bytes, kind: type[Message]) -> Message:
    """Read a message; an empty body is an empty message.

    Unknown fields, fields that are there twice, and anything but an object for a message are refused: they are typing
    errors.
    """
    try:
        text = body.decode("utf-8").strip() or "{}"
    except UnicodeDecodeError:
        raise FieldInvalid(violations=[("", "is not UTF-8")]) from None
    descriptor: Any = kind.DESCRIPTOR
    values = json_names.normalize(strict_json.read(text, kind, _MAX_JSON_DEPTH), descriptor)
    try:
        message = json_format.ParseDict(values, kind(), max_recursion_depth=_MAX_DEPTH)
    except Exception as error:  # noqa: BLE001 - whatever the parser raises is about the caller's text.
        # The parser speaks of nothing but that text, and is the only one who knows what is wrong with it.
        said = str(error).partition("\n")[0]
        raise FieldInvalid(
            violations=[(_field(said), f"is not the JSON of a {kind.DESCRIPTOR.full_name}: {said}")]
        ) from None
    fields.drop_duplicates_to_fit(message, MAX_MESSAGE_BYTES)
    return message


def _field(said: str) -> str:
    """Return the path of the field that the parser speaks of, as the contract spells it; empty for none."""
    way = _PARSED.match(said)
    path = _WAY.findall(way.group()) if way else []
    place, unknown = _PLACE.search(said), _UNKNOWN.search(said)
    named = place.group(1).split(".")[1:] if place else []
    path = max(path, named, key=len)
    if unknown:
        path = [*path, unknown.group(1)]
    return _HUMP.sub(lambda hump: f"_{hump.group().lower()}", ".".join(path))


def dump_json(message: Message) -> bytes:
    """Write a message as protobuf's JSON; numbers of free JSON are exact."""
    return exact.dumps(fields.to_values(message), separators=(", ", ": ")).encode()


def error(status: Status) -> tuple[int, bytes]:
    """Return the HTTP status and the body that tell an error."""
    return _HTTP[status_code(status)], json.dumps(_error_body(status), ensure_ascii=False).encode()


def stream_error(status: Status) -> bytes:
    """Return a stream of the protocol that ends with an error before it sent anything."""
    end = json.dumps({"error": _error_body(status)}, ensure_ascii=False).encode()
    return _END_OF_STREAM + len(end).to_bytes(4, "big") + end


def unsupported_media_error(message: str) -> bytes:
    """Return the body that says why a request's own was not looked at: it came in a form that is not read here."""
    return json.dumps({"code": _name(grpc.StatusCode.UNIMPLEMENTED), "message": message}).encode()


def http_status(code: grpc.StatusCode) -> int:
    """Return the HTTP status that an error of this code has."""
    return _HTTP[code]


def error_codes() -> list[str]:
    """Return what the protocol calls the codes of errors."""
    return [_name(code) for code in _HTTP]


def _error_body(status: Status) -> dict[str, Any]:
    told: dict[str, Any] = {"code": _name(status_code(status)), "message": status.message}
    if status.details:
        told["details"] = [_detail(detail) for detail in status.details]
    return told


def _name(code: grpc.StatusCode) -> str:
    # The protocol spells this one as Americans do.
    return "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()


def _detail(packed: PackedAny) -> dict[str, Any]:
    name = packed.type_url.rpartition("/")[2]
    result: dict[str, Any] = {"type": name, "value": base64.b64encode(packed.value).decode().rstrip("=")}
    kind = _DETAILS.get(name)
    if kind is not None:
        result["debug"] = json_format.MessageToDict(kind.FromString(packed.value))
    return result
