"""A server that ended by itself is started again, however often that fails, and not in a hurry."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from itertools import pairwise

import pytest

from skein_cluster.embedded import server
from skein_cluster.embedded.errors import PostgresDidNotStart
from skein_cluster.embedded.server import ServerSupervisor


def ended() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process


async def test_a_start_that_fails_for_whatever_reason_is_tried_again_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Every server counts as one that ran well before it ended.
    monkeypatch.setattr(server, "_GOOD_SECONDS", -1.0)
    monkeypatch.setattr(server, "_FIRST_PAUSE_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    tries: list[float] = []
    is_back = asyncio.Event()
    troubles = [OSError("no more processes"), *(PostgresDidNotStart("no room") for _ in range(3))]

    async def start() -> subprocess.Popen[bytes]:
        tries.append(loop.time())
        if troubles:
            raise troubles.pop(0)
        process = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        is_back.set()
        return process

    kept = ServerSupervisor(ended(), start)
    task = asyncio.create_task(kept.supervise())
    await asyncio.wait_for(is_back.wait(), 30)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    kept.process.communicate(b"\n")
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert [pause >= least for pause, least in zip(pauses, (0.01, 0.02, 0.04, 0.08), strict=True)] == [True] * 4
