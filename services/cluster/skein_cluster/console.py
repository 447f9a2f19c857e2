"""What the command prints: tables for people, one JSON document for programs, notes on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skein_kit import exact_json, json_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.console import JustifyMethod

# Width of a table that goes to a file or a pipe, where rich would assume 80.
_PIPE_WIDTH = 120
# Width that each column beside an id needs at least, its padding included.
_LEAST_WIDTH = 10


def out() -> Console:
    """Return stdout; made anew for each use, because tests and pipes exchange it."""
    return _console(stderr=False)


def err() -> Console:
    """Return stderr."""
    return _console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document on stdout, in ASCII where the stream cannot say more."""
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    click.echo(exact_json.dumps(value, indent=2, ensure_ascii=not is_unicode))


def as_json(message: Message, *, with_texts: bool = True) -> dict[str, Any]:
    """Convert a message with its fields named as in the protos, empty ones included, so that the shape is stable."""
    return json_fields.to_values(
        message, with_texts=with_texts, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def table(*columns: str, title: str = "", numbers: Iterable[str] = (), ids: Iterable[str] = ()) -> Table:
    """Return an empty table; columns in `numbers` are aligned to the right, those in `ids` broken last of all.

    An id that is broken over two lines cannot be copied.
    """
    made = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, title_style="bold")
    right, whole = set(numbers), set(ids)
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)
    return made


def rows(into: Table, lines: Sequence[Sequence[object]], *, empty: str) -> None:
    """Fill a table and print it; print `empty` instead when there is nothing to show."""
    if not lines:
        err().print(Text(empty))
        return
    for line in lines:
        # As Text: what users wrote is no markup.
        into.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in line))
    console = out()
    for place, column in enumerate(into.columns):
        if column.no_wrap:
            longest = max(len(part) for line in lines for part in str(line[place]).splitlines() or [""])
            # In a narrow terminal an id gives way, or nothing of the other columns would be left.
            column.no_wrap = console.width - longest >= _LEAST_WIDTH * (len(into.columns) - 1)
    console.print(into)


def when(time: Timestamp) -> str:
    """Return a time to the minute, in UTC; empty for one that is not set."""
    return "" if not time.seconds else time.ToDatetime().strftime("%Y-%m-%d %H:%M")


def shortened(text: str, length: int) -> str:
    """Return the text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    console = Console(file=stream, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, width=_PIPE_WIDTH)
    return console
