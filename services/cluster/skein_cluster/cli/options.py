"""Options that several commands share."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import click

from skein_cluster.cli import output
from skein_kit.settings import default_data_dir

P = ParamSpec("P")
Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
# What a command returns that yields its answer: a message, or values with messages in them.
Answer = AsyncGenerator[object, None]


class Time(click.ParamType):  # type: ignore[type-arg]  # Before click 8.5 it takes none.
    """A time in ISO 8601, in UTC without an offset; the command gets a datetime in UTC."""

    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time; a date alone is its first moment."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(f'"{value}" is not a time; write it as "2026-11-21 22:15:30Z".', param, ctx)


def _environment(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> dict[str, str]:
    """Apply the option to the environment of settings and credentials."""
    return {**os.environ, "SKEIN_DATA_DIR": str(value if value is not None else default_data_dir())}


def asynchronous(command: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a command in an event loop of its own. It stands below the options."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run


def json_answer(command: Callable[..., Answer]) -> Callable[..., None]:
    """Add --json to a command that yields its answer once, and run it in an event loop. It stands below the options.

    With --json the answer is printed and the command ends there; without, what follows the answer prints it for people.
    """

    @functools.wraps(command)
    async def run(*args: Any, as_json: bool, **kwargs: Any) -> None:
        async with aclosing(command(*args, **kwargs)) as answers:
            async for answer in answers:
                if output.print_if_json(answer, as_json=as_json):
                    break

    return json_option(asynchronous(run))


def cluster_answer(command: Callable[..., Answer]) -> Callable[..., None]:
    """Add --data-dir and --json to a command that asks a cluster, and run it as `json_answer` does."""
    return cluster_options(json_answer(command))


def data_dir_option(command: Decorated) -> Decorated:
    """Add --data-dir; the command gets the data folder as `data_dir`."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="SKEIN_DATA_DIR",
        default=default_data_dir,
        show_default="SKEIN_DATA_DIR, else ~/.local/share/skein",
        help="Data folder of the cluster.",
    )(command)


def cluster_options(command: Decorated) -> Decorated:
    """Add --data-dir for a command that talks to a cluster; it gets the environment to read as `environment`."""
    return click.option(
        "--data-dir",
        "environment",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="SKEIN_DATA_DIR",
        callback=_environment,
        help="Data folder with the credentials.json of the cluster.",
    )(command)


def text_argument(command: Decorated) -> Decorated:
    """Add the argument TEXT; the command gets it as `text`. Several words without quotes are one text."""
    return click.argument("text", nargs=-1, required=True, metavar="TEXT", callback=_join_words)(command)


def _join_words(_context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]) -> str:
    return " ".join(words)


def memory_fields(command: Decorated) -> Decorated:
    """Add options for fields of a memory; the command gets those that are set, by field name, as `fields`."""

    @functools.wraps(command)
    def with_fields(*arguments: Any, **values: Any) -> Any:
        # Drop duplicate tags.
        fields = {"type": values.pop("type_"), "tags": list(dict.fromkeys(values.pop("tags")))}
        fields |= {name: values.pop(name) for name in ("title", "key", "external_id", "importance")}
        is_set = {name: value for name, value in fields.items() if value not in (None, "", [])}
        return command(*arguments, fields=is_set, **values)

    field_options = [
        click.option("--type", "type_", default="note", show_default=True, help="Type: note, fact, journal, …"),
        click.option("--tag", "tags", multiple=True, help="Tag (repeatable)."),
        click.option("--title", default="", help="Title of the memory."),
        click.option("--key", default="", help="Fact key: a subject has one current fact of this name."),
        click.option("--external-id", default="", help="Id of the memory in your system."),
        click.option("--importance", type=click.FloatRange(0, 1), help="Importance, from 0 to 1."),
    ]
    decorated: Any = with_fields
    for option in reversed(field_options):
        decorated = option(decorated)
    return cast("Decorated", decorated)


def on_conflict_option(command: Decorated) -> Decorated:
    """Add --on-conflict; the command gets `on_conflict`, a name of the enum."""
    return click.option(
        "--on-conflict",
        type=click.Choice(["fail", "update", "return", "supersede"]),
        default="fail",
        show_default=True,
        callback=lambda _context, _option, value: f"ON_CONFLICT_{value.upper()}",
        help="If another fact of the subject has the key: refuse, change that one, return it, or end it.",
    )(command)


def json_option(command: Decorated) -> Decorated:
    """Add --json; the command gets `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def limit_option(command: Decorated) -> Decorated:
    """Add --limit for lists; the command gets `limit`."""
    return click.option(
        "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of rows."
    )(command)
