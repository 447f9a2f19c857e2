"""Asks the admin port of a process whether the process is ready, and what its vector cache holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

_READY_SECONDS = 2.0
# A busy process takes its time over its metrics, and is the one that somebody wants to see.
_METRICS_SECONDS = 10.0
_EXACT, _APPROXIMATE, _BYTES = (
    'skein_vector_cache_tenants{form="exact"}',
    'skein_vector_cache_tenants{form="approximate"}',
    "skein_vector_cache_bytes",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorCacheStatus:
    """The vector cache of a process: its tenants by the form of their codes, and its size."""

    exact_tenants: int
    approximate_tenants: int
    bytes: int


async def read_vector_cache(address: str) -> VectorCacheStatus | None:
    """Read the vector cache's metrics of "host:port"; None without an answer in time, or without recall."""
    host, _, port = address.rpartition(":")
    values: dict[str, float] = {}
    try:
        async with asyncio.timeout(_METRICS_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
                async for line in reader:
                    name, _, value = line.decode().strip().partition(" ")
                    if name in (_EXACT, _APPROXIMATE, _BYTES):
                        values[name] = float(value)
    except (OSError, TimeoutError, ValueError):
        return None
    if len(values) < len((_EXACT, _APPROXIMATE, _BYTES)):
        return None
    return VectorCacheStatus(
        exact_tenants=int(values[_EXACT]), approximate_tenants=int(values[_APPROXIMATE]), bytes=int(values[_BYTES])
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Readiness:
    """What /readyz of a process says."""

    # Whether it answered.
    answers: bool = False
    is_ready: bool = False
    # Why services of it are not ready, by service.
    reasons: Mapping[str, str] = field(default_factory=dict)


async def read_readiness(address: str) -> Readiness:
    """Ask /readyz of "host:port", for two seconds at most."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_READY_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    except (OSError, TimeoutError):
        return Readiness()
    try:
        reasons = json.loads(body).get("why", {})
    except (ValueError, AttributeError):
        reasons = {}
    return Readiness(answers=True, is_ready=b" 200 " in head.partition(b"\r\n")[0], reasons=reasons)


async def is_ready(address: str) -> bool:
    """Tell whether /readyz of "host:port" succeeds within two seconds."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_READY_SECONDS):
            reader, writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(writer):
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
