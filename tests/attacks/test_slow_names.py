"""Slow names: a name server that takes its time holds up only those who ask it.

Attack: tenants name hosts whose name server never answers, many of them at once, and again.
May be seen: names of others are looked up while all of these still wait.
May be spent: four lookups for a tenant, and never the last free one of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fix_attacks import attack_size

from skein_kit.outbound.fetch import OutboundError, SafeHttpClient

OWNERS, NAMES = attack_size(12, 60), attack_size(6, 30)
PER_OWNER, TOTAL = 4, 256


class NameServer:
    """Answers for every name at once, but for names of the zone "slow"."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.waiting: dict[str, int] = {}

    def look_up(self, host: str, port: int, **_: object) -> list[Any]:
        if host.endswith(".slow.example"):
            owner = host.split(".")[1]
            with self.lock:
                self.waiting[owner] = self.waiting.get(owner, 0) + 1
            self.over.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.look_up)
    yield server
    server.over.set()


async def refused(outbound: SafeHttpClient, host: str, owner: str, *, timeout: float = 600.0) -> str:
    """Return why a fetch was refused: what resolves here is private."""
    with pytest.raises(OutboundError) as caught:
        await outbound.fetch_json(f"https://{host}/", owner=owner, timeout=timeout)
    return caught.value.why


async def test_names_of_others_are_looked_up_while_slow_ones_wait(name_server: NameServer) -> None:
    outbound = SafeHttpClient()
    slow = [
        asyncio.create_task(refused(outbound, f"n{number}.owner{owner}.slow.example", f"owner{owner}"))
        for owner in range(OWNERS)
        for number in range(NAMES)
    ]
    while not all(f"owner{owner}" in name_server.waiting for owner in range(OWNERS)):
        await asyncio.sleep(0)

    whys = [await refused(outbound, f"name{number}.fast.example", "honest") for number in range(20)]

    assert whys == ["address"] * 20
    assert not any(task.done() for task in slow)
    assert max(name_server.waiting.values()) <= PER_OWNER
    assert sum(name_server.waiting.values()) < TOTAL
    name_server.over.set()
    assert set(await asyncio.gather(*slow)) == {"address"}


async def test_lookups_that_callers_gave_up_still_count(name_server: NameServer) -> None:
    outbound = SafeHttpClient()
    for number in range(3 * PER_OWNER):
        assert await refused(outbound, f"n{number}.one.slow.example", "one", timeout=0.01) == "time"

    assert name_server.waiting["one"] == PER_OWNER
    assert await refused(outbound, "fast.example", "other") == "address"
    name_server.over.set()
    with contextlib.suppress(AssertionError):
        await refused(outbound, "fast.example", "one")
    assert await refused(outbound, "fast.example", "one") == "address"
