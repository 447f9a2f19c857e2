"""The newest messages of a session within a budget of tokens. Pure.

Each message costs its text (`skein_kit.text.token_estimate`) and four tokens for its role and wrapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf import json_format

from skein_kit.text.token_estimate import CHARACTERS_PER_TOKEN, estimate_tokens

if TYPE_CHECKING:
    from skein.session.v1 import session_pb2 as pb

TOKENS_OF_A_MESSAGE = 4


def tokens_of(message: pb.Message) -> int:
    """Estimate the tokens of a message: its content and name, and its parts and tool calls and returns as JSON."""
    lists = (message.parts, message.tool_calls, message.tool_returns)
    others = sum(len(json_format.MessageToJson(value, indent=None)) for value in lists if value.values)
    characters = len(message.content) + len(message.name) + others
    return TOKENS_OF_A_MESSAGE - (-characters // CHARACTERS_PER_TOKEN)


@dataclass(slots=True)
class RecentWindow:
    """The newest messages that fit a budget, added one by one, newest first.

    A window that leaves messages out has the session's summary. A summary of more than half of the budget is left
    out whole, because a part of it may say the opposite.
    """

    budget: int
    summary: str = ""
    # Newest first, each with its tokens.
    messages_with_tokens: list[tuple[pb.Message, int]] = field(default_factory=list)
    token_count: int = 0
    is_full: bool = False
    # True when older messages are left out; set by close.
    is_cut: bool = False

    def add(self, message: pb.Message) -> bool:
        """Add the next older message; return False, for every later message too, when it does not fit."""
        tokens = tokens_of(message)
        if self.is_full or self.token_count + tokens > self.budget:
            self.is_full = True
            return False
        self.messages_with_tokens.append((message, tokens))
        self.token_count += tokens
        return True

    def close(self, *, message_count: int) -> None:
        """Reserve tokens for the summary when the session's `message_count` is higher than the window's."""
        self.is_cut = len(self.messages_with_tokens) < message_count
        tokens = estimate_tokens(self.summary)
        if not self.is_cut or tokens > self.budget // 2:
            self.summary = ""
        if not self.summary:
            return
        while self.messages_with_tokens and self.token_count + tokens > self.budget:
            self.token_count -= self.messages_with_tokens.pop()[1]
        self.token_count += tokens

    def messages(self) -> list[pb.Message]:
        """Return the messages, oldest first."""
        return [message for message, _ in reversed(self.messages_with_tokens)]
