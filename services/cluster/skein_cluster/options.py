"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skein_kit.settings import default_data_dir

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def _environment(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> dict[str, str]:
    """Put the option over the environment, where settings and credentials are looked up."""
    return {**os.environ, "SKEIN_DATA_DIR": str(value if value is not None else default_data_dir())}


def data_dir(command: Decorated) -> Decorated:
    """Add --data-dir; the command gets the data folder as `data_dir`."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="SKEIN_DATA_DIR",
        default=default_data_dir,
        show_default="SKEIN_DATA_DIR, else ~/.local/share/skein",
        help="Where the cluster keeps its data.",
    )(command)


def caller(command: Decorated) -> Decorated:
    """Add --data-dir for a command that talks to a cluster; it gets the environment to read as `environment`."""
    return click.option(
        "--data-dir",
        "environment",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="SKEIN_DATA_DIR",
        callback=_environment,
        help="Data folder of the `skein up` whose credentials.json to use.",
    )(command)


def as_json(command: Decorated) -> Decorated:
    """Add --json; the command gets `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def limit(command: Decorated) -> Decorated:
    """Add --limit for lists; the command gets `limit`."""
    return click.option(
        "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
    )(command)
