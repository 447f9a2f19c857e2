"""Compiles an expression to SQL that is true or false, never null, and its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Path, Tags, Value
from skein_kit.filters.fields import ITEM_FIELDS, Kind
from skein_kit.json_values import exact
from skein_kit.text.unicode_form import compared_form, compared_sql


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterTable:
    """A table that a condition applies to: its name in the statement, and its SQL for tags and columns."""

    name: str
    # SQL for: the row has any of the tags in a parameter; all of them; any tag at all. Empty: the rows have no tags.
    any_tag: str = ""
    all_tags: str = ""
    has_tags: str = ""
    # SQL of fields that differ from the column of their name.
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def column(self, name: str) -> str:
        """Return the SQL of a column."""
        return self.columns.get(name, f"{self.name}.{name}")


_TAGS = "FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = memories.memory_id"
ENTRIES = FilterTable(
    name="memories",
    any_tag=f"EXISTS (SELECT {_TAGS} AND tags.tag = ANY (:{{}}::text[]))",
    all_tags=f"(SELECT count(*) {_TAGS} AND tags.tag = ANY (:{{}}::text[])) = cardinality(:{{}}::text[])",
    has_tags=f"EXISTS (SELECT {_TAGS})",
    columns={"memory_id": "memories.memory_id::text"},
)
VERSIONS = FilterTable(
    name="versions",
    any_tag="versions.tags && :{}::text[]",
    all_tags="versions.tags @> :{}::text[]",
    has_tags="cardinality(versions.tags) > 0",
    columns={
        "memory_id": "versions.memory_id::text",
        "is_active": "(versions.delete_time IS NULL)",
        # Versions from before migration 37 have no stored hash: it is that of the type and the content.
        "content_hash": "coalesce(versions.content_hash, "
        "sha256(convert_to(versions.type || E'\\n' || versions.content, 'UTF8')))",
    },
)
# Its rows have the fields of messages alone: `for_kind` removes conditions on the others.
MESSAGES = FilterTable(
    name="messages",
    columns={
        "message_id": "messages.message_id::text",
        # Both are NULL until the first update.
        "update_time": "coalesce(messages.update_time, messages.create_time)",
        "updated_by": "coalesce(messages.updated_by, messages.created_by)",
    },
)
_PRIORITY = "ceil(0.5 + 9 * {})"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with `:name` parameters and their values. It also uses the statement's :tenant_id."""

    text: str
    values: Mapping[str, object]


ALWAYS_TRUE = Condition("true", MappingProxyType({}))


def compile_to_sql(expression: Expression | None, table: FilterTable) -> Condition:
    """Compile an expression for the rows of a table; None matches all rows."""
    if expression is None:
        return ALWAYS_TRUE
    compiler = _Compiler(table)
    return Condition(compiler.text(expression), compiler.values)


class _Compiler:
    """Compiles one expression, and collects the values of its parameters."""

    def __init__(self, source: FilterTable) -> None:
        self._source = source
        self.values: dict[str, object] = {}

    def text(self, expression: Expression) -> str:  # noqa: PLR0911 - one for each kind of condition.
        match expression:
            case And(parts):
                return f"({' AND '.join(self.text(part) for part in parts)})"
            case Or(parts):
                return f"({' OR '.join(self.text(part) for part in parts)})"
            case Not(part):
                return f"(NOT {self.text(part)})"
            case Tags(mode, tags):
                return self._tags(mode, tags)
            case Contains(path, text):
                # A text of invisible characters is looked for as it is.
                column = compared_sql(self._column(path)) if compared_form(text) else self._column(path)
                return f"(strpos(lower({column}), lower(:{self._value(text)}::text)) > 0)"
            case Has(path):
                return self._has(path)
            case Compare(path, "!=", value):
                return f"(NOT {self._compare(path, '=', value)})"
            case Compare(path, sign, value):
                return self._compare(path, sign, value)
            case In(path, values):
                return f"({' OR '.join(self._compare(path, '=', value) for value in values)})"

    def _tags(self, mode: str, tags: tuple[str, ...]) -> str:
        name = self._value(sorted(set(tags)))
        if mode == "all":
            return f"({self._source.all_tags.format(name, name)})"
        any_sql = f"({self._source.any_tag.format(name)})"
        return f"(NOT {any_sql})" if mode == "none" else any_sql

    def _compare(self, path: Path, sign: str, value: Value) -> str:
        kind = ITEM_FIELDS[path[0]].kind
        if kind is Kind.PROPERTIES:
            parameter = self._value(exact.dumps({"v": value}))
            test = self._property(path, f"? (@ {'==' if sign == '=' else sign} $v)", f":{parameter}::jsonb")
            # An unset property equals the empty text, as an unset field does.
            return f"({test} OR NOT {self._has(path)})" if sign == "=" and value == "" else test
        if kind is Kind.DIGEST:
            return f"({self._column(path)} {sign} :{self._value(bytes.fromhex(str(value)))}::bytea)"
        if ITEM_FIELDS[path[0]].ignores_case:
            return f"(lower({self._column(path)}) {sign} lower(:{self._value(value)}::text))"
        # SQL compares NULL to unknown; here an unset field does not satisfy a comparison.
        return f"(({self._column(path)} {sign} :{self._value(value)}::{_TYPES[kind]}) IS TRUE)"

    def _has(self, path: Path) -> str:
        kind = ITEM_FIELDS[path[0]].kind
        if kind is Kind.PROPERTIES and len(path) > 1:
            return self._property(path, "? (@ != null)", "'{}'::jsonb")
        if kind is Kind.TAGS:
            return f"({self._source.has_tags})"
        if kind is Kind.TEXT:
            return f"({self._column(path)} <> '')"
        return f"({self._column(path)} IS NOT NULL)"

    def _property(self, path: Path, test: str, values: str) -> str:
        keys = "".join(f".{json.dumps(key)}" for key in path[1:])
        parameter = self._value(f"${keys} {test}")
        column = self._source.column(path[0])
        return f"(jsonb_path_exists({column}, :{parameter}::text::jsonpath, {values}, true) IS TRUE)"

    def _column(self, path: Path) -> str:
        field_ = ITEM_FIELDS[path[0]]
        if field_.name == "priority":
            return _PRIORITY.format(self._source.column("importance"))
        column = self._source.column(field_.column)
        return f"coalesce({column}, '')" if field_.kind is Kind.TEXT else column

    def _value(self, value: object) -> str:
        name = f"where_{len(self.values)}"
        self.values[name] = value
        return name


_TYPES = {
    Kind.TEXT: "text",
    Kind.NUMBER: "double precision",
    Kind.TIME: "timestamptz",
    Kind.BOOLEAN: "boolean",
}
