"""Named queries: reads `.sql` files and binds keywords to positions. Opens no connection.

A file holds queries in this form; the comment lines are the query's promise:

    -- get_memory --
    -- Read one memory that is not deleted.
    SELECT ... WHERE tenant_id = :tenant_id AND memory_id = :memory_id;
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

_HEADER = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_POSITION = re.compile(r"\$(\d+)")
# A colon and a name, but neither a cast (::text) nor part of a quoted text.
_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|::|:([a-z_][a-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with its name, its promise and the order of its parameters."""

    name: str
    promise: str
    text: str
    parameters: tuple[str, ...]
    operation: str

    @classmethod
    def of(cls, name: str, body: str) -> Query:
        """Turn `:name` placeholders into `$1`, `$2`, ... in order of first use."""
        promise = " ".join(line.removeprefix("--").strip() for line in body.splitlines() if line.startswith("--"))
        order: list[str] = []
        text = _numbered(_COMMENT.sub("", body), order).strip().rstrip(";")
        operation = text.split(None, 1)[0].upper() if text else ""
        # The name goes along: what Postgres logs of a statement says which one of ours it is.
        return cls(
            name=name, promise=promise, text=f"/* {name} */ {text}", parameters=tuple(order), operation=operation
        )

    def bind(self, values: Mapping[str, object]) -> list[object]:
        """Put keywords in the order of the placeholders; a missing or unknown one is a TypeError."""
        if len(values) != len(self.parameters):
            unknown = sorted(set(values) ^ set(self.parameters))
            message = f"{self.name} takes other parameters: {', '.join(unknown)}"
            raise TypeError(message)
        try:
            return [values[parameter] for parameter in self.parameters]
        except KeyError as error:
            message = f"{self.name} needs {error.args[0]}"
            raise TypeError(message) from None


def _numbered(text: str, order: list[str]) -> str:
    """Turn `:name` placeholders into their positions in an order, to which new ones are added."""

    def position(match: re.Match[str]) -> str:
        parameter = match.group(1)
        if parameter is None:
            return match.group(0)
        if parameter not in order:
            order.append(parameter)
        return f"${order.index(parameter) + 1}"

    return _PLACEHOLDER.sub(position, text)


# Parameters of one statement; Postgres takes 65,535 of them.
MAX_PARAMETERS = 4000
FEW_ROWS = 32
# Of more rows, so many go into one statement; the largest that fits comes first.
_MANY_ROWS = (512, 128, FEW_ROWS)
_VALUES = re.compile(r"\bVALUES\s*(\([^()]*\))", re.IGNORECASE)


def batch_size(rows: int) -> int:
    """Return how many of so many rows to send in the next statement: all of a few, else one of three numbers.

    Every number of rows is a statement of its own, which each connection prepares once and keeps: a statement of 500
    wide rows takes longer to prepare (20 ms) than to carry out, and those of all numbers would hold more than 100 MB in
    each of Postgres's processes.
    """
    return rows if rows <= FEW_ROWS else next(many for many in _MANY_ROWS if many <= rows)


@lru_cache(maxsize=4096)
def multi_row_insert(query: Query, count: int) -> str:
    """Return an `INSERT ... VALUES (...)` with `count` rows: the one bulk form that a sharded database routes whole.

    `:tenant_id` must be the first parameter and is shared by all rows; the others are renumbered row by row.
    """
    match = _VALUES.search(query.text)
    if match is None or query.parameters[:1] != ("tenant_id",):
        message = f"{query.name} is not an INSERT of rows that starts with :tenant_id"
        raise ValueError(message)
    own = len(query.parameters) - 1
    rows = ", ".join(_moved(match.group(1), index * own, shared=1) for index in range(count))
    return f"{query.text[: match.start(1)]}{rows}{query.text[match.end(1) :]}"


class InsertPart(NamedTuple):
    """So many rows that a query inserts, of which the last few parameters are the same for all of them."""

    query: Query
    rows: int
    shared: int = 0


@lru_cache(maxsize=4096)
def combine_inserts(parts: tuple[InsertPart, ...], last: Query | None = None) -> Query:
    """Return one statement that inserts so many rows by each of some queries, and then does what `last` does.

    It takes tenant_id, the rows' values one after another, each query's followed by what its rows share, under names
    that say nothing, and what `last` takes, which is no tenant. References between the rows are checked when all are
    there; a sharded database inserts in this order.
    """
    names, inserts = ["tenant_id"], []
    for place, (query, count, shared) in enumerate(parts):
        given, each = len(names) - 1, len(query.parameters) - 1
        text = grouped_insert(query, each - shared, 1, count).text if shared else multi_row_insert(query, count)
        # What returns nothing is no table to a sharded database.
        inserts.append(f"part_{place} AS ({_moved(text, given, shared=1)} RETURNING 1)")
        names += [f"value_{number}" for number in range(given, given + count * (each - shared) + shared)]
    ending = "SELECT 1"
    if last is not None:
        ending = _moved(last.text, len(names))
        names += last.parameters
    name = "+".join([part.query.name for part in parts] + ([last.name] if last is not None else []))
    text = f"/* {name} */ WITH {', '.join(inserts)} {ending}"
    return Query(name=name, promise="", text=text, parameters=tuple(names), operation="WITH")


def _moved(text: str, by: int, *, shared: int = 0) -> str:
    """Return a text whose parameters come so much later, but for the first few, which it shares with others."""

    def moved(match: re.Match[str]) -> str:
        position = int(match.group(1))
        return f"${position if position <= shared else position + by}"

    return _POSITION.sub(moved, text)


@lru_cache(maxsize=1024)
def grouped_insert(query: Query, own: int, groups: int, rows: int) -> Query:
    """Return an `INSERT ... VALUES (...)` of groups of rows, where a group's rows share most values, bound once.

    Of the parameters, which must stand in VALUES in their order, `:tenant_id` is shared by all rows; the `own` ones
    after it are each row's. A group's come row by row, then those that its rows share.
    """
    match = _VALUES.search(query.text)
    every = ", ".join(f"${number}" for number in range(1, len(query.parameters) + 1))
    if match is None or query.parameters[:1] != ("tenant_id",) or " ".join(match.group(1).split()) != f"({every})":
        message = f"{query.name} is not an INSERT of its parameters in their order that starts with :tenant_id"
        raise ValueError(message)
    shared = len(query.parameters) - 1 - own
    size = own * rows + shared

    def row(first: int, index: int) -> str:
        own_ones = range(first + index * own, first + (index + 1) * own)
        shared_ones = range(first + rows * own, first + size)
        return f"($1, {', '.join(f'${number}' for number in (*own_ones, *shared_ones))})"

    text = ", ".join(row(2 + group * size, index) for group in range(groups) for index in range(rows))
    return replace(
        query,
        text=f"{query.text[: match.start(1)]}{text}{query.text[match.end(1) :]}",
        parameters=("tenant_id", *(f"value_{number}" for number in range(groups * size))),
    )


# What is found is made once, and so is what stands beside it; neither is worked into the other.
_BESIDE = (
    "WITH found AS MATERIALIZED (SELECT {} FROM ({}) AS given) "
    "SELECT * FROM found LEFT JOIN ({} OFFSET 0) AS other ON {}"
)


def left_join(query: Query, other: Query, *, on: str, columns: str = "*", **given: str) -> Query:
    """Return a statement of the rows of `query`, in no order, and beside each what `other` has for it, or nulls.

    `found` are `columns` of the rows of `query`, and `on` says, without parameters, which of them and of `other` belong
    together. `given` are parameters of `other` and what stands in their place: expressions, of what is selected from
    `found` and of more `:name` parameters. The parameters that both have are the same.
    """
    if unknown := sorted(given.keys() - set(other.parameters)):
        message = f"{other.name} takes other parameters: {', '.join(unknown)}"
        raise TypeError(message)
    order = [*query.parameters]
    places = [_numbered(given.get(name, f":{name}"), order) for name in other.parameters]
    placed = _POSITION.sub(lambda match: places[int(match.group(1)) - 1], other.text)
    name = f"{query.name}+{other.name}"
    text = f"/* {name} */ {_BESIDE.format(columns, query.text, placed, on)}"
    return replace(query, name=name, text=text, parameters=tuple(order))


CONDITION = "{condition}"


@lru_cache(maxsize=1024)
def with_condition(query: Query, condition: str) -> Query:
    """Return a query with a condition in the place that it marks by {condition}; its `:name` parameters come last."""
    order = [*query.parameters]
    text = query.text.replace(CONDITION, _numbered(condition, order))
    return replace(query, text=text, parameters=tuple(order))


def with_schema(schema: str, query: Query) -> Query:
    """Return a query of the kit for the tables of one service: it names them in `any_schema`."""
    return replace(query, text=query.text.replace("any_schema.", f"{schema}."))


def inline_values(query: Query, values: Mapping[str, int | str | UUID]) -> str:
    """Return a query with its values in it, as it can travel together with other statements."""
    found = query.bind(values)
    return _POSITION.sub(lambda match: _literal(found[int(match.group(1)) - 1]), query.text)


def inline_rows(query: Query, shared: Sequence[int | str | UUID], rows: Iterable[Sequence[int | str | UUID]]) -> str:
    """Return an `INSERT ... VALUES (...)` of rows with their values in it; what all rows share stands first in each.

    For ids, numbers and times: Postgres may log a statement, and what stands in it with it.
    """
    match = _VALUES.search(query.text)
    if match is None:
        message = f"{query.name} is not an INSERT of rows"
        raise ValueError(message)
    start = ", ".join(map(_literal, shared))
    text = ", ".join([f"({start}, {', '.join(map(_literal, row))})" for row in rows])
    return f"{query.text[: match.start(1)]}{text}{query.text[match.end(1) :]}"


def _literal(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("'", "''")
    # Of a backslash Postgres' settings say what it means, and nothing of ours has one.
    if not isinstance(value, (str, UUID)) or "\\" in text:
        message = "only numbers, ids and plain texts can be spelled out"
        raise TypeError(message)
    return f"'{text}'"


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one package, by name: `queries["get_memory"]`."""

    by_name: Mapping[str, Query]

    @classmethod
    def of(cls, package: str) -> Queries:
        """Read every .sql file of a package but its migrations. Raises ValueError for a name used twice."""
        queries: dict[str, Query] = {}
        for file in _query_files(resources.files(package)):
            for query in parse(file.read_text("utf-8")):
                if query.name in queries:
                    message = f"{package} has two queries named {query.name}"
                    raise ValueError(message)
                queries[query.name] = query
        return cls(queries)

    def __getitem__(self, name: str) -> Query:
        """Return a query by its name."""
        return self.by_name[name]


def _query_files(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "migrations":
                yield from _query_files(entry)
        elif entry.name.endswith(".sql"):
            yield entry


def parse(text: str) -> list[Query]:
    """Split the text of a file into its queries."""
    parts = _HEADER.split(text)
    return [Query.of(name, body) for name, body in zip(parts[1::2], parts[2::2], strict=True)]
