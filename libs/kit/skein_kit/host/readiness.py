"""Readiness of a service, reported to the health service, a gauge and the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import asyncpg

from skein_kit.rpc.health_reflection import HealthStatuses
from skein_kit.rpc.servicer_registry import ServicerRegistry
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import READY

# Seconds between two checks, until the service is ready and from then on.
_UNREADY_SECONDS, _READY_SECONDS = 0.25, 2.0
_CHECK_SECONDS = 2.0

# What a database says when a service connects and asks for the schema, and what an operator can do.
_REFUSALS: Mapping[type[asyncpg.PostgresError], str] = {
    asyncpg.InvalidCatalogNameError: (
        "The server of SKEIN_DATABASE_URL has no such database: create it, and run `skein migrate`."
    ),
    asyncpg.InvalidAuthorizationSpecificationError: (
        "The database does not let {role} in: run `skein migrate`, which makes the role, and check the user and the"
        " password."
    ),
    # The role that the connection asks for.
    asyncpg.InvalidParameterValueError: "The database has no role {role}: run `skein migrate`.",
    asyncpg.InsufficientPrivilegeError: (
        "The user of SKEIN_DATABASE_URL may not act as {role} in this database: name a superuser or a member of the"
        " role, or set the password of the role."
    ),
}


class NotReady(Exception):
    """A service cannot serve; the message gives the reason and what the operator can do."""


def require_schema_version(version: int, supported: int) -> None:
    """Accept the schema version of this code and the next one. Raises NotReady for others.

    So a migration runs first and the processes follow one by one, and the previous version of the code may return.
    """
    if version in (supported, supported + 1):
        return
    hint = "run `skein migrate`" if version < supported else "it takes a newer version of Skein"
    message = f"The schema is at version {version}; this process serves {supported} and {supported + 1}: {hint}."
    raise NotReady(message)


def require_connection(error: asyncpg.PostgresError, role: str) -> None:
    """Raise NotReady when a database refuses connections as `role` until an operator changes something.

    The messages name no address and no password. Return for other errors, which may pass by themselves.
    """
    for kind, reason in _REFUSALS.items():
        if isinstance(error, kind):
            raise NotReady(reason.format(role=role)) from error


async def unready_reason(servicers: ServicerRegistry) -> str:
    """Return why a service cannot serve; empty when every check succeeds in time."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            for check in servicers.ready_checks:
                if not await check():
                    return f"The check {_name(check)} failed."
    except NotReady as error:
        return str(error)
    except TimeoutError:
        return f"A check took more than {_CHECK_SECONDS:.0f} s."
    except Exception as error:  # noqa: BLE001 - whatever is wrong, the answer is no.
        # The message of an error may contain secrets.
        return f"A check failed with {type(error).__name__}."
    return ""


async def is_ready(servicers: ServicerRegistry) -> bool:
    """Return whether every check of a service succeeds in time."""
    return not await unready_reason(servicers)


class Readiness:
    """The readiness of one service."""

    def __init__(self, service: str) -> None:
        """Start as not ready."""
        self.event = asyncio.Event()
        # Empty when it is ready.
        self.reason = "It is starting."
        self._service = service
        self._log = logs.get(service)
        self._gauge = READY.labels(service)
        self._gauge.set(0)

    async def watch(
        self, servicers: ServicerRegistry, health: HealthStatuses, names: Iterable[str], address: str
    ) -> None:
        """Check repeatedly until cancelled."""
        while True:
            reason = await unready_reason(servicers)
            if reason != self.reason:
                was_ready = self.event.is_set()
                health.set_status(names, serving=not reason)
                self._set(reason)
                if not reason:
                    self._log.info("ready", address=address)
                elif was_ready:
                    self._log.warning("not_ready", address=address, reason=reason)
                else:
                    self._log.info("not_ready", address=address, reason=reason)
            await asyncio.sleep(_READY_SECONDS if self.event.is_set() else _UNREADY_SECONDS)

    def drain(self) -> None:
        """Set the service to not ready for good."""
        self._set("It is stopping.")

    def _set(self, reason: str) -> None:
        self.reason = reason
        self._gauge.set(int(not reason))
        (self.event.clear if reason else self.event.set)()


def _name(check: Callable[[], Awaitable[bool]]) -> str:
    return getattr(check, "__qualname__", "without a name").replace(".<locals>", "")
