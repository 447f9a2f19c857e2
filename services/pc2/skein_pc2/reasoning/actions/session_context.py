"""A session's messages within a budget of tokens; decisions, errors and code have a share. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from skein.session.v1 import session_pb2 as pb
from skein_kit.message_rows import speaker
from skein_kit.text.quoted_text import MARK, one_line, quote
from skein_pc2.protocol.frames import timestamp

CHARACTERS_PER_TOKEN = 4
DEFAULT_TOKENS = 2000
# Metadata key of an interaction's type.
TYPE = "interaction_type"
ERROR, CODE, DECISION = "error", "code", "decision"

_SPEECH = "speech"
_ELLIPSIS = "…"
# Decisions, errors and code each get the budget divided by this, so that recent speech fits.
_KIND_BUDGET_DIVISOR = 4
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
        label = speaker(
            message.name,
            _LABELS.get(message.role, "System"),
            message.created_by,
            message.updated_by,
            is_pending=message.pending_approval,
        )
        return cls(_SPEECH, label, message.content, create_time)

    @property
    def text(self) -> str:
        """Return the line as in the summary."""
        return f"{one_line(self.label)}: {quote(self.content)}"

    def truncate(self, max_characters: int) -> ContextLine | None:
        """Return the line truncated to `max_characters` characters; None when no content fits."""
        if len(self.text) <= max_characters:
            return self
        line = self
        # Marks of further lines take characters too, so the second cut is the last.
        content_characters = max_characters - len(self.label) - len(": ") - len(_ELLIPSIS)
        for _ in range(2):
            if content_characters <= 0:
                return None
            line = replace(self, content=self.content[:content_characters] + _ELLIPSIS)
            content_characters -= max(len(line.text) - max_characters, 0)
        return line


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionContext:
    """The lines of a session that fit, oldest first."""

    lines: Sequence[ContextLine]
    # Summary of the messages that do not fit, in marked lines.
    earlier_summary: str = ""

    @property
    def summary(self) -> str:
        """Return all lines as one text."""
        return "\n".join([*self._earlier_lines(), *(line.text for line in self.lines)])

    def document(self, last_updated: str | None) -> dict[str, Any]:
        """Return the document that newer clients read."""
        return {
            "last_updated": last_updated,
            "conversation_summary": "\n".join(
                [*self._earlier_lines(), *(line.text for line in self.lines if line.kind == _SPEECH)]
            ),
            "errors_encountered": [
                {"type": line.error_type, "message": line.content} for line in self._lines_of(ERROR)
            ],
            "code_context": "\n".join(line.content for line in self._lines_of(CODE)),
            "key_decisions": [
                {"timestamp": line.create_time, "decision": line.content} for line in self._lines_of(DECISION)
            ],
        }

    def _earlier_lines(self) -> list[str]:
        return [self.earlier_summary] if self.earlier_summary else []

    def _lines_of(self, kind: str) -> list[ContextLine]:
        return [line for line in self.lines if line.kind == kind]


def interaction_type_of(message: pb.Message) -> str:
    """Return a message's interaction type in lower case; "" for a typed client's message."""
    fields = message.metadata.fields
    return fields[TYPE].string_value.lower() if TYPE in fields else ""


def role_of(interaction_type: str) -> pb.MessageRole:
    """Return the role of an interaction type."""
    return _ROLES.get(interaction_type, pb.MESSAGE_ROLE_SYSTEM)


def context_of(
    messages: Sequence[pb.Message], *, max_tokens: int, earlier_summary: str = "", is_truncated: bool = False
) -> SessionContext:
    """Fit messages, newest first, into a budget of tokens.

    `earlier_summary` is the session's summary. It is used when messages do not fit or were not read (`is_truncated`),
    and when it takes less than half of the remaining budget.
    """
    lines = [ContextLine.of(message) for message in messages if message.content]
    max_characters = CHARACTERS_PER_TOKEN * max_tokens
    budget = _CharacterBudget(max_characters)
    is_short = sum(len(line.text) + 1 for line in lines) <= budget.remaining_characters
    for kind in _KINDS:
        budget.add(
            lines,
            kind,
            max_characters=budget.remaining_characters if is_short else max_characters // _KIND_BUDGET_DIVISOR,
        )
    included_summary = ""
    earlier_summary = f"{MARK}{quote(earlier_summary)}" if earlier_summary else ""
    if earlier_summary and (is_truncated or not is_short) and len(earlier_summary) < budget.remaining_characters // 2:
        included_summary = earlier_summary
        budget.remaining_characters -= len(earlier_summary) + 1
    budget.add(lines, _SPEECH, max_characters=budget.remaining_characters)
    for kind in _KINDS:
        budget.add(lines, kind, max_characters=budget.remaining_characters, only_whole=True)
    return SessionContext(
        lines=[budget.lines[index] for index in sorted(budget.lines, reverse=True)], earlier_summary=included_summary
    )


def _error_type(message: pb.Message) -> str:
    """Return an error's type: from the metadata, or the name at the start of its text."""
    fields = message.metadata.fields
    for name in _ERROR_TYPES:
        if name in fields and fields[name].string_value:
            return fields[name].string_value[:_MAX_ERROR_TYPE_CHARACTERS]
    match = _LEADING_TYPE.match(message.content)
    return match[1] if match else _UNKNOWN_ERROR


class _CharacterBudget:
    """A budget of characters for lines; each line costs one more for its line break."""

    def __init__(self, budget: int) -> None:
        # The first line has no break before it.
        self.remaining_characters = budget + 1
        # By index, newest first.
        self.lines: dict[int, ContextLine] = {}

    def add(self, lines: Sequence[ContextLine], kind: str, *, max_characters: int, only_whole: bool = False) -> None:
        """Add the newest lines of a kind that fit; the first may be truncated unless `only_whole`."""
        is_first = not only_whole
        for index, line in enumerate(lines):
            if line.kind != kind or index in self.lines:
                continue
            truncated_line = line.truncate(min(max_characters, self.remaining_characters) - 1)
            if truncated_line is None or (truncated_line is not line and not is_first):
                return
            is_first = False
            self.lines[index] = truncated_line
            length = len(truncated_line.text) + 1
            max_characters -= length
            self.remaining_characters -= length
