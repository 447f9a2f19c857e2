"""Template filters that format times, numbers, enums, signals and JSON. Pure; the clock is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2, curation_pb2, memory_pb2, webhooks_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import ledgers_pb2, session_pb2
from skein.tenancy.v1 import jobs_pb2, members_pb2, spaces_pb2
from skein_kit.json_values import exact as exact_json
from skein_kit.json_values import fields

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# Label and explanation of each signal of a hit.
SIGNALS: Mapping[str, tuple[str, str]] = {
    "dense": ("meaning", "cosine of the query and the item"),
    "context": ("meaning in context", "cosine of the query and the item with its neighbours in the session"),
    "lexical": ("words", "BM25 over the words of the item and, unless words alone are searched, its neighbours"),
    "reply": ("reply", "how well the previous item matches, if it ends with a question"),
    "statement": ("statement", "the item does not end with a question"),
    "length": ("length", "the item is longer than a phrase"),
    "time": ("names a time", "the query asks for a time, and the item names one"),
    "date": ("near the date", "the item was created near the date in the query"),
    "tokens": ("meaning of words", "how near each word of the query comes to a word of the item, in its context"),
    "words": ("words", "how many of the query's words the block contains"),
    "trust": ("distrust", "what a memory with a trust below 0.5 loses"),
    "newer": ("newer", "what it gains, or loses to a newer item that says what has changed"),
}
# The CSS class number of each signal; 9 is grey. "words" is a block's only signal, so it may share a colour.
_COLOURS = {name: min(number, 9) for number, name in enumerate(SIGNALS)} | {"words": 8}
_ENUMS: Mapping[str, Any] = {
    "scope": memory_pb2.Scope,
    "level": memory_pb2.Level,
    "role": members_pb2.Role,
    "space_role": spaces_pb2.SpaceRole,
    "delivery_state": webhooks_pb2.DeliveryState,
    "session_state": session_pb2.SessionState,
    "message_role": session_pb2.MessageRole,
    "item_kind": recall_pb2.ItemKind,
    "ledger_item_kind": ledgers_pb2.LedgerItemKind,
    "branch": gateway_pb2.Branch,
    "branch_state": gateway_pb2.BranchState,
    "service_state": gateway_pb2.ServiceState,
    "conflict_status": curation_pb2.ConflictStatus,
    "conflict_reason": curation_pb2.ConflictReason,
    "access_operation": access_log_pb2.AccessOperation,
    "job_kind": jobs_pb2.JobKind,
    "job_state": jobs_pb2.JobState,
    "job_cost": jobs_pb2.JobCost,
}
_MAX_JSON_CHARACTERS = 200_000
_UUID_LENGTH = 36
# Causes of failed deliveries, as Webhook.last_error names them.
_DELIVERY_ERRORS: Mapping[str, str] = {
    "url": "the address is no valid URL",
    "unreachable": "the name of the server is unknown, or its address is not public",
    "connection": "the server cannot be reached",
    "time": "the server did not answer in time",
    "redirect": "the server redirected the call",
    "busy": "too many deliveries wait for their receivers",
    "key": "the signing key cannot be decrypted",
    "grant": "the access of the application that made it ended",
}


def stamp(time: Timestamp) -> str:
    """Return a time for HTML's datetime attribute; empty when unset."""
    return f"{_moment(time):%Y-%m-%dT%H:%M:%SZ}" if time.seconds or time.nanos else ""


def exact(time: Timestamp) -> str:
    """Return a time with seconds; empty when unset."""
    return f"{_moment(time):%Y-%m-%d %H:%M:%S} UTC" if time.seconds or time.nanos else ""


def ago(time: Timestamp, now: float) -> str:
    """Return the age of a time, or the time itself if it is over a week old or in the future."""
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
    """Return the label of an enum value: "needs review"."""
    values = _ENUMS[kind]
    try:
        name = str(values.Name(number))
    except ValueError:
        return str(number)
    return "" if number == 0 else name.removeprefix(f"{kind.upper()}_").replace("_", " ").lower()


def number(value: float) -> str:
    """Return a number with thousands separated by spaces; a fraction with two decimals."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if float(value).is_integer() else f"{value:.2f}"


def signal(name: str) -> str:
    """Return a signal's label."""
    return SIGNALS.get(name, (name, ""))[0]


def meaning(name: str) -> str:
    """Return a signal's explanation."""
    return SIGNALS.get(name, ("", ""))[1]


def colour(name: str) -> str:
    """Return a signal's CSS class."""
    return f"s{_COLOURS.get(name, 9)}"


def delivery_error(error: str) -> str:
    """Return a delivery's error in words: "the server answered with status 503"."""
    if error.startswith("status "):
        return f"the server answered with {error}"
    return _DELIVERY_ERRORS.get(error, error)


def indented_json(message: Message, field: str) -> str:
    """Return a JSON field as indented text, cut at 200,000 characters."""
    text = exact_json.dumps(fields.value_of(message, field), indent=2)
    return text if len(text) <= _MAX_JSON_CHARACTERS else f"{text[:_MAX_JSON_CHARACTERS]}\n…"


def short(text: str, length: int = 160) -> str:
    """Return the beginning of a text as one line of at most `length` characters."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[: length - 1].rstrip()}…"


def name_of(memory: memory_pb2.Memory, length: int = 90) -> str:
    """Return a memory's display name: its title, or the beginning of its text, or its key, or what it is."""
    return short(memory.title or memory.content or memory.key, length) or f"A {memory.type or 'memory'} without text"


def who(principal: str) -> str:
    """Return a principal in short: its kind, and the end of its id, which is what differs."""
    kind, _, identity = principal.rpartition(":")
    return f"{kind.replace('_', ' ')} …{identity[-6:]}" if kind and len(identity) == _UUID_LENGTH else principal


def _moment(time: Timestamp) -> datetime:
    return datetime.fromtimestamp(time.seconds, UTC)
