"""What travels on the wire: ZeroMQ frames and the JSON object in them. No sockets."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skein_kit.json_values import exact

if TYPE_CHECKING:
    from collections.abc import Sequence

# Larger messages are refused, as on every door of Skein.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024

# Nor may a message hold more values, or be nested deeper: whoever reads and answers it does so on one thread for all.
MAX_VALUES = 20_000
_MOST_LEVELS = 400

Message = dict[str, Any]


class MalformedMessage(Exception):
    """The message cannot be understood; the text says why, in words for its sender."""


@dataclass(frozen=True, slots=True)
class Frames:
    """One message as it came: the frames that lead back to its sender, and what it says."""

    # The sender's identity and, from a REQ socket or through a proxy, all up to the empty frame.
    route: tuple[bytes, ...]
    body: tuple[bytes, ...]

    @classmethod
    def of(cls, frames: Sequence[bytes]) -> Frames:
        """Split `[id, b"", json]` and `[id, json]` alike: an empty frame that ends the message is its body."""
        for position in range(1, len(frames) - 1):
            if frames[position] == b"":
                return cls(tuple(frames[: position + 1]), tuple(frames[position + 1 :]))
        return cls(tuple(frames[:1]), tuple(frames[1:]))

    def size(self) -> int:
        """Return how many bytes the body has."""
        return sum(len(part) for part in self.body)

    def parsed(self) -> Message:
        """Return the JSON object; raise Malformed for anything else."""
        if len(self.body) != 1:
            text = "A message is one frame"
            raise MalformedMessage(text)
        return parse_json(self.body[0])

    def answered(self, reply: Message) -> list[bytes]:
        """Return the frames of the answer, in the framing of the message."""
        return [*self.route, _written(reply, (", ", ": ")).encode("ascii")]


def parse_json(body: bytes) -> Message:
    """Return the JSON object of a frame; raise Malformed for anything else."""
    if len(body) > MAX_MESSAGE_BYTES:
        text = f"The message is larger than {MAX_MESSAGE_BYTES} bytes"
        raise MalformedMessage(text)
    try:
        message = _MESSAGES.decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        text = "The message is not UTF-8"
        raise MalformedMessage(text) from None
    except RecursionError:
        text = "The message is nested too deeply"
        raise MalformedMessage(text) from None
    except ValueError:
        text = "Invalid JSON in message"
        raise MalformedMessage(text) from None
    if not isinstance(message, dict):
        text = "The message is not a JSON object"
        raise MalformedMessage(text)
    _must_be_bounded(message)
    return message


def repeat_key(message: Message) -> str:
    """Return what a message that is sent again has in common with the first; empty when its sender gave it no id.

    It is made of all that the message says but its time, because the ids of the protocol have eight digits, which come
    again: the same id with another wish is another message. The RPCs take it as their request_id.
    """
    if not message.get("request_id"):
        return ""
    said = {name: value for name, value in message.items() if name != "timestamp"}
    text = _written(said, (",", ":"), sort_keys=True)
    return f"pc2-{hashlib.sha256(text.encode('ascii')).hexdigest()[:32]}"


def timestamp(time: datetime | None = None) -> str:
    """Write a time, by default now, as "2023-06-15T08:30:45.123Z"."""
    moment = (time.astimezone(UTC) if time else datetime.now(UTC)).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def local_timestamp(time: datetime | None = None) -> str:
    """Write a time, by default now, as `datetime.now().isoformat()` does: clients subtract it from `datetime.now()`."""
    return (time or datetime.now(UTC)).astimezone().replace(tzinfo=None).isoformat()


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = exact.ExactFloat.read(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _written(message: Message, separators: tuple[str, str], *, sort_keys: bool = False) -> str:
    said = exact.to_decimals(message)
    return exact.dumps(said, ensure_ascii=True, separators=separators, sort_keys=sort_keys)


# Made once: making it takes as long as using it.
_MESSAGES = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _must_be_bounded(message: Message) -> None:
    row: list[dict[str, Any] | list[Any]] = [message]
    levels = count = 0
    while row:
        levels += 1
        count += sum(len(one) for one in row)
        if levels > _MOST_LEVELS:
            text = "The message is nested too deeply"
            raise MalformedMessage(text)
        if count > MAX_VALUES:
            text = f"The message holds more than {MAX_VALUES} values"
            raise MalformedMessage(text)
        row = [
            inner
            for one in row
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
