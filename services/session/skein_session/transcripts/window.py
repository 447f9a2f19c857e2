"""The newest messages of a session within a budget of tokens. Pure.

Each message costs its text (`skein_kit.text.token_estimate`) and four tokens for its role and wrapping.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skein_kit.text.token_estimate import estimate_tokens, token_units, tokens_of_units
from skein_session.messages.model import LIST_FIELDS

if TYPE_CHECKING:
    from skein_session.messages.model import MessageRow

TOKENS_OF_A_MESSAGE = 4


def tokens_of(row: MessageRow) -> int:
    """Estimate the tokens of a message: its content and name, and its parts and tool calls and returns as JSON."""
    # Numbers count as doubles, as protobuf writes them.
    lists = (json.loads(row[column], parse_int=float) for column in LIST_FIELDS if row[column] is not None)
    other_units = sum(token_units(json.dumps(values, ensure_ascii=False)) for values in lists if values)
    units = token_units(row["content"]) + token_units(row["name"] or "") + other_units
    return TOKENS_OF_A_MESSAGE + tokens_of_units(units)


@dataclass(slots=True)
class RecentWindow:
    """The newest messages that fit a budget, added one by one, newest first.

    A window that leaves messages out has the session's summary. A summary of more than half of the budget is left
    out whole, because a part of it may say the opposite.
    """

    budget: int
    # The messages of the session.
    message_count: int
    summary: str = ""
    # Newest first.
    rows: list[MessageRow] = field(default_factory=list)
    token_count: int = 0
    # True when older messages are left out; set by close.
    is_truncated: bool = False

    def add(self, row: MessageRow) -> bool:
        """Add the next older message; return False when it does not fit."""
        tokens = tokens_of(row)
        if self.token_count + tokens > self.budget:
            return False
        self.rows.append(row)
        self.token_count += tokens
        return True

    def trim(self, *, limit: int) -> None:
        """Keep the newest `limit` messages, and reserve tokens for the summary when others are left out."""
        while len(self.rows) > limit:
            self._drop_oldest()
        self.is_truncated = len(self.rows) < self.message_count
        tokens = estimate_tokens(self.summary)
        if not self.is_truncated or tokens > self.budget // 2:
            self.summary = ""
        if not self.summary:
            return
        while self.rows and self.token_count + tokens > self.budget:
            self._drop_oldest()
        self.token_count += tokens

    def _drop_oldest(self) -> None:
        self.token_count -= tokens_of(self.rows.pop())
