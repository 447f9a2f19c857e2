"""Composition root of worker."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein_kit.service import Service, Servicers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_kit.service import Host


@asynccontextmanager
async def start(_host: Host) -> AsyncIterator[Servicers]:
    """Answer health and reflection."""
    yield Servicers()


SERVICE = Service(name="worker", port=50056, calls=("auth", "tenancy", "recall", "session", "memory"), start=start)
