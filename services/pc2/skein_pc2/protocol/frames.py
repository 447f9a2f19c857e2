"""Messages on the wire: ZeroMQ frames with one JSON object. No sockets."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from skein_kit.json_values import exact

# Larger messages are rejected, as on every port of Skein.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024

# Most values and levels of a message, because one thread handles all messages.
MAX_VALUES = 20_000
_MAX_LEVELS = 400

Message = dict[str, Any]


class MalformedMessage(Exception):
    """The message is invalid; the text is the reason, which its sender reads."""


@dataclass(frozen=True, slots=True)
class Frames:
    """One message as received: the routing frames of its sender, and its body."""

    # The sender's identity; from a REQ socket or a proxy, everything up to the empty frame.
    route: tuple[bytes, ...]
    body: tuple[bytes, ...]

    @classmethod
    def of(cls, frames: Sequence[bytes]) -> Frames:
        """Split `[id, b"", json]` or `[id, json]`. An empty last frame is the body."""
        for position in range(1, len(frames) - 1):
            if frames[position] == b"":
                return cls(tuple(frames[: position + 1]), tuple(frames[position + 1 :]))
        return cls(tuple(frames[:1]), tuple(frames[1:]))

    def size(self) -> int:
        """Return how many bytes the body has."""
        return sum(len(part) for part in self.body)

    def parse(self) -> Message:
        """Return the JSON object; raise MalformedMessage for anything else."""
        if len(self.body) != 1:
            raise MalformedMessage("A message is one frame")
        return parse_json(self.body[0])

    def reply_frames(self, reply: Message) -> list[bytes]:
        """Return the frames of a reply, in the framing of the message."""
        return [*self.route, _dump(reply, (", ", ": ")).encode("ascii")]


def parse_json(body: bytes) -> Message:
    """Return the JSON object of a frame; raise MalformedMessage for anything else."""
    if len(body) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"The message is larger than {MAX_MESSAGE_BYTES} bytes")
    try:
        message = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise MalformedMessage("The message is not UTF-8") from None
    except RecursionError:
        raise MalformedMessage("The message is nested too deeply") from None
    except ValueError:
        raise MalformedMessage("Invalid JSON in message") from None
    if not isinstance(message, dict):
        raise MalformedMessage("The message is not a JSON object")
    _check_bounds(message)
    return message


def repeat_key(message: Message) -> str:
    """Return a key that a message and its repeats share; empty for a message without request_id.

    The key is a hash of the whole message without its timestamp. Ids of the protocol have eight digits and recur, so
    the same id with other fields is another message. RPCs take the key as their request_id.
    """
    if not message.get("request_id"):
        return ""
    values = {name: value for name, value in message.items() if name != "timestamp"}
    text = _dump(values, (",", ":"), sort_keys=True)
    return f"pc2-{hashlib.sha256(text.encode('ascii')).hexdigest()[:32]}"


def timestamp(time: datetime | None = None) -> str:
    """Return a time, by default now, as "2023-06-15T08:30:45.123Z"."""
    at = (time.astimezone(UTC) if time else datetime.now(UTC)).replace(tzinfo=None)
    return f"{at.isoformat(timespec='milliseconds')}Z"


def local_timestamp(time: datetime | None = None) -> str:
    """Return a time, by default now, in the form of `datetime.now().isoformat()`, which clients subtract from it."""
    return (time or datetime.now(UTC)).astimezone().replace(tzinfo=None).isoformat()


def _reject_constant(name: str) -> None:
    raise ValueError(name)


def _parse_finite(text: str) -> float:
    value = exact.ExactFloat.read(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _dump(message: Message, separators: tuple[str, str], *, sort_keys: bool = False) -> str:
    values = exact.to_decimals(message)
    return exact.dumps(values, ensure_ascii=True, separators=separators, sort_keys=sort_keys)


# Created once: creation costs as much as one use.
_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite)


def _check_bounds(message: Message) -> None:
    containers: list[dict[str, Any] | list[Any]] = [message]
    levels = count = 0
    while containers:
        levels += 1
        count += sum(len(item) for item in containers)
        if levels > _MAX_LEVELS:
            raise MalformedMessage("The message is nested too deeply")
        if count > MAX_VALUES:
            raise MalformedMessage(f"The message holds more than {MAX_VALUES} values")
        containers = [
            inner
            for item in containers
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
