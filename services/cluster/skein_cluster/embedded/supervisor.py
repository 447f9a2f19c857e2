"""Starting a server again that ended by itself: killed, or stopped by a disk without room.

The data folder is what it was, and recovery keeps every write that was acknowledged. Who calls meanwhile is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Awaitable, Callable

# How soon it is noticed, and between a start that failed and the next one: doubled each time.
_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
# A server that ran for longer is no server that cannot start.
_GOOD_SECONDS = 60.0

_log = logs.get("postgres")


class ServerSupervisor:
    """The process of a server, which may be another one later."""

    def __init__(
        self, process: subprocess.Popen[bytes], start: Callable[[], Awaitable[subprocess.Popen[bytes]]]
    ) -> None:
        """Begin with a process that runs; `start` makes another one or raises PostgresDidNotStart."""
        self.process = process
        self._start = start

    async def keep(self) -> None:
        """Start it again whenever it ends, until cancelled. A start that fails is logged, and tried again."""
        loop = asyncio.get_running_loop()
        started, pause = loop.time(), _FIRST_PAUSE_SECONDS
        while True:
            if self.process.poll() is None:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            _log.error("postgres_ended", code=self.process.returncode)
            if loop.time() - started > _GOOD_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            while not await self._is_back(pause):
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            started = loop.time()

    async def _is_back(self, pause: float) -> bool:
        """Start it once; wait a little after a failure."""
        try:
            self.process = await self._start()
        except (PostgresDidNotStart, OSError) as error:
            # Also when the machine has no room for another process, or for the file of the server's.
            _log.error("postgres_did_not_start", why=str(error), pause_seconds=pause)
            await asyncio.sleep(pause)
            return False
        _log.warning("postgres_is_back", process=self.process.pid)
        return True
