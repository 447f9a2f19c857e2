"""Composition root of pc2."""

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


SERVICE = Service(name="pc2", port=50057, calls=("auth", "gateway"), start=start)
