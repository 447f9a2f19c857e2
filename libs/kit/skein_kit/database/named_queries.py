"""Named queries: reads `.sql` files, binds keywords to positions, and observes each run. Opens no connection.

A file holds queries in this form; the comment lines are the description:

    -- get_memory --
    -- Read one memory that is not deleted.
    SELECT ... WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

Metrics, spans and the log name a query and never quote its values. Each statement begins with its name as a comment, so
the log of Postgres has the same name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import asyncpg
from opentelemetry import trace
from opentelemetry.semconv.attributes import db_attributes, error_attributes
from opentelemetry.trace import SpanKind
from prometheus_client import Counter

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import QUERY_TIME, TRACING, exemplar

SLOW_SECONDS = 1.0
SLOW = Counter(
    "skein_database_slow_queries_total",
    "Named queries slower than SKEIN_SLOW_QUERY_SECONDS. Each is also a slow_query event in the log.",
    ["service", "query"],
)

log = logs.get("skein")

_HEADER = re.compile(r"^-- ([a-z][a-z0-9_]*) --$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_POSITION = re.compile(r"\$(\d+)")
# A colon and a name, neither in a cast (::text) nor within quotes.
_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|::|:([a-z_][a-z0-9_]*)")
# What `:first_of_x` and `:last_of_x` are of the array `:x`.
_ENDS: Mapping[str, Any] = {"first": min, "last": max}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement with its name, its description and the order of its parameters."""

    name: str
    description: str
    text: str
    parameters: tuple[str, ...]
    operation: str

    @classmethod
    def parse(cls, name: str, body: str) -> Query:
        """Parse a query: `:name` placeholders become `$1`, `$2`, ... in order of first use."""
        description = " ".join(line.removeprefix("--").strip() for line in body.splitlines() if line.startswith("--"))
        order: list[str] = []
        text = _number_placeholders(_COMMENT.sub("", body), order).strip().rstrip(";")
        operation = text.split(None, 1)[0].upper() if text else ""
        return cls(
            name=name,
            description=description,
            text=f"/* {name} */ {text}",
            parameters=tuple(order),
            operation=operation,
        )

    def bind(self, values: Mapping[str, object]) -> list[object]:
        """Return the values in the order of the placeholders. Raises TypeError for a missing or unknown name.

        `:first_of_x` and `:last_of_x` are the least and the greatest id of the array `:x`. By them Postgres opens the
        months between the two alone. Else a look-up of an array opens every month, and searches it for each id.
        """
        if len(values) != len(self.parameters):
            values = {**values, **self._ranges(values)}
        if len(values) != len(self.parameters):
            unknown_names = sorted(set(values) ^ set(self.parameters))
            message = f"{self.name} takes other parameters: {', '.join(unknown_names)}"
            raise TypeError(message)
        try:
            return [values[parameter] for parameter in self.parameters]
        except KeyError as error:
            message = f"{self.name} needs {error.args[0]}"
            raise TypeError(message) from None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The parameters without the ends of ranges, which `bind` computes."""
        return tuple(name for name in self.parameters if not _range_of(name)[0])

    def _ranges(self, values: Mapping[str, object]) -> dict[str, UUID | None]:
        ends: dict[str, UUID | None] = {}
        for parameter in self.parameters:
            end, array = _range_of(parameter)
            if end and array in values:
                ids: Any = values[array]
                ends[parameter] = None if ids is None else _ENDS[end](ids, default=UUID(int=0))
        return ends


def _range_of(parameter: str) -> tuple[str, str]:
    """Return "first" or "last", and the array whose range a parameter ends; empty texts for another parameter."""
    end, _, array = parameter.partition("_of_")
    return (end, array) if end in _ENDS else ("", "")


def _number_placeholders(text: str, order: list[str]) -> str:
    """Replace `:name` placeholders by their positions in `order`, and append new names to it."""

    def position(match: re.Match[str]) -> str:
        parameter = match.group(1)
        if parameter is None:
            return match.group(0)
        if parameter not in order:
            order.append(parameter)
        return f"${order.index(parameter) + 1}"

    return _PLACEHOLDER.sub(position, text)


# Most parameters of one statement; the limit of Postgres is 65,535.
MAX_PARAMETERS = 4000
_FEW_ROWS = 32
# Rows of one statement of a larger batch: the largest number that fits.
_MANY_ROWS = (512, 128, _FEW_ROWS)
_VALUES = re.compile(r"\bVALUES\s*(\([^()]*\))", re.IGNORECASE)


def batch_size(rows: int) -> int:
    """Return how many of `rows` rows the next statement inserts: all of a few, else one of three numbers.

    Each number of rows is a statement of its own, which each connection prepares once and keeps. Preparing 500 wide
    rows takes longer (20 ms) than inserting them, and statements for all numbers would take more than 100 MB per server
    process.
    """
    return rows if rows <= _FEW_ROWS else next(size for size in _MANY_ROWS if size <= rows)


# A parameter of VALUES, with its type if it has a cast.
_TYPED_POSITION = re.compile(r"\$(\d+)(?:::([a-z][a-z0-9]*))?")
_ROWS = "SELECT {} FROM unnest({}) AS item ({})"
# Rows of one statement whose values come as arrays: encoding them takes some milliseconds of the event loop.
MAX_ARRAY_ROWS = 4096


@lru_cache(maxsize=1024)
def array_insert(query: Query) -> str | None:
    """Return an `INSERT ... SELECT` of any number of rows, which binds an array for each parameter after the tenant.

    One statement serves all numbers of rows. None unless each of these parameters has a cast in VALUES. Raises
    ValueError for another kind of query. Citus would COPY the rows to the shards, which row-level security refuses.
    """
    match = _values(query)
    types = {int(number): name for number, name in _TYPED_POSITION.findall(match.group(1)) if name}
    numbers = range(2, len(query.parameters) + 1)
    if not types.keys() >= set(numbers):
        return None

    def column(position: re.Match[str]) -> str:
        return "$1::uuid" if position.group(1) == "1" else f"item.p{position.group(1)}"

    columns = _TYPED_POSITION.sub(column, match.group(1)[1:-1])
    arrays = ", ".join(f"${number}::{types[number]}[]" for number in numbers)
    names = ", ".join(f"p{number}" for number in numbers)
    return f"{query.text[: match.start()]}{_ROWS.format(columns, arrays, names)}{query.text[match.end() :]}"


@lru_cache(maxsize=1024)
def joined_inserts(inserts: tuple[tuple[Query, bool], ...], then: Query | None) -> Query:
    """Return one statement of several inserts, each of one row or (True) of arrays, and of a query that follows them.

    All share `:tenant_id`, the first parameter of each. The values of the others come insert by insert. The statement
    returns the rows of `then`, which sees the state before the inserts.
    """
    texts, last = [], 1
    for query, has_arrays in inserts:
        text = (array_insert(query) if has_arrays else query.text) or ""
        texts.append(_renumber_placeholders(text.removeprefix(f"/* {query.name} */ "), last - 1, shared=1))
        last += len(query.parameters) - 1
    names = [query.name for query, _ in inserts]
    if then is not None:
        names.append(then.name)
        texts.append(_renumber_placeholders(then.text.removeprefix(f"/* {then.name} */ "), last - 1, shared=1))
    steps = ", ".join(f"{name} AS ({text})" for name, text in zip(names[:-1], texts[:-1], strict=True))
    name = "+".join(names)
    text = f"/* {name} */ WITH {steps} {texts[-1]}"
    return Query(name=name, description="", text=text, parameters=(), operation="INSERT")


def _values(query: Query) -> re.Match[str]:
    """Return the VALUES of an INSERT of rows that starts with :tenant_id. Raises ValueError for another query."""
    match = _VALUES.search(query.text)
    if match is None or query.parameters[:1] != ("tenant_id",):
        message = f"{query.name} is not an INSERT of rows that starts with :tenant_id"
        raise ValueError(message)
    return match


@lru_cache(maxsize=4096)
def multi_row_insert(query: Query, count: int) -> str:
    """Return an `INSERT ... VALUES (...)` of `count` rows, the only bulk form that Citus routes whole.

    `:tenant_id` must be the first parameter; all rows share it. The others are renumbered row by row. Raises ValueError
    for another kind of query.
    """
    match = _values(query)
    parameters_per_row = len(query.parameters) - 1
    rows = ", ".join(
        _renumber_placeholders(match.group(1), index * parameters_per_row, shared=1) for index in range(count)
    )
    return f"{query.text[: match.start(1)]}{rows}{query.text[match.end(1) :]}"


def _renumber_placeholders(text: str, offset: int, *, shared: int = 0) -> str:
    """Return a text with its parameters renumbered by an offset, except the first `shared` ones."""

    def renumber(match: re.Match[str]) -> str:
        position = int(match.group(1))
        return f"${position if position <= shared else position + offset}"

    return _POSITION.sub(renumber, text)


@lru_cache(maxsize=1024)
def grouped_insert(query: Query, row_parameters: int, groups: int, rows: int) -> Query:
    """Return an `INSERT ... VALUES (...)` of `groups` groups of `rows` rows; a group binds its shared values once.

    VALUES must hold the parameters in their order. All rows share `:tenant_id`. Each row has its own values of the
    `row_parameters` parameters after it; a group shares the others. The values of a group come row by row, then the
    shared ones.
    Raises ValueError for another kind of query.
    """
    match = _VALUES.search(query.text)
    all_placeholders = ", ".join(f"${number}" for number in range(1, len(query.parameters) + 1))
    if (
        match is None
        or query.parameters[:1] != ("tenant_id",)
        or " ".join(match.group(1).split()) != f"({all_placeholders})"
    ):
        message = f"{query.name} is not an INSERT of its parameters in their order that starts with :tenant_id"
        raise ValueError(message)
    shared = len(query.parameters) - 1 - row_parameters
    size = row_parameters * rows + shared

    def row(first: int, index: int) -> str:
        row_numbers = range(first + index * row_parameters, first + (index + 1) * row_parameters)
        shared_numbers = range(first + rows * row_parameters, first + size)
        return f"($1, {', '.join(f'${number}' for number in (*row_numbers, *shared_numbers))})"

    text = ", ".join(row(2 + group * size, index) for group in range(groups) for index in range(rows))
    return replace(
        query,
        text=f"{query.text[: match.start(1)]}{text}{query.text[match.end(1) :]}",
        parameters=("tenant_id", *(f"value_{number}" for number in range(groups * size))),
    )


# MATERIALIZED and OFFSET 0 keep the planner from merging the two queries: each runs once.
_LEFT_JOIN = (
    "WITH found AS MATERIALIZED (SELECT {} FROM ({}) AS given) "
    "SELECT * FROM found LEFT JOIN ({} OFFSET 0) AS other ON {}"
)


def left_join(query: Query, other: Query, *, on: str, columns: str = "*", **replacements: str) -> Query:
    """Return a statement that joins to each row of `query` the matching row of `other`, or nulls; in no order.

    The rows of `query` are the table `found`, with `columns`. `on` is the join condition, without parameters.
    `replacements` replace parameters of `other` by expressions over `found` and further `:name` parameters. Both
    queries share parameters of the same name. Raises TypeError for an unknown parameter of `other`.
    """
    if unknown_names := sorted(replacements.keys() - set(other.parameters)):
        message = f"{other.name} takes other parameters: {', '.join(unknown_names)}"
        raise TypeError(message)
    order = [*query.parameters]
    positions = [_number_placeholders(replacements.get(name, f":{name}"), order) for name in other.parameters]
    other_text = _POSITION.sub(lambda match: positions[int(match.group(1)) - 1], other.text)
    name = f"{query.name}+{other.name}"
    text = f"/* {name} */ {_LEFT_JOIN.format(columns, query.text, other_text, on)}"
    return replace(query, name=name, text=text, parameters=tuple(order))


CONDITION = "{condition}"


@lru_cache(maxsize=1024)
def with_condition(query: Query, condition: str) -> Query:
    """Return a query with `condition` in place of its {condition}; the condition's `:name` parameters come last."""
    order = [*query.parameters]
    text = query.text.replace(CONDITION, _number_placeholders(condition, order))
    return replace(query, text=text, parameters=tuple(order))


# The tables that have a view in the schema as_of, by their schema; no two views have the same name.
AS_OF_VIEWS = {
    "memory": (
        "aliases", "block_agents", "blocks", "conflict_resolutions", "links", "memories", "source_trust", "sources",
        "tags", "trust", "trusted_links",
    ),
    "recall": ("corpora", "documents", "frequencies", "postings", "removals"),
    "session": ("messages", "sessions", "title_terms"),
    "tenancy": ("policies", "subjects"),
}  # fmt: skip
# Each model has a table of vectors, and a view.
_VECTOR_TABLES = r"\brecall\.embeddings_[a-z0-9_]+\b"
_VIEWED_TABLE = re.compile(
    "|".join(
        [rf"\b{schema}\.({'|'.join(tables)})\b(?!\()" for schema, tables in AS_OF_VIEWS.items() if tables]
        + [_VECTOR_TABLES]
    )
)


@lru_cache(maxsize=1024)
def as_of(query: Query) -> Query:
    """Return a query that reads the views of the schema as_of in place of their tables, under a name of its own.

    Run it in a transaction with TxOptions.as_of_time. Add conditions before, because they may name tables as well.
    """
    name = f"{query.name}_as_of"
    text = _VIEWED_TABLE.sub(
        lambda match: f"as_of.{match.group(0).partition('.')[2]}",
        query.text.removeprefix(f"/* {query.name} */ "),
    )
    return replace(query, name=name, text=f"/* {name} */ {text}")


def with_schema(schema: str, query: Query) -> Query:
    """Return a query of the kit for the tables of one schema: `schema` replaces `any_schema`."""
    return replace(query, text=query.text.replace("any_schema.", f"{schema}."))


def inline_values(query: Query, values: Mapping[str, int | str | UUID]) -> str:
    """Return the text of a query with its values inlined, which may be sent together with other statements."""
    parameters = query.bind(values)
    return _POSITION.sub(lambda match: _literal(parameters[int(match.group(1)) - 1]), query.text)


def inline_rows(query: Query, shared: Sequence[int | str | UUID], rows: Iterable[Sequence[int | str | UUID]]) -> str:
    """Return an `INSERT ... VALUES (...)` with the values of its rows inlined, the `shared` ones first in each row.

    Use it for ids, numbers and times only: Postgres may log the text of a statement. Raises ValueError for another kind
    of query.
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
    # The meaning of a backslash depends on the settings of Postgres.
    if not isinstance(value, (str, UUID)) or "\\" in text:
        message = "only numbers, ids and texts without a backslash can be inlined"
        raise TypeError(message)
    return f"'{text}'"


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries of one package, by name: `queries["get_memory"]`."""

    by_name: Mapping[str, Query]

    @classmethod
    def load(cls, package: str) -> Queries:
        """Read every .sql file of a package except its migrations. Raises ValueError for a duplicate name."""
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
    return [Query.parse(name, body) for name, body in zip(parts[1::2], parts[2::2], strict=True)]


class QueryObserver:
    """Observes the queries of one service in one database."""

    def __init__(self, *, service: str, database: str, slow_seconds: float) -> None:
        """Log queries that take longer than `slow_seconds`; 0: none."""
        self._service = service
        self._database = database
        self._slow_seconds = slow_seconds
        self._timers: dict[str, Any] = {}

    def observe(self, query: Query, batch: int = 1) -> QueryRun:
        """Time a query (of a `batch` of rows) while the block runs and, when tracing is on, give it a span."""
        return QueryRun(self, query, batch)

    def start_span(self, query: Query, batch: int) -> AbstractContextManager[trace.Span] | None:
        """Return the context of a query's span; None while tracing is off."""
        if not TRACING.on:
            return None
        return TRACING.tracer.start_as_current_span(
            query.name,
            kind=SpanKind.CLIENT,
            attributes=self._attributes(query, batch),
            # The message of an error may quote values.
            record_exception=False,
            set_status_on_exception=False,
        )

    def record(
        self, query: Query, seconds: float, rows: int | None, outcome: str, exemplar_labels: dict[str, str] | None
    ) -> None:
        """Add a run to the metrics, and log it when it was slow; the log knows its call."""
        timer = self._timers.get(query.name)
        if timer is None:
            timer = self._timers[query.name] = QUERY_TIME.labels(self._service, query.name)
        timer.observe(seconds, exemplar_labels)
        if not 0 < self._slow_seconds <= seconds:
            return
        SLOW.labels(self._service, query.name).inc()
        log.warning(
            "slow_query",
            service=self._service,
            query_name=query.name,
            milliseconds=round(seconds * 1000, 1),
            rows=rows,
            outcome=outcome,
        )

    def _attributes(self, query: Query, batch: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            db_attributes.DB_SYSTEM_NAME: "postgresql",
            db_attributes.DB_NAMESPACE: self._database,
            db_attributes.DB_OPERATION_NAME: query.operation,
            db_attributes.DB_QUERY_SUMMARY: query.name,
            db_attributes.DB_QUERY_TEXT: query.text,
        }
        if batch > 1:
            attributes[db_attributes.DB_OPERATION_BATCH_SIZE] = batch
        return attributes


class QueryRun:
    """One run of a query: the duration of its block."""

    __slots__ = ("_batch", "_observer", "_query", "_span", "_span_context", "_start_time", "rows")

    def __init__(self, observer: QueryObserver, query: Query, batch: int) -> None:
        """Report to `observer` at the end of the block."""
        self._observer = observer
        self._query = query
        self._batch = batch
        self._start_time = 0.0
        self._span_context: AbstractContextManager[trace.Span] | None = None
        self._span: trace.Span | None = None
        # Rows that it returned or changed; the block sets it.
        self.rows: int | None = None

    def __enter__(self) -> Self:
        self._start_time = time.perf_counter()
        self._span_context = self._observer.start_span(self._query, self._batch)
        if self._span_context is not None:
            self._span = self._span_context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        seconds = time.perf_counter() - self._start_time
        outcome = "ok" if error is None else _outcome(error)
        if self._span_context is None or self._span is None:
            self._observer.record(self._query, seconds, self.rows, outcome, None)
            return
        if error is not None:
            if isinstance(error, asyncpg.PostgresError):
                self._span.set_attribute(db_attributes.DB_RESPONSE_STATUS_CODE, outcome)
            self._span.set_attribute(error_attributes.ERROR_TYPE, outcome)
            self._span.set_status(trace.StatusCode.ERROR)
        try:
            self._observer.record(self._query, seconds, self.rows, outcome, exemplar(self._span))
        finally:
            self._span_context.__exit__(kind, error, at)


def _outcome(error: BaseException) -> str:
    """Return the SQLSTATE of an error of Postgres, or the class of another one."""
    return str(error.sqlstate) if isinstance(error, asyncpg.PostgresError) else type(error).__name__
