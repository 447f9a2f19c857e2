"""Name resolution in which a slow name server delays only its own callers.

The system's resolver blocks, for a minute or more when name servers do not answer, and cannot be cancelled. So each
lookup has a thread, and keeps its slot until that thread returns, whether or not the caller still waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Sequence
from typing import Any

from skein_kit.admission.fair_slots import FairSlots

# Lookups at a time: of one process, and of one owner.
_TOTAL = 256
_PER_OWNER = 4


class Resolver:
    """Looks up at most 256 names at a time, at most four of them for one owner."""

    def __init__(self) -> None:
        """Start without lookups."""
        self._slots = FairSlots(_TOTAL, per_owner=_PER_OWNER)
        self._slot_releases: set[asyncio.Future[None]] = set()

    async def resolve(self, host: str, port: int, owner: str) -> list[str]:
        """Return the addresses of a name, once the owner has a slot. The caller sets the deadline. Raises OSError."""
        loop = asyncio.get_running_loop()
        while not self._slots.free_for(owner):
            slot_release = loop.create_future()
            self._slot_releases.add(slot_release)
            try:
                await slot_release
            finally:
                self._slot_releases.discard(slot_release)
        self._slots.take(owner)
        result: asyncio.Future[Sequence[Any]] = loop.create_future()

        def end(addresses: Sequence[Any], error: Exception | None) -> None:
            self._release(owner)
            if result.done():
                return
            if error is None:
                result.set_result(addresses)
            else:
                result.set_exception(error)

        def look_up() -> None:
            addresses: Sequence[Any] = ()
            error: Exception | None = None
            try:
                addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except Exception as exception:  # noqa: BLE001 - it belongs to the caller.
                error = exception
            # The loop is closed: the process stops, and no caller waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, addresses, error)

        # A daemon thread does not keep the process alive.
        thread = threading.Thread(target=look_up, name="resolver", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._release(owner)
            raise OSError(errno.EAGAIN, "no thread") from None
        return list(dict.fromkeys(str(entry[4][0]) for entry in await result))

    def _release(self, owner: str) -> None:
        self._slots.release(owner)
        for slot_release in self._slot_releases:
            if not slot_release.done():
                slot_release.set_result(None)
