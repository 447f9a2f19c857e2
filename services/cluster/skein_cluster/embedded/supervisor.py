"""Restarts a server that ended by itself: killed, or stopped by a full disk.

Recovery keeps every acknowledged write. Connections are refused until then.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable

from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_kit.telemetry import logs

# Poll interval, and first pause after a failed start, which doubles each time.
_LOOK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 15.0
# A server that ran longer counts as started.
_GOOD_SECONDS = 60.0

_log = logs.get("postgres")


class ServerSupervisor:
    """The process of a server, which restarts may replace."""

    def __init__(
        self, process: subprocess.Popen[bytes], start: Callable[[], Awaitable[subprocess.Popen[bytes]]]
    ) -> None:
        """Supervise a running process; `start` creates another or raises PostgresDidNotStart."""
        self.process = process
        self._start = start

    async def supervise(self) -> None:
        """Restart the server whenever it ends, until cancelled. A failed start is logged and retried."""
        loop = asyncio.get_running_loop()
        started, pause = loop.time(), _FIRST_PAUSE_SECONDS
        while True:
            if self.process.poll() is None:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            _log.error("postgres_exited", code=self.process.returncode)
            if loop.time() - started > _GOOD_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            while not await self._restart(pause):
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
            started = loop.time()

    async def _restart(self, pause: float) -> bool:
        """Start the server once and return whether it runs; pause after a failure."""
        try:
            self.process = await self._start()
        except (PostgresDidNotStart, OSError) as error:
            # Also when the machine cannot start a process or write the server's files.
            _log.error("postgres_start_failed", why=str(error), pause_seconds=pause)
            await asyncio.sleep(pause)
            return False
        _log.warning("postgres_restarted", process=self.process.pid)
        return True
