"""What the command prints: tables for people, one JSON document for programs, notes on stderr."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, ConsoleRenderable, RenderHook
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from skein_kit.json_values import exact, fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.console import JustifyMethod

# Width of a table that goes to a file or a pipe, where rich would assume 80.
_PIPE_WIDTH = 120
# Width that each column beside an id needs at least, its padding included.
_LEAST_WIDTH = 10


def stdout_console() -> Console:
    """Return stdout; made anew for each use, because tests and pipes exchange it."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """Return stderr."""
    return _console(stderr=True)


def print_json(value: object) -> None:
    """Print one JSON document on stdout, in ASCII where the stream cannot say more."""
    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    text = exact.dumps(value, indent=2, ensure_ascii=not is_unicode)
    click.echo(exact.escape_active(text))


def escape_controls(text: str) -> str:
    """Return a text of unknown origin so that it shows, and does nothing to a terminal."""
    return exact.CONTROL_CHARACTERS.sub(_escaped, text.replace("\r\n", "\n"))


def echo(text: str, *, err: bool = False) -> None:
    """Print a line that may hold names or contents that users wrote."""
    click.echo(escape_controls(text), err=err)


def echo_content(text: str) -> None:
    """Print a content: to a program as it is, to a terminal so that it shows."""
    click.echo(escape_controls(text) if sys.stdout.isatty() else text)


def message_to_dict(message: Message, *, with_texts: bool = True) -> dict[str, Any]:
    """Convert a message with its fields named as in the protos, empty ones included, so that the shape is stable."""
    return fields.to_values(
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


def print_table(into: Table, lines: Sequence[Sequence[object]], *, empty: str) -> None:
    """Fill a table and print it; print `empty` instead when there is nothing to show."""
    if not lines:
        stderr_console().print(Text(empty))
        return
    for line in lines:
        # As Text: what users wrote is no markup.
        into.add_row(*(cell if isinstance(cell, Text) else Text(escape_controls(str(cell))) for cell in line))
    console = stdout_console()
    for place, column in enumerate(into.columns):
        if column.no_wrap:
            longest = max(len(part) for line in lines for part in str(line[place]).splitlines() or [""])
            # In a narrow terminal an id gives way, or nothing of the other columns would be left.
            column.no_wrap = console.width - longest >= _LEAST_WIDTH * (len(into.columns) - 1)
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
    """Lets through the console's own codes for colours, and none that stand in texts."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [
            Segments(
                part if part.control else Segment(escape_controls(part.text), part.style)
                for part in self._console.render(one)
            )
            for one in renderables
        ]


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"  # noqa: PLR2004 - what two digits say.
