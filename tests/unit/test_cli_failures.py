from __future__ import annotations

from pathlib import Path

import asyncpg
import grpc
from click.testing import CliRunner
from fix_catalogue import over

from skein_client.connection import NotConfigured
from skein_client.errors import Internal, InvalidArgument, SkeinError, Unavailable, Violation
from skein_cluster.cli.error_messages import command_error
from skein_cluster.cli.exit_codes import EXIT_CODE_MEANINGS, CommandError, ExitCode
from skein_cluster.embedded.errors import DataDirInUse
from skein_cluster.main import COMMANDS, skein
from skein_kit.database.schema_migrations import MigrationError
from skein_kit.host.process import NotReady, PortTaken
from skein_kit.settings import SettingInvalid


@over(
    ("error", "code"),
    [
        (CommandError("said", ExitCode.USAGE), ExitCode.USAGE),
        (PortTaken("taken"), ExitCode.CANNOT_START),
        (NotReady("late"), ExitCode.CANNOT_START),
        (DataDirInUse(Path("data"), "7"), ExitCode.CANNOT_START),
        (SettingInvalid("wrong"), ExitCode.CANNOT_START),
        (MigrationError("changed"), ExitCode.CANNOT_START),
        (NotConfigured("no key"), ExitCode.REFUSED),
        (InvalidArgument("wrong"), ExitCode.REFUSED),
        (Unavailable("away"), ExitCode.UNREACHABLE),
        (Internal("fault"), ExitCode.FAULT),
        (SkeinError("odd", status=grpc.StatusCode.UNKNOWN), ExitCode.FAULT),
        (asyncpg.InvalidPasswordError("no"), ExitCode.UNREACHABLE),
        (ExceptionGroup("several", [RuntimeError("bug"), PortTaken("taken")]), ExitCode.CANNOT_START),
    ],
)
def test_an_expected_error_has_its_exit_code(error: Exception, code: ExitCode) -> None:
    failure = command_error(error)

    assert failure is not None
    assert failure.exit_code == code


def test_a_bug_is_no_expected_error() -> None:
    assert command_error(RuntimeError("bug")) is None


def test_a_refusal_says_what_is_wrong_with_which_field_and_what_to_do() -> None:
    failure = command_error(
        InvalidArgument("A field is not valid", violations=[Violation("memory.tags[2]", "is too long")])
    )
    missing = command_error(SkeinError("No such session.", reason="SESSION_NOT_FOUND"))

    assert failure is not None
    assert failure.message == "A field is not valid. memory.tags[2]: is too long."
    assert missing is not None
    assert missing.message.endswith("`skein sessions list` lists the sessions.")


def test_every_command_explains_itself() -> None:
    for name in COMMANDS:
        shown = CliRunner().invoke(skein, [name, "--help"])

        assert shown.exit_code == 0, shown.output
        assert "Usage:" in shown.output


def test_the_help_lists_every_exit_code() -> None:
    shown = CliRunner().invoke(skein, ["--help"]).output

    assert set(EXIT_CODE_MEANINGS) == set(ExitCode)
    assert all(meaning in shown for meaning in EXIT_CODE_MEANINGS.values())


@over(
    "arguments",
    [["nonsense"], ["recall"], ["recall", "x", "--limit", "0"], ["import", "csv", "/"], ["import", "jsonl", "no"]],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    shown = CliRunner().invoke(skein, arguments)

    assert shown.exit_code == ExitCode.USAGE
    assert "Usage:" in shown.output
