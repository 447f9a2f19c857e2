"""How the tenancy service is put together."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_kit.service import Host, Service, Servicers
from skein_tenancy.parts import Parts
from skein_tenancy.servicer import TenancyServicer, UpkeepServicer
from skein_tenancy.store import AgentStore, DirectoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def start(host: Host) -> AsyncIterator[Servicers]:
    """Open the pool and put the servicers on it."""
    servicers = Servicers()
    async with host.database("tenancy", servicers) as database:
        parts = Parts(directory=DirectoryStore(database), agents=AgentStore(database))
        servicers.add(rpc.add_TenancyServiceServicer_to_server, TenancyServicer(parts))
        servicers.add(rpc.add_UpkeepServiceServicer_to_server, UpkeepServicer())
        yield servicers


SERVICE = Service(name="tenancy", port=50052, calls=("auth",), start=start)
