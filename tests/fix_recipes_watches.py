"""Requests that name a tenant's watches and its access log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fix_recipe import mask, service
from fix_world import MAKERS, World, system_identity

from skein.memory.v1 import access_log_pb2, memory_pb2, memory_pb2_grpc, watches_pb2

if TYPE_CHECKING:
    from typing import Any

_watches = service("skein.memory.v1.HistoryService", watches_pb2)
_access_log = service("skein.memory.v1.HistoryService", access_log_pb2)
_upkeep = service("skein.memory.v1.MemoryInternalService", memory_pb2)
# Nothing is sent there: the address is refused before.
NOWHERE = "https://127.0.0.1/hook"


def watch(world: World, **values: Any) -> watches_pb2.Watch:
    return watches_pb2.Watch(display_name=world.text(), event_types=["*"], webhook_url=NOWHERE, **values)


async def _watch(world: World) -> str:
    request = watches_pb2.CreateWatchRequest(watch=watch(world))
    return (await world.tenant.history.CreateWatch(request)).watch.watch_id


async def _delivery(world: World) -> str:
    watch_id = await world.thing("watch_id")
    await world.thing("memory_id")
    request = watches_pb2.ListDeliveriesRequest(watch_id=watch_id)
    identity = await system_identity(world.cluster, str(world.tenant.tenant_id))
    async with world.cluster.direct("memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        headers = (("authorization", f"Bearer {identity}"),)
        async with asyncio.timeout(30):
            while True:
                await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)
                listed = await world.tenant.history.ListDeliveries(request)
                if listed.deliveries:
                    return listed.deliveries[0].delivery_id
                # Changes are told once no older transaction of the database writes.
                await asyncio.sleep(0.05)


MAKERS["watch_id"] = _watch
MAKERS["delivery_id"] = _delivery

_watches("CreateWatch", build=lambda _t, w: {"watch": watch(w)})
_watches("GetWatch", "watch_id")
_watches("ListWatches")
_watches(
    "UpdateWatch",
    "watch_id",
    build=lambda t, _w: {"watch": watches_pb2.Watch(**t, display_name="renamed"), "update_mask": mask("display_name")},
)
_watches("DeleteWatch", "watch_id")
_watches("RotateWatchSecret", "watch_id")
_watches("TestWatch", "watch_id")
_watches("ListDeliveries", "watch_id")
_watches("RetryDelivery", "delivery_id")
_access_log("ListAccessLog")
_upkeep("DeliverWebhooks")
