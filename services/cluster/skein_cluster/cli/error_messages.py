"""Messages and exit codes of expected errors. Any other error is a bug."""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg
import grpc

from skein_auth.api_keys.bootstrap import OperatorKeyRefused
from skein_client.connection import NotConfigured
from skein_client.errors import DeadlineExceeded, Internal, SkeinError, Unavailable
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.errors import EmbeddedPostgresError
from skein_importers.errors import ImportFailure
from skein_kit.database.schema_migrations import MigrationError
from skein_kit.host.process import NotReady, PortTaken
from skein_kit.settings import SettingInvalid

_HINTS: Mapping[str, str] = {
    "CREDENTIAL_MISSING": "Set SKEIN_API_KEY.",
    "CREDENTIAL_INVALID": "Set SKEIN_API_KEY to a valid key, or unset it to use the one that `skein up` wrote.",
    "CREDENTIAL_EXPIRED": "Create a new key with `skein keys create`.",
    "PERMISSION_MISSING": "Use a key with this permission.",
    "SESSION_NOT_FOUND": "`skein sessions list` lists the sessions.",
    "SESSION_ARCHIVED": "`skein sessions unarchive` does that.",
    "ARCHIVE_NOT_FOUND": "`skein archive list` lists the archives.",
    "MEMORY_NOT_FOUND": "`skein memories list` lists the memories.",
    "API_KEY_NOT_FOUND": "`skein keys list` lists the keys.",
}
_PLAIN: Mapping[tuple[type[Exception], ...], ExitCode] = {
    (PortTaken, NotReady, EmbeddedPostgresError, SettingInvalid, MigrationError, OperatorKeyRefused): (
        ExitCode.CANNOT_START
    ),
    (NotConfigured, ImportFailure): ExitCode.REFUSED,
}
_CONNECTION_REFUSED = (
    asyncpg.PostgresConnectionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.CannotConnectNowError,
    asyncpg.ClientConfigurationError,
)


def command_error(error: BaseException) -> CommandError | None:
    """Return the CommandError for an expected error; None for a bug."""
    if isinstance(error, BaseExceptionGroup):
        # A failed task of a group: the others were only cancelled.
        return next(
            (inner_error for inner in error.exceptions if (inner_error := command_error(inner)) is not None), None
        )
    if isinstance(error, CommandError):
        return error
    if isinstance(error, SkeinError):
        return CommandError(error_sentence(error), _exit_of(error))
    if isinstance(error, _CONNECTION_REFUSED):
        return CommandError(
            f"The database refused the connection: {error}. Check SKEIN_DATABASE_URL.", ExitCode.UNREACHABLE
        )
    # The messages of the others are complete.
    return next((CommandError(str(error), code) for kinds, code in _PLAIN.items() if isinstance(error, kinds)), None)


def error_sentence(error: SkeinError) -> str:
    """Return the failure, the wrong field, and a remedy."""
    message = error.message
    parts = [message if message.endswith((".", "!", "?")) else f"{message}."]
    # Services of this version have the violations in the message.
    unstated = [violation for violation in error.violations if violation.description not in message]
    parts += [f"{violation.field}: {violation.description}." for violation in unstated]
    parts += [f"{name}: {value}." for name, value in error.metadata.items() if f"{name}: {value}" not in message]
    if error.reason in _HINTS:
        parts.append(_HINTS[error.reason])
    if isinstance(error, Internal):
        parts.append(f"Request {error.request_id}.")
    return " ".join(parts)


def _exit_of(error: SkeinError) -> ExitCode:
    if isinstance(error, (Unavailable, DeadlineExceeded)):
        return ExitCode.UNREACHABLE
    if isinstance(error, Internal) or error.status in {grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}:
        return ExitCode.FAULT
    return ExitCode.REFUSED
