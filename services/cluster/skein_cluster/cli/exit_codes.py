"""Exit codes of the command, and CommandError. `error_messages` maps errors to them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import click

from skein_cluster.cli.output import escape_controls


class ExitCode(IntEnum):
    """Exit codes of `skein`; `skein --help` lists them."""

    OK = 0
    # Refused by the cluster, not found, or a negative result (`skein status`: a service does not serve).
    REFUSED = 1
    # The command line is wrong (click's own number).
    USAGE = 2
    # A port, data folder, setting or migration prevents the start.
    CANNOT_START = 3
    # No cluster or no database answers.
    UNREACHABLE = 4
    # The cluster failed; its logs have the reason.
    FAULT = 5
    # Ctrl-C ended an unfinished command.
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.REFUSED: "refused, not found, or a negative result",
    ExitCode.USAGE: "invalid command line",
    ExitCode.CANNOT_START: "a port, folder, setting or migration prevents the start",
    ExitCode.UNREACHABLE: "cluster or database unreachable",
    ExitCode.FAULT: "the cluster failed; its logs have the reason",
    ExitCode.INTERRUPTED: "interrupted",
}


class CommandError(click.ClickException):
    """An expected failure of a command: one sentence with a remedy, and the exit code."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        """Say `message` on stderr and end with the code."""
        super().__init__(escape_controls(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click looks for it on the instance.
