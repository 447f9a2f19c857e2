"""The `skein` command: finds the subcommand, and turns errors into one sentence and an exit code."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from skein_cluster.cli.exit_codes import EXIT_CODE_MEANINGS, CommandError, ExitCode

# Each command's module, imported on use, so that `skein recall` loads no service.
COMMANDS: Mapping[str, str] = {
    "up": "up",
    "cluster": "up",
    "serve": "serve",
    "migrate": "database",
    "upgrade": "database",
    "bootstrap": "database",
    "demo": "demo",
    "status": "status",
    "remember": "remember",
    "recall": "recall",
    "context": "context",
    "import": "import_export",
    "export": "import_export",
    "tenants": "tenants",
    "keys": "keys",
    "hooks": "hooks",
    "sessions": "sessions",
    "policy": "policy",
    "spaces": "spaces",
    "jobs": "jobs",
    "extract": "extract",
    "memories": "memories",
    "lineage": "lineage",
    "receipts": "receipts",
    "replay": "replay",
    "approvals": "approvals",
    "pages": "pages",
    "archive": "archive",
    "backup": "backup",
    "certificates": "certificates",
    "audit": "audit",
    "models": "models",
    "bench": "bench",
    "pc2": "pc2",
    "mtls": "mtls",
    "config": "config",
}


_INTERRUPTED = "Interrupted. Completed steps are kept."


class Commands(click.Group):
    """The subcommands, each imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command; None for an unknown name."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(f"skein_cluster.commands.{module}"), f"{cmd_name}_command")
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand. Raises CommandError for Ctrl-C, for which click only prints "Aborted!"."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise CommandError(_INTERRUPTED, ExitCode.INTERRUPTED) from None

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Add the meaning of the exit codes."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in EXIT_CODE_MEANINGS.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
# Every installation has this package; the name of the command's own differs between a clone and a release.
@click.version_option(package_name="skein-protos", prog_name="skein")
def skein() -> None:
    """Run a Skein cluster, and call one.

    `skein up` runs a cluster on this machine; `skein demo` shows one. Commands that call a cluster read
    SKEIN_ENDPOINT and SKEIN_API_KEY, or the credentials.json in the data folder of `skein up`.
    """


def main() -> None:
    """Run the command and end the process with its exit code."""
    # gRPC's core repeats errors on stderr; it reads this at its import.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character shows a question mark.
            stream.reconfigure(errors="replace")
    try:
        skein()
    except Exception as error:
        from skein_cluster.cli.error_messages import command_error  # noqa: PLC0415 - half a second of imports; only failures pay.

        failure = command_error(error)
        if failure is None:
            raise
        failure.show()
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    main()
