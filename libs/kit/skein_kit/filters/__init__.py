"""One grammar of conditions on memories for lists, purges, recall and watches: read, held against a memory, or SQL.

    type = "fact" AND tags:any("tea", "coffee") AND NOT metadata.customer.plan = "trial" AND create_time >= 2026-01-01

A field that nothing is known by does not hold `=` of anything but the empty text, and holds every `!=`: a condition is
true or false, never unknown, so NOT is its opposite. AND and OR beside each other need parentheses.
"""

from __future__ import annotations

from skein_kit.filters.compiler import ENTRIES, VERSIONS, Condition, compiled
from skein_kit.filters.evaluator import holds
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
    written,
)
from skein_kit.filters.fields import FIELDS, Field, Kind, properties_of, property_text
from skein_kit.filters.parser import MAX_CHARACTERS, read

__all__ = [
    "ENTRIES",
    "FIELDS",
    "MAX_CHARACTERS",
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
    "compiled",
    "conjuncts",
    "holds",
    "properties_of",
    "property_text",
    "read",
    "written",
]
