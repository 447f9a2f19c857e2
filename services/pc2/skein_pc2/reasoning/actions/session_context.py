"""A session's messages within a budget of tokens; decisions, errors and code have a share. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from skein.session.v1 import session_pb2 as pb
from skein_pc2.protocol.frames import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

CHARACTERS_PER_TOKEN = 4
DEFAULT_TOKENS = 2000
# Metadata key of an interaction's type.
TYPE = "interaction_type"
ERROR, CODE, DECISION = "error", "code", "decision"

_SPEECH = "speech"
_ELLIPSIS = "…"
# Part of the budget that each of decisions, errors and code may fill, so that recent speech has room.
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
# Metadata keys of an error's type, best first.
_ERROR_TYPES = ("error_type", "type")
# An error message begins with its type: "SyntaxError: invalid syntax".
_LEADING_TYPE = re.compile(r"\s*([A-Za-z_][\w.]{0,99}):")
_UNKNOWN_ERROR = "unknown"
_MAX_ERROR_TYPE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One message in a context."""

    kind: str
    label: str
    content: str
    create_time: str = ""
    # For errors only.
    error_type: str = ""

    @classmethod
    def of(cls, message: pb.Message) -> ContextLine:
        """Label a message by its interaction type, or by its role when a typed client wrote it."""
        kind = interaction_type_of(message)
        create_time = timestamp(message.create_time.ToDatetime(tzinfo=UTC))
        if kind in _KINDS:
            error_type = _error_type(message) if kind == ERROR else ""
            return cls(kind, _KINDS[kind], message.content, create_time, error_type)
        label = message.name or _LABELS.get(message.role, "System")
        return cls(_SPEECH, label, message.content, create_time)

    @property
    def text(self) -> str:
        """Return the line as in the summary."""
        return f"{self.label}: {self.content}"

    def cut(self, room: int) -> ContextLine | None:
        """Return the line cut to `room` characters; None when no content fits."""
        if len(self.text) <= room:
            return self
        left = room - len(self.label) - len(": ") - len(_ELLIPSIS)
        return replace(self, content=self.content[:left] + _ELLIPSIS) if left > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The lines of a session that fit, oldest first."""

    lines: Sequence[ContextLine]
    # Summary of the messages that do not fit.
    earlier: str = ""

    @property
    def summary(self) -> str:
        """Return all lines as one text."""
        return "\n".join([*self._earlier(), *(line.text for line in self.lines)])

    def document(self, last_updated: str | None) -> dict[str, Any]:
        """Return the document that newer clients read."""
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
    """Return a message's interaction type in lower case; "" for a typed client's message."""
    fields = message.metadata.fields
    return fields[TYPE].string_value.lower() if TYPE in fields else ""


def role_of(interaction_type: str) -> pb.MessageRole:
    """Return the role of an interaction type."""
    return _ROLES.get(interaction_type, pb.MESSAGE_ROLE_SYSTEM)


def context_of(messages: Sequence[pb.Message], *, max_tokens: int, earlier: str = "", is_cut: bool = False) -> Context:
    """Fit messages, newest first, into a budget of tokens.

    `earlier` is the session's summary. It is used when messages do not fit or were not read (`is_cut`), and when it
    takes less than half of the room.
    """
    lines = [ContextLine.of(message) for message in messages if message.content]
    budget = CHARACTERS_PER_TOKEN * max_tokens
    room = _CharacterBudget(budget)
    is_short = sum(len(line.text) + 1 for line in lines) <= room.left
    for kind in _KINDS:
        room.add(lines, kind, at_most=room.left if is_short else budget // _SHARE)
    shown_earlier = ""
    if earlier and (is_cut or not is_short) and len(earlier) < room.left // 2:
        shown_earlier = earlier
        room.left -= len(earlier) + 1
    room.add(lines, _SPEECH, at_most=room.left)
    for kind in _KINDS:
        room.add(lines, kind, at_most=room.left, uncut=True)
    return Context(lines=[room.lines[index] for index in sorted(room.lines, reverse=True)], earlier=shown_earlier)


def _error_type(message: pb.Message) -> str:
    """Return an error's type: from the metadata, or the name at the start of its text."""
    fields = message.metadata.fields
    for name in _ERROR_TYPES:
        if name in fields and fields[name].string_value:
            return fields[name].string_value[:_MAX_ERROR_TYPE_CHARACTERS]
    leading = _LEADING_TYPE.match(message.content)
    return leading[1] if leading else _UNKNOWN_ERROR


class _CharacterBudget:
    """A budget of characters for lines; each line costs one more for its line break."""

    def __init__(self, budget: int) -> None:
        # The first line has no break before it.
        self.left = budget + 1
        # By index, newest first.
        self.lines: dict[int, ContextLine] = {}

    def add(self, lines: Sequence[ContextLine], kind: str, *, at_most: int, uncut: bool = False) -> None:
        """Add the newest lines of a kind that fit; the first may be cut unless `uncut`."""
        is_first = not uncut
        for index, line in enumerate(lines):
            if line.kind != kind or index in self.lines:
                continue
            cut = line.cut(min(at_most, self.left) - 1)
            if cut is None or (cut is not line and not is_first):
                return
            is_first = False
            self.lines[index] = cut
            length = len(cut.text) + 1
            at_most -= length
            self.left -= length
