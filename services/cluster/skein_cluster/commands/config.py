"""`skein config`: the settings of a process in its environment, and their problems."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from skein_cluster import registry
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.config.catalog import read_settings
from skein_cluster.config.check import find_notes, find_problems
from skein_cluster.config.database_check import DatabaseCheck, check_database

if TYPE_CHECKING:
    from skein_kit.settings import SettingValue

REDACTED = "•••"
# Passwords in URLs.
_USER = re.compile(r"(?<=://)\S+(?=@)")
# Settings that `skein up` creates itself; any value will do.
_MADE = {"SKEIN_DATABASE_URL": "postgresql://embedded/skein", "SKEIN_SYSTEM_KEY": REDACTED * 16}


@click.group()
def config_command() -> None:
    """Show what the environment says to a process, and what is wrong with it."""


@config_command.command("check")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many processes like this one shall share the database.",
)
@options.json_option
def check(services: tuple[str, ...], replicas: int, *, as_json: bool) -> None:
    """Say what is wrong with the settings of a process that serves SERVICE (or all), each in one sentence.

    Names that are no setting, values and files that cannot be used, settings that do not go together, and, when the
    database of SKEIN_DATABASE_URL answers, its schema and its connections. Without SERVICE and SKEIN_DATABASE_URL the
    process is a `skein up`. Notes tell what may be meant so, such as a gateway for other machines that trusts no proxy.
    Ends with 0 when nothing is wrong, else with 3. It reads the same files as the process, so
    run it where and as whom that runs.
    """
    environment = dict(os.environ)
    names = _names(services)
    is_up = not services and not environment.keys() & {"SKEIN_DATABASE_URL", "SKEIN_DATABASE_URL_FILE"}
    problems = find_problems(names, {**_MADE, **environment} if is_up else environment)
    answer = (
        DatabaseCheck() if problems or is_up else asyncio.run(check_database(names, environment, replicas=replicas))
    )
    problems += answer.problems
    if not problems:
        answer.notes[:0] = find_notes(names, environment)
    if as_json:
        output.print_json({"services": [*names], "problems": problems, "notes": answer.notes})
    else:
        for sentence in problems:
            output.echo(sentence)
        for note in answer.notes:
            output.stderr_console().print(Text(note))
        if not problems:
            form = "skein up" if is_up else f"skein serve {' '.join(services)}".strip()
            output.echo(f"Nothing is wrong with the settings of `{form}`.")
    if problems:
        sys.exit(ExitCode.CANNOT_START)


@config_command.command("show")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@options.json_option
def show(services: tuple[str, ...], *, as_json: bool) -> None:
    """Show every setting of a process that serves SERVICE (or all): value, default, and where the value is from.

    Secrets are shown as three dots. A value that cannot be used is shown as its default: `skein config check` says why.
    """
    rows = [_shown(reading) for reading in read_settings(_names(services), os.environ)]
    if as_json:
        output.print_json({"settings": rows})
        return
    table = output.table("setting", "value", "default", "from")
    lines = [
        (
            row["name"],
            Text(_written(row["value"]), style="bold" if row["source"] else ""),
            _written(row["default"]),
            row["source"] or "default",
        )
        for row in rows
    ]
    output.print_table(table, lines, empty="No settings.")


def _names(services: tuple[str, ...]) -> tuple[str, ...]:
    """Return the services by name, in starting order. Raises SettingInvalid for a name that is none."""
    return tuple(service.name for service in registry.load(services or registry.NAMES))


def _shown(reading: SettingValue) -> dict[str, Any]:
    return {
        "name": reading.name,
        "value": _value(reading.value, secret=reading.secret),
        "default": _value(reading.default, secret=reading.secret),
        "source": reading.source,
        "secret": reading.secret,
    }


def _value(value: object, *, secret: bool) -> object:
    """Return a value for display; a secret only shows whether it is set."""
    if secret:
        return REDACTED if value else ""
    return value if isinstance(value, (bool, int, float, type(None))) else _USER.sub(REDACTED, str(value))


def _written(value: object) -> str:
    return "" if value is None else str(value)
