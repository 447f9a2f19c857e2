from __future__ import annotations

from pathlib import Path

import asyncpg
import grpc
import pytest
from click.testing import CliRunner

from skein_client.connection import NotConfigured
from skein_client.errors import Internal, InvalidArgument, SkeinError, Unavailable, Violation
from skein_cluster.cli.error_messages import failure_of
from skein_cluster.cli.exit_codes import MEANINGS, Exit, Failure
from skein_cluster.embedded.errors import DataDirInUse
from skein_cluster.main import COMMANDS, skein
from skein_kit.database.schema_migrations import MigrationRefused
from skein_kit.host.process import NotReady, PortTaken
from skein_kit.settings import SettingInvalid


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failure("said", Exit.USAGE), Exit.USAGE),
        (PortTaken("taken"), Exit.CANNOT_START),
        (NotReady("late"), Exit.CANNOT_START),
        (DataDirInUse(Path("data"), "7"), Exit.CANNOT_START),
        (SettingInvalid("wrong"), Exit.CANNOT_START),
        (MigrationRefused("changed"), Exit.CANNOT_START),
        (NotConfigured("no key"), Exit.REFUSED),
        (InvalidArgument("wrong"), Exit.REFUSED),
        (Unavailable("away"), Exit.UNREACHABLE),
        (Internal("fault"), Exit.FAULT),
        (SkeinError("odd", status=grpc.StatusCode.UNKNOWN), Exit.FAULT),
        (asyncpg.InvalidPasswordError("no"), Exit.UNREACHABLE),
        (ExceptionGroup("several", [RuntimeError("bug"), PortTaken("taken")]), Exit.CANNOT_START),
    ],
)
def test_an_expected_error_has_its_exit_code(error: Exception, code: Exit) -> None:
    failure = failure_of(error)

    assert failure is not None
    assert failure.exit_code == code


def test_a_bug_is_no_expected_error() -> None:
    assert failure_of(RuntimeError("bug")) is None


def test_a_refusal_says_what_is_wrong_with_which_field_and_what_to_do() -> None:
    failure = failure_of(
        InvalidArgument("A field is not valid", violations=[Violation("memory.tags[2]", "is too long")])
    )
    missing = failure_of(SkeinError("No such session.", reason="SESSION_NOT_FOUND"))

    assert failure is not None
    assert failure.message == "A field is not valid. memory.tags[2]: is too long."
    assert missing is not None
    assert missing.message.endswith("`skein sessions list` shows what there is.")


def test_every_command_explains_itself() -> None:
    for name in COMMANDS:
        shown = CliRunner().invoke(skein, [name, "--help"])

        assert shown.exit_code == 0, shown.output
        assert "Usage:" in shown.output


def test_the_help_lists_every_exit_code() -> None:
    shown = CliRunner().invoke(skein, ["--help"]).output

    assert set(MEANINGS) == set(Exit)
    assert all(meaning in shown for meaning in MEANINGS.values())


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["recall"], ["recall", "x", "--limit", "0"], ["import", "csv", "/"], ["import", "jsonl", "no"]],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    shown = CliRunner().invoke(skein, arguments)

    assert shown.exit_code == Exit.USAGE
    assert "Usage:" in shown.output
