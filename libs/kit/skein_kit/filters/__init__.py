"""The filter language: conditions on memories for lists, purges and webhooks, and on memories and messages for recall.

The parser turns text into an expression; the evaluator applies it to an item, the compiler turns it into SQL.

    type = "fact" AND tags:any("tea", "coffee") AND NOT metadata.customer.plan = "trial" AND create_time >= 2026-01-01

A condition is true or false, never unknown, so NOT is its opposite. An unset field equals only the empty text, and
satisfies every other `!=`. AND and OR side by side need parentheses.
"""

from __future__ import annotations

from skein_kit.filters.compiler import ENTRIES, MESSAGES, VERSIONS, Condition, compile_to_sql
from skein_kit.filters.evaluator import matches
from skein_kit.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    Has,
    In,
    Mode,
    Not,
    Or,
    Tags,
    conjuncts,
    format_expression,
)
from skein_kit.filters.fields import (
    FIELDS,
    ITEM_FIELDS,
    ITEM_KINDS,
    MESSAGE_FIELDS,
    Field,
    Kind,
    fold_case,
    properties_of,
    property_text,
)
from skein_kit.filters.item_kinds import for_kind
from skein_kit.filters.parser import MAX_CHARACTERS, may_name_day, parse

__all__ = [
    "ENTRIES",
    "FIELDS",
    "ITEM_FIELDS",
    "ITEM_KINDS",
    "MAX_CHARACTERS",
    "MESSAGES",
    "MESSAGE_FIELDS",
    "VERSIONS",
    "And",
    "Compare",
    "Condition",
    "Contains",
    "Expression",
    "Field",
    "Has",
    "In",
    "Kind",
    "Mode",
    "Not",
    "Or",
    "Tags",
    "compile_to_sql",
    "conjuncts",
    "fold_case",
    "for_kind",
    "format_expression",
    "matches",
    "may_name_day",
    "parse",
    "properties_of",
    "property_text",
]
