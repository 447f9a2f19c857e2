"""`skein config`: the settings of a process in its environment, and their problems."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import click
from rich.text import Text

from skein_cluster import registry
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.config.catalog import read_settings
from skein_cluster.config.check import find_notes, find_problems
from skein_cluster.config.database_check import DatabaseCheck, check_database
from skein_kit.settings import SettingValue

REDACTED = "•••"
# Passwords in URLs.
_USER = re.compile(r"(?<=://)\S+(?=@)")
# Settings that `skein up` creates itself; any value will do.
_EMBEDDED_SETTINGS = {"SKEIN_DATABASE_URL": "postgresql://embedded/skein", "SKEIN_SYSTEM_KEY": REDACTED * 16}


@click.group()
def config_command() -> None:
    """Show and check the settings of a process in this environment."""


@config_command.command("check")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@click.option(
    "--replicas",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of such processes that share the database.",
)
@options.json_option
@options.asynchronous
async def check(services: tuple[str, ...], replicas: int, *, as_json: bool) -> None:
    """Check the settings of a process that serves SERVICE (or all), and print a sentence for each problem.

    Problems are unknown settings, unusable values and files, and settings that exclude each other. If the database of
    SKEIN_DATABASE_URL answers, its schema and connections are checked too. Without SERVICE and SKEIN_DATABASE_URL, the
    process is a `skein up`. Notes name unusual settings that may be intended. The exit code is 0 without problems,
    else 3. Run the check on the machine and as the user of the process, because it reads the same files.
    """
    environment = dict(os.environ)
    names = _names(services)
    is_up = not services and not environment.keys() & {"SKEIN_DATABASE_URL", "SKEIN_DATABASE_URL_FILE"}
    problems = find_problems(names, {**_EMBEDDED_SETTINGS, **environment} if is_up else environment)
    database_check = (
        DatabaseCheck() if problems or is_up else await check_database(names, environment, replicas=replicas)
    )
    problems += database_check.problems
    if not problems:
        database_check.notes[:0] = find_notes(names, environment)
    if as_json:
        output.print_json({"services": [*names], "problems": problems, "notes": database_check.notes})
    else:
        for sentence in problems:
            output.echo(sentence)
        for note in database_check.notes:
            output.stderr_console().print(Text(note))
        if not problems:
            command = "skein up" if is_up else f"skein serve {' '.join(services)}".strip()
            output.echo(f"The settings of `{command}` have no problems.")
    if problems:
        sys.exit(ExitCode.CANNOT_START)


@config_command.command("show")
@click.argument("services", nargs=-1, metavar="[SERVICE]...")
@options.json_option
def show(services: tuple[str, ...], *, as_json: bool) -> None:
    """Show every setting of a process that serves SERVICE (or all): value, default and source.

    Secrets are shown as three dots. An unusable value is shown as its default: `skein config check` shows the reason.
    """
    rows = [_setting_row(reading) for reading in read_settings(_names(services), os.environ)]
    if output.print_if_json({"settings": rows}, as_json=as_json):
        return
    table = output.table("setting", "value", "default", "from")
    lines = [
        (
            row["name"],
            Text(_value_text(row["value"]), style="bold" if row["source"] else ""),
            _value_text(row["default"]),
            row["source"] or "default",
        )
        for row in rows
    ]
    output.print_table(table, lines, empty="No settings.")


def _names(services: tuple[str, ...]) -> tuple[str, ...]:
    """Return the services by name, in starting order. Raises SettingInvalid for an unknown name."""
    return tuple(service.name for service in registry.load(services or registry.NAMES))


def _setting_row(reading: SettingValue) -> dict[str, Any]:
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


def _value_text(value: object) -> str:
    return "" if value is None else str(value)
