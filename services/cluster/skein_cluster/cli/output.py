"""Printed output: tables, or one JSON document with --json; notes on stderr; the first items of a long list."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import click
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from rich import box
from rich.console import Console, ConsoleRenderable, JustifyMethod, RenderHook
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from skein_client.pagination import iterate_pages
from skein_kit.json_values import exact, fields

# Width of tables in files and pipes, for which rich assumes 80.
_PIPE_WIDTH = 120
# Least width of columns beside an id, with padding.
_MIN_COLUMN_WIDTH = 10


def stdout_console() -> Console:
    """Return a console on stdout, created for each use, because tests and pipes replace stdout."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return a console on stderr."""
    return _console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document on stdout, in ASCII if the stream's encoding needs it."""
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = exact.dumps(value, indent=2, ensure_ascii=not is_unicode)
    click.echo(exact.escape_active(text))


def print_if_json(value: object, *, as_json: bool) -> bool:
    """Print a value, and the messages in it, as one JSON document if `as_json`; return whether that is all to print."""
    if as_json:
        print_json(_with_values(value))
    return as_json


def _with_values(value: object) -> object:
    match value:
        case Message():
            return message_to_dict(value)
        case Mapping():
            return {name: _with_values(part) for name, part in value.items()}
        case Sequence() if not isinstance(value, (str, bytes)):
            return [_with_values(part) for part in value]
    return value


def escape_controls(text: str) -> str:
    """Return a text with control characters escaped, so that it cannot control a terminal."""
    return exact.CONTROL_CHARACTERS.sub(_escaped, text.replace("\r\n", "\n"))


def echo(text: str, *, err: bool = False) -> None:
    """Print a line that may contain user texts."""
    click.echo(escape_controls(text), err=err)


def echo_content(text: str) -> None:
    """Print a content, unchanged to a program and escaped to a terminal."""
    click.echo(escape_controls(text) if sys.stdout.isatty() else text)


def message_to_dict(message: Message, *, with_texts: bool = True) -> dict[str, Any]:
    """Convert a message with proto field names and empty fields, so that the form is stable."""
    return fields.to_values(
        message, with_texts=with_texts, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def table(*columns: str, title: str = "", numbers: Iterable[str] = (), ids: Iterable[str] = ()) -> Table:
    """Return an empty table; columns in `numbers` are aligned to the right, and columns in `ids` are broken last.

    An id that is broken over two lines cannot be copied.
    """
    result = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, title_style="bold")
    right_aligned, unbroken = set(numbers), set(ids)
    for column in columns:
        justify: JustifyMethod = "right" if column in right_aligned else "left"
        result.add_column(column, justify=justify, overflow="fold", no_wrap=column in unbroken)
    return result


def print_table(into: Table, lines: Sequence[Sequence[object]], *, empty: str) -> None:
    """Fill a table and print it; print `empty` instead without lines."""
    if not lines:
        stderr_console().print(Text(empty))
        return
    for line in lines:
        # As Text, because user texts are not markup.
        into.add_row(*(cell if isinstance(cell, Text) else Text(escape_controls(str(cell))) for cell in line))
    console = stdout_console()
    for index, column in enumerate(into.columns):
        if column.no_wrap:
            longest = max(len(part) for line in lines for part in str(line[index]).splitlines() or [""])
            # In a narrow terminal ids are broken, because other columns would vanish.
            column.no_wrap = console.width - longest >= _MIN_COLUMN_WIDTH * (len(into.columns) - 1)
    console.print(into)


def format_time(time: Timestamp) -> str:
    """Return a time to the minute, in UTC; empty for one that is not set."""
    return "" if not time.seconds else time.ToDatetime().strftime("%Y-%m-%d %H:%M")


def shorten(text: str, length: int) -> str:
    """Return the text on one line, cut to a length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    console = Console(file=stream, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, width=_PIPE_WIDTH)
    console.push_render_hook(_Printable(console))
    return console


class _Printable(RenderHook):
    """Escapes control characters of texts, but not the console's own colour codes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [
            Segments(
                part if part.control else Segment(escape_controls(part.text), part.style)
                for part in self._console.render(renderable)
            )
            for renderable in renderables
        ]


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"  # noqa: PLR2004 - what two digits say.


async def list_first(limit: int, method: Callable[..., Awaitable[Any]], request: Message, field: str) -> list[Any]:
    """Call a List method until there are `limit` items or no more."""
    result: list[Any] = []
    async with aclosing(cast("AsyncGenerator[Any, None]", iterate_pages(method, request, field))) as every:
        async for item in every:
            result.append(item)
            if len(result) >= limit:
                break
    return result
