"""Whether a service can serve, why it cannot, and who is told: the health service, a gauge, a line in the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import READY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skein_kit.rpc.health_reflection import HealthStatuses
    from skein_kit.rpc.servicer_registry import ServicerRegistry

_INTERVAL_SECONDS = 0.25
_CHECK_SECONDS = 2.0


class NotReady(Exception):
    """A service cannot serve; the message says why, and what whoever runs it can do."""


def require_schema_version(version: int, supported: int) -> None:
    """Accept the version that the code was written for and the next one; raise Unready for others.

    So a migration goes first and the processes follow one by one, and they may go back to the version before.
    """
    if version in (supported, supported + 1):
        return
    hint = "run `skein migrate`" if version < supported else "it takes a newer version of Skein"
    message = f"The schema is at version {version}; this process serves {supported} and {supported + 1}: {hint}."
    raise NotReady(message)


async def unready_reason(servicers: ServicerRegistry) -> str:
    """Return what keeps a service from serving; nothing when every check says yes in time."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            for check in servicers.ready_checks:
                if not await check():
                    return f"{_name(check)} says no."
    except NotReady as unready:
        return str(unready)
    except TimeoutError:
        return f"A check took more than {_CHECK_SECONDS:.0f} s."
    except Exception as error:  # noqa: BLE001 - whatever is wrong, the answer is no.
        # The words of an error may hold secrets.
        return f"A check failed with {type(error).__name__}."
    return ""


async def is_ready(servicers: ServicerRegistry) -> bool:
    """Say whether every check of a service says so, in time."""
    return not await unready_reason(servicers)


class Readiness:
    """What is known of one service, and who is told when it changes."""

    def __init__(self, service: str) -> None:
        """Begin with "not yet"."""
        self.event = asyncio.Event()
        # Nothing when it is ready.
        self.why = "It is starting."
        self._service = service
        self._log = logs.get(service)
        self._gauge = READY.labels(service)
        self._gauge.set(0)

    async def watch(
        self, servicers: ServicerRegistry, checker: HealthStatuses, names: Iterable[str], address: str
    ) -> None:
        """Look again and again, until cancelled."""
        while True:
            why = await unready_reason(servicers)
            if why != self.why:
                was_ready = self.event.is_set()
                checker.set_status(names, serving=not why)
                self._tell(why)
                if not why:
                    self._log.info("ready", address=address)
                elif was_ready:
                    self._log.warning("not_ready", address=address, why=why)
                else:
                    self._log.info("not_ready", address=address, why=why)
            await asyncio.sleep(4 * _INTERVAL_SECONDS if self.event.is_set() else _INTERVAL_SECONDS)

    def leave(self) -> None:
        """Say "no" from here on; nobody watches any more."""
        self._tell("It leaves off.")

    def _tell(self, why: str) -> None:
        self.why = why
        self._gauge.set(int(not why))
        (self.event.clear if why else self.event.set)()


def _name(check: Callable[[], Awaitable[bool]]) -> str:
    return getattr(check, "__qualname__", "A check").replace(".<locals>", "")
