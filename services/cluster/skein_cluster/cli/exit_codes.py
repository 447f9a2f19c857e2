"""How the command ends: its exit codes. `failures` maps errors to them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import click

from skein_cluster.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Mapping


class Exit(IntEnum):
    """What the exit code of `skein` says; `skein --help` shows the same list."""

    OK = 0
    # The cluster refused, something was not found, or the answer is no (`skein status`: not everything serves).
    REFUSED = 1
    # The command line is wrong (click's own number).
    USAGE = 2
    # A port, a data folder, a setting or a migration stands in the way of starting.
    CANNOT_START = 3
    # No cluster or no database answers.
    UNREACHABLE = 4
    # The cluster failed; its logs hold the reason.
    FAULT = 5
    # Ctrl-C ended a command that was not done.
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "done",
    Exit.REFUSED: "refused, not found, or the answer is no",
    Exit.USAGE: "the command line is wrong",
    Exit.CANNOT_START: "a port, folder, setting or migration prevents the start",
    Exit.UNREACHABLE: "no cluster or no database answers",
    Exit.FAULT: "the cluster failed; its logs say why",
    Exit.INTERRUPTED: "interrupted",
}


class Failure(click.ClickException):
    """An expected end of a command: one sentence, what to do, and the exit code."""

    def __init__(self, message: str, exit_code: Exit) -> None:
        """Say `message` on stderr and end with the code."""
        super().__init__(printable(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click looks for it on the instance.
