"""How values are said to a person: times, numbers, enums, signals, JSON. Pure; the clock is passed in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2, curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein_kit.json_values import exact as exact_json
from skein_kit.json_values import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# What a hit's signals measure.
SIGNALS: Mapping[str, tuple[str, str]] = {
    "dense": ("meaning", "cosine of the query and the item"),
    "context": ("meaning around it", "the same, over the item and its neighbours in the session"),
    "lexical": ("words", "BM25 over the words of the item and, unless words alone are searched, its neighbours"),
    "reply": ("answers", "how well the item before matches, when that ends with a question"),
    "statement": ("states", "it does not end with a question"),
    "length": ("length", "it is more than a phrase"),
    "time": ("tells a time", "the query asks for a time, and it tells one"),
    "date": ("near the date", "it was created near the date that the query names"),
    "words": ("words", "how many of the query's words the block says"),
}
# The colour of each signal, by the number of its class.
_COLOURS = {name: number for number, name in enumerate(SIGNALS)}
_ENUMS: Mapping[str, Any] = {
    "scope": memory_pb2.Scope,
    "level": memory_pb2.Level,
    "session_state": session_pb2.SessionState,
    "message_role": session_pb2.MessageRole,
    "item_kind": recall_pb2.ItemKind,
    "arm": gateway_pb2.Arm,
    "arm_state": gateway_pb2.ArmState,
    "service_state": gateway_pb2.ServiceState,
    "conflict_status": curation_pb2.ConflictStatus,
    "conflict_reason": curation_pb2.ConflictReason,
    "access_operation": access_log_pb2.AccessOperation,
}
_LONGEST_JSON = 200_000


def stamp(time: Timestamp) -> str:
    """Return a time as HTML wants it; empty for none."""
    return f"{_moment(time):%Y-%m-%dT%H:%M:%SZ}" if time.seconds or time.nanos else ""


def exact(time: Timestamp) -> str:
    """Return a time to the second."""
    return f"{_moment(time):%Y-%m-%d %H:%M:%S} UTC" if time.seconds or time.nanos else ""


def ago(time: Timestamp, now: float) -> str:
    """Return how long ago a time was, or when it was, if that is long ago or still to come."""
    if not (time.seconds or time.nanos):
        return ""
    seconds = now - time.seconds
    if seconds < -_MINUTE or seconds >= 7 * _DAY:
        return f"{_moment(time):%Y-%m-%d %H:%M}"
    if seconds < _MINUTE:
        return "just now"
    for name, size in (("day", _DAY), ("hour", _HOUR), ("minute", _MINUTE)):
        count = int(seconds // size)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return ""


def enum(number: int, kind: str) -> str:
    """Return an enum's value in words: "needs review"."""
    values = _ENUMS[kind]
    try:
        name = str(values.Name(number))
    except ValueError:
        return str(number)
    return "" if number == 0 else name.removeprefix(f"{kind.upper()}_").replace("_", " ").lower()


def number(value: float) -> str:
    """Return a number with spaces between thousands; a fraction with two decimals."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if float(value).is_integer() else f"{value:.2f}"


def signal(name: str) -> str:
    """Return what a signal is called."""
    return SIGNALS.get(name, (name, ""))[0]


def meaning(name: str) -> str:
    """Return what a signal measures."""
    return SIGNALS.get(name, ("", ""))[1]


def colour(name: str) -> str:
    """Return the class that colours a signal."""
    return f"s{_COLOURS.get(name, 9)}"


def indented_json(message: Message, field: str) -> str:
    """Return structured content as indented JSON; its end is left out when it is very long."""
    text = exact_json.dumps(fields.value_of(message, field), indent=2)
    return text if len(text) <= _LONGEST_JSON else f"{text[:_LONGEST_JSON]}\n…"


def short(text: str, length: int = 160) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[: length - 1].rstrip()}…"


def name_of(memory: memory_pb2.Memory, length: int = 90) -> str:
    """Return what a memory is called in a list: its title, its key or the beginning of its text."""
    return short(memory.title or memory.content or memory.key or memory.memory_id, length)


def _moment(time: Timestamp) -> datetime:
    return datetime.fromtimestamp(time.seconds, UTC)
