"""Requests that name a tenant's webhooks and its access log."""

from __future__ import annotations

import asyncio
from typing import Any

from fix_recipe import mask, service
from fix_world import MAKERS, World, system_identity

from skein.memory.v1 import access_log_pb2, memory_pb2, memory_pb2_grpc, webhooks_pb2

_webhooks = service("skein.memory.v1.HistoryService", webhooks_pb2)
_access_log = service("skein.memory.v1.HistoryService", access_log_pb2)
_internal = service("skein.memory.v1.MemoryInternalService", memory_pb2)
# Nothing is sent there: the address is refused before.
NOWHERE = "https://127.0.0.1/hook"


def _refused_call(_things: dict[str, Any], _world: World) -> dict[str, Any]:
    path = "/skein.memory.v1.MemoryService/ListMemories"
    call = access_log_pb2.RefusedCall(path=path, error_code="PERMISSION_DENIED", call_count=1)
    call.create_time.GetCurrentTime()
    return {"calls": [call]}


def new_webhook(world: World, **values: Any) -> webhooks_pb2.Webhook:
    return webhooks_pb2.Webhook(display_name=world.text(), event_types=["*"], webhook_url=NOWHERE, **values)


async def _webhook(world: World) -> str:
    request = webhooks_pb2.CreateWebhookRequest(webhook=new_webhook(world))
    return (await world.tenant.history.CreateWebhook(request)).webhook.webhook_id


async def _delivery(world: World) -> str:
    webhook_id = await world.thing("webhook_id")
    await world.thing("memory_id")
    request = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
    identity = await system_identity(world.cluster, str(world.tenant.tenant_id))
    async with world.cluster.direct("memory") as channel:
        stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
        headers = (("authorization", f"Bearer {identity}"),)
        async with asyncio.timeout(30):
            while True:
                await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)
                listed = await world.tenant.history.ListWebhookDeliveries(request)
                if listed.deliveries:
                    return listed.deliveries[0].delivery_id
                # Changes are told once no older transaction of the database writes.
                await asyncio.sleep(0.05)


MAKERS["webhook_id"] = _webhook
MAKERS["delivery_id"] = _delivery

_webhooks("CreateWebhook", build=lambda _t, w: {"webhook": new_webhook(w)})
_webhooks("GetWebhook", "webhook_id")
_webhooks("ListWebhooks")
_webhooks(
    "UpdateWebhook",
    "webhook_id",
    build=lambda t, _w: {
        "webhook": webhooks_pb2.Webhook(**t, display_name="renamed"),
        "update_mask": mask("display_name"),
    },
)
_webhooks("DeleteWebhook", "webhook_id")
_webhooks("RotateWebhookSecret", "webhook_id")
_webhooks("TestWebhook", "webhook_id")
_webhooks("ListWebhookDeliveries", "webhook_id")
_webhooks("RetryWebhookDelivery", "delivery_id")
_access_log("ListAccessLog")
service("skein.memory.v1.MemoryInternalService", access_log_pb2)("RecordRefusedCalls", build=_refused_call)
_internal("DeliverWebhooks")
