"""How much of a conversation fits a budget of tokens. Pure.

Beside what its text takes (`skein_kit.text.token_estimate`), each message takes four tokens for its role and wrapping.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf import json_format

from skein_kit.text.token_estimate import CHARACTERS_OF_A_TOKEN, estimate_tokens

if TYPE_CHECKING:
    from skein.session.v1 import session_pb2 as pb

TOKENS_OF_A_MESSAGE = 4


def tokens_of(message: pb.Message) -> int:
    """Estimate the tokens of a message: its content and name, and its parts and tool calls and returns as JSON."""
    lists = (message.parts, message.tool_calls, message.tool_returns)
    others = sum(len(json_format.MessageToJson(value, indent=None)) for value in lists if value.values)
    characters = len(message.content) + len(message.name) + others
    return TOKENS_OF_A_MESSAGE - (-characters // CHARACTERS_OF_A_TOKEN)


@dataclass(slots=True)
class RecentWindow:
    """The newest messages that fit a budget, taken one by one, newest first.

    The summary of what came before belongs to a window that leaves something out. It may take half of the budget; a
    longer one is left out, for half a summary may say the opposite.
    """

    budget: int
    summary: str = ""
    # Newest first, each with its tokens.
    taken: list[tuple[pb.Message, int]] = field(default_factory=list)
    token_count: int = 0
    is_full: bool = False

    def take(self, message: pb.Message) -> bool:
        """Add the next older message if it fits; what comes after one that does not is never asked."""
        tokens = tokens_of(message)
        if self.is_full or self.token_count + tokens > self.budget:
            self.is_full = True
            return False
        self.taken.append((message, tokens))
        self.token_count += tokens
        return True

    def close(self, *, is_cut: bool) -> str:
        """Make room for the summary when older messages are left out; return it, or "" when it is not to be said."""
        tokens = estimate_tokens(self.summary)
        if not is_cut or not self.summary or tokens > self.budget // 2:
            return ""
        while self.taken and self.token_count + tokens > self.budget:
            self.token_count -= self.taken.pop()[1]
        self.token_count += tokens
        return self.summary

    def messages(self) -> list[pb.Message]:
        """Return the messages, oldest first."""
        return [message for message, _ in reversed(self.taken)]
