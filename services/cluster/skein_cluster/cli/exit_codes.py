"""How the command ends: its exit codes. `failures` maps errors to them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import click

from skein_cluster.cli.output import escape_controls

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
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


EXIT_CODE_MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.REFUSED: "refused, not found, or the answer is no",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.CANNOT_START: "a port, folder, setting or migration prevents the start",
    ExitCode.UNREACHABLE: "no cluster or no database answers",
    ExitCode.FAULT: "the cluster failed; its logs say why",
    ExitCode.INTERRUPTED: "interrupted",
}


class CommandError(click.ClickException):
    """An expected end of a command: one sentence, what to do, and the exit code."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        """Say `message` on stderr and end with the code."""
        super().__init__(escape_controls(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click looks for it on the instance.
