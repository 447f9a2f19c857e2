"""Turns a condition into SQL: a text that is true or false, never null, and the values that it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skein_kit.filters.expression import And, Compare, Contains, Expression, Has, In, Not, Or, Path, Tags, Value
from skein_kit.filters.fields import FIELDS, Kind
from skein_kit.json_values import exact


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterTable:
    """The table whose rows are asked, by its name in the statement, and what its columns are called there."""

    name: str
    # The tags of a row among those in a parameter: any of them, all of them (so many), any at all.
    any_tag: str
    all_tags: str
    has_tags: str
    # Columns that are made of others.
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def column(self, name: str) -> str:
        """Return a column as the statement names it."""
        return self.columns.get(name, f"{self.name}.{name}")


_TAGS = "FROM memory.tags WHERE tags.tenant_id = :tenant_id AND tags.memory_id = entries.memory_id"
ENTRIES = FilterTable(
    name="entries",
    any_tag=f"EXISTS (SELECT {_TAGS} AND tags.tag = ANY (:{{}}::text[]))",
    all_tags=f"(SELECT count(*) {_TAGS} AND tags.tag = ANY (:{{}}::text[])) = cardinality(:{{}}::text[])",
    has_tags=f"EXISTS (SELECT {_TAGS})",
    columns={"memory_id": "entries.memory_id::text"},
)
VERSIONS = FilterTable(
    name="versions",
    any_tag="versions.tags && :{}::text[]",
    all_tags="versions.tags @> :{}::text[]",
    has_tags="cardinality(versions.tags) > 0",
    columns={
        "memory_id": "versions.memory_id::text",
        "is_active": "(versions.delete_time IS NULL)",
        # Rows of versions before migration 37 have no hash of their own: theirs is of the type and the content.
        "content_hash": "coalesce(versions.content_hash, "
        "sha256(convert_to(versions.type || E'\\n' || versions.content, 'UTF8')))",
    },
)
_PRIORITY = "ceil(0.5 + 9 * {})"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in SQL with `:name` parameters, and their values; besides, it takes the statement's :tenant_id."""

    text: str
    values: Mapping[str, object]


EVERYTHING = Condition("true", MappingProxyType({}))


def compile_to_sql(expression: Expression | None, table: FilterTable) -> Condition:
    """Turn a condition into SQL over the rows of a table; None is no condition."""
    if expression is None:
        return EVERYTHING
    compiler = _Compiler(table)
    return Condition(compiler.text(expression), compiler.values)


class _Compiler:
    """Collects the values of one condition."""

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
                return f"(strpos(lower({self._column(path)}), lower(:{self._value(text)}::text)) > 0)"
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
        found = f"({self._source.any_tag.format(name)})"
        return f"(NOT {found})" if mode == "none" else found

    def _compare(self, path: Path, sign: str, value: Value) -> str:
        kind = FIELDS[path[0]].kind
        if kind is Kind.PROPERTIES:
            said = self._value(exact.dumps({"v": value}))
            return self._property(path, f"? (@ {'==' if sign == '=' else sign} $v)", f":{said}::jsonb")
        if kind is Kind.DIGEST:
            return f"({self._column(path)} {sign} :{self._value(bytes.fromhex(str(value)))}::bytea)"
        # What is not there is unknown to the database: here it does not hold.
        return f"(({self._column(path)} {sign} :{self._value(value)}::{_TYPES[kind]}) IS TRUE)"

    def _has(self, path: Path) -> str:
        kind = FIELDS[path[0]].kind
        if kind is Kind.PROPERTIES and len(path) > 1:
            return self._property(path, "? (@ != null)", "'{}'::jsonb")
        if kind is Kind.TAGS:
            return f"({self._source.has_tags})"
        if kind is Kind.TEXT:
            return f"({self._column(path)} <> '')"
        return f"({self._column(path)} IS NOT NULL)"

    def _property(self, path: Path, test: str, values: str) -> str:
        way = "".join(f".{json.dumps(key)}" for key in path[1:])
        said = self._value(f"${way} {test}")
        column = self._source.column(path[0])
        return f"(jsonb_path_exists({column}, :{said}::text::jsonpath, {values}, true) IS TRUE)"

    def _column(self, path: Path) -> str:
        known = FIELDS[path[0]]
        if known.name == "priority":
            return _PRIORITY.format(self._source.column("importance"))
        column = self._source.column(known.column)
        return f"coalesce({column}, '')" if known.kind is Kind.TEXT else column

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
