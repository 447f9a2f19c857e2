"""What was said in a session, put into a number of tokens: decisions, errors and code have their share. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2 as pb
from skein_pc2.protocol.frames import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_OF_A_TOKEN = 4
DEFAULT_TOKENS = 2000
# Where an interaction's type stands in the metadata of its message.
TYPE = "interaction_type"
ERROR, CODE, DECISION = "error", "code", "decision"

_SPEECH = "speech"
_CUT = "…"
# A decision is found long after it was taken, and many of them leave room for what was said last.
_SHARE = 4
_ROLES = {
    "user_query": pb.MESSAGE_ROLE_USER,
    "user": pb.MESSAGE_ROLE_USER,
    "query": pb.MESSAGE_ROLE_USER,
    "system_response": pb.MESSAGE_ROLE_ASSISTANT,
    "assistant": pb.MESSAGE_ROLE_ASSISTANT,
    "response": pb.MESSAGE_ROLE_ASSISTANT,
    CODE: pb.MESSAGE_ROLE_ASSISTANT,
    DECISION: pb.MESSAGE_ROLE_ASSISTANT,
    ERROR: pb.MESSAGE_ROLE_TOOL,
    "tool": pb.MESSAGE_ROLE_TOOL,
}
_LABELS = {
    pb.MESSAGE_ROLE_USER: "User",
    pb.MESSAGE_ROLE_ASSISTANT: "Assistant",
    pb.MESSAGE_ROLE_TOOL: "Tool",
}
_KINDS = {ERROR: "Error", CODE: "Code", DECISION: "Decision"}
# Keys of an interaction's metadata that name the type of an error, the best first.
_ERROR_TYPES = ("error_type", "type")
# An error message begins with its type: "SyntaxError: invalid syntax".
_LEADING_TYPE = re.compile(r"\s*([A-Za-z_][\w.]{0,99}):")
_UNKNOWN_ERROR = "unknown"
_MAX_ERROR_TYPE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One message as a context tells it."""

    kind: str
    label: str
    content: str
    create_time: str = ""
    # Of an error alone.
    error_type: str = ""

    @classmethod
    def of(cls, message: pb.Message) -> ContextLine:
        """Tell a message by its type or, when a typed client wrote it, by who spoke."""
        kind = interaction_type_of(message)
        create_time = timestamp(message.create_time.ToDatetime(tzinfo=UTC))
        if kind in _KINDS:
            error_type = _error_type(message) if kind == ERROR else ""
            return cls(kind, _KINDS[kind], message.content, create_time, error_type)
        label = message.name or _LABELS.get(message.role, "System")
        return cls(_SPEECH, label, message.content, create_time)

    @property
    def text(self) -> str:
        """Return it as the summary says it."""
        return f"{self.label}: {self.content}"

    def cut(self, room: int) -> ContextLine | None:
        """Return as much of it as has room, None when that says nothing."""
        if len(self.text) <= room:
            return self
        left = room - len(self.label) - len(": ") - len(_CUT)
        return replace(self, content=self.content[:left] + _CUT) if left > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What of a session has room, oldest first."""

    lines: Sequence[ContextLine]
    # What stands for the messages that have none.
    earlier: str = ""

    @property
    def summary(self) -> str:
        """Return all of it as one text."""
        return "\n".join([*self._earlier(), *(line.text for line in self.lines)])

    def document(self, last_updated: str | None) -> dict[str, Any]:
        """Write it as newer clients read it."""
        return {
            "last_updated": last_updated,
            "conversation_summary": "\n".join(
                [*self._earlier(), *(line.text for line in self.lines if line.kind == _SPEECH)]
            ),
            "errors_encountered": [
                {"type": line.error_type, "message": line.content} for line in self._lines_of(ERROR)
            ],
            "code_context": "\n".join(line.content for line in self._lines_of(CODE)),
            "key_decisions": [
                {"timestamp": line.create_time, "decision": line.content} for line in self._lines_of(DECISION)
            ],
        }

    def _earlier(self) -> list[str]:
        return [self.earlier] if self.earlier else []

    def _lines_of(self, kind: str) -> list[ContextLine]:
        return [line for line in self.lines if line.kind == kind]


def interaction_type_of(message: pb.Message) -> str:
    """Return the type of the interaction that a message is, in lower case; "" for a typed client's message."""
    kept = message.metadata.fields
    return kept[TYPE].string_value.lower() if TYPE in kept else ""


def role_of(interaction_type: str) -> pb.MessageRole:
    """Return who speaks in an interaction."""
    return _ROLES.get(interaction_type, pb.MESSAGE_ROLE_SYSTEM)


def context_of(messages: Sequence[pb.Message], *, max_tokens: int, earlier: str = "", is_cut: bool = False) -> Context:
    """Put messages, newest first, into a number of tokens.

    `earlier` is the session's own summary; it is told when messages are left out (`is_cut`: some were not even read)
    and it takes no more than half of the room.
    """
    lines = [ContextLine.of(message) for message in messages if message.content]
    budget = CHARACTERS_OF_A_TOKEN * max_tokens
    room = _CharacterBudget(budget)
    is_short = sum(len(line.text) + 1 for line in lines) <= room.left
    for kind in _KINDS:
        room.take(lines, kind, at_most=room.left if is_short else budget // _SHARE)
    said = ""
    if earlier and (is_cut or not is_short) and len(earlier) < room.left // 2:
        said = earlier
        room.left -= len(earlier) + 1
    room.take(lines, _SPEECH, at_most=room.left)
    for kind in _KINDS:
        room.take(lines, kind, at_most=room.left, whole=True)
    return Context(lines=[room.taken[place] for place in sorted(room.taken, reverse=True)], earlier=said)


def _error_type(message: pb.Message) -> str:
    """Return the type of an error: the metadata's, else the name that its text begins with."""
    kept = message.metadata.fields
    for name in _ERROR_TYPES:
        if name in kept and kept[name].string_value:
            return kept[name].string_value[:_MAX_ERROR_TYPE_CHARACTERS]
    leading = _LEADING_TYPE.match(message.content)
    return leading[1] if leading else _UNKNOWN_ERROR


class _CharacterBudget:
    """Characters that are left, each line with the end of the line before it."""

    def __init__(self, budget: int) -> None:
        # The first line has none before it.
        self.left = budget + 1
        # By their place, newest first.
        self.taken: dict[int, ContextLine] = {}

    def take(self, lines: Sequence[ContextLine], kind: str, *, at_most: int, whole: bool = False) -> None:
        """Take the newest lines of a kind that have room; the first is cut to it, unless `whole` ones are wanted."""
        is_first = not whole
        for place, line in enumerate(lines):
            if line.kind != kind or place in self.taken:
                continue
            fitting = line.cut(min(at_most, self.left) - 1)
            if fitting is None or (fitting is not line and not is_first):
                return
            is_first = False
            self.taken[place] = fitting
            length = len(fitting.text) + 1
            at_most -= length
            self.left -= length
