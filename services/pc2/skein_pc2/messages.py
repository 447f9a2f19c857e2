"""What travels on the wire: ZeroMQ frames and the JSON object in them. No sockets."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Larger messages are refused, as on every door of Skein.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024

Message = dict[str, Any]


class Malformed(Exception):
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

    def parsed(self) -> Message:
        """Return the JSON object; raise Malformed for anything else."""
        if len(self.body) != 1:
            text = "A message is one frame"
            raise Malformed(text)
        return parsed(self.body[0])

    def answered(self, reply: Message) -> list[bytes]:
        """Return the frames of the answer, in the framing of the message."""
        return [*self.route, json.dumps(reply, allow_nan=False).encode("ascii")]


def parsed(body: bytes) -> Message:
    """Return the JSON object of a frame; raise Malformed for anything else."""
    if len(body) > MAX_MESSAGE_BYTES:
        text = f"The message is larger than {MAX_MESSAGE_BYTES} bytes"
        raise Malformed(text)
    try:
        message = json.loads(body.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        text = "The message is not UTF-8"
        raise Malformed(text) from None
    except RecursionError:
        text = "The message is nested too deeply"
        raise Malformed(text) from None
    except ValueError:
        text = "Invalid JSON in message"
        raise Malformed(text) from None
    if not isinstance(message, dict):
        text = "The message is not a JSON object"
        raise Malformed(text)
    return message


def timestamp(time: datetime | None = None) -> str:
    """Write a time, by default now, as "2023-06-15T08:30:45.123Z"."""
    return (time or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
