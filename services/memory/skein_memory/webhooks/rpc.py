"""The RPCs of webhooks, and webhooks and deliveries as protobuf messages."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg

from skein.memory.v1 import memory_pb2
from skein.memory.v1 import webhooks_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid, UpdateMaskInvalid
from skein_kit.idempotency.store import IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now, parse_id
from skein_kit.rpc.pagination import read_id, resolve_page_size
from skein_kit.rpc.well_known_types import to_message, to_timestamp, updated_fields
from skein_memory.paging import cut_page
from skein_memory.validation import prefix_field_paths
from skein_memory.vault.encryption import TenantKey
from skein_memory.webhooks.delivery_store import DeliveryStore
from skein_memory.webhooks.model import Webhook, WebhookDraft, grants_after_update, makers_after_update, secret_text
from skein_memory.webhooks.sender import WebhookSender
from skein_memory.webhooks.store import WebhookStore

_STATES = {number: name.removeprefix("DELIVERY_STATE_").lower() for name, number in pb.DeliveryState.items() if number}
_DEFAULT_DELIVERIES = 100
# The permission that makes webhooks.
_MANAGE = "tenant.write"
UPDATABLE = frozenset({"display_name", "event_types", "where", "webhook_url", "active"})


class WebhookHandlers:
    """Webhooks and their deliveries."""

    def __init__(
        self, store: WebhookStore, idempotency: IdempotencyStore, *, deliveries: DeliveryStore, sender: WebhookSender
    ) -> None:
        self._store = store
        self._idempotency = idempotency
        self._deliveries = deliveries
        self._sender = sender

    async def CreateWebhook(self, request: pb.CreateWebhookRequest, context: Context) -> pb.CreateWebhookResponse:
        caller, at = caller_of(context), now()
        with prefix_field_paths("webhook"):
            draft = read_draft(request.webhook)
        self._sender.check_url(draft.webhook_url)
        key = TenantKey.new(at)
        async with self._idempotency.begin(caller, request) as write:
            webhook = await self._store.create_webhook(
                write.tx,
                caller.require_tenant(),
                draft,
                key,
                grant_ids=caller.grant_ids,
                makers=makers_after_update("[]", caller, activates=True),
                at=at,
                by=caller.principal,
            )
            response = await write.save(pb.CreateWebhookResponse(webhook=webhook_message(webhook)))
        # The saved response has no secret: a repeat does not show it again.
        response.secret = secret_text(key.secret)
        return response

    async def GetWebhook(self, request: pb.GetWebhookRequest, context: Context) -> pb.GetWebhookResponse:
        caller = caller_of(context)
        webhook = await self._store.get_webhook(caller.require_tenant(), UUID(request.webhook_id))
        return pb.GetWebhookResponse(webhook=_shown(webhook, caller))

    async def ListWebhooks(self, request: pb.ListWebhooksRequest, context: Context) -> pb.ListWebhooksResponse:
        caller, size = caller_of(context), resolve_page_size(request.page_size)
        tenant_id = caller.require_tenant()
        webhooks = await self._store.list_webhooks(tenant_id, before=read_id(tenant_id, request), count=size + 1)
        page, token = cut_page((_shown(each, caller) for each in webhooks), size, "webhook_id", tenant_id, request)
        return pb.ListWebhooksResponse(webhooks=page, next_page_token=token)

    async def UpdateWebhook(self, request: pb.UpdateWebhookRequest, context: Context) -> pb.UpdateWebhookResponse:
        caller, webhook_id = caller_of(context), parse_id(request.webhook.webhook_id)
        if webhook_id is None:
            raise FieldInvalid(violations=[("webhook.webhook_id", "must name the webhook")])
        if not request.update_mask.paths:
            raise UpdateMaskInvalid(violations=[("update_mask", "must name at least one field")])
        async with self._idempotency.begin(caller, request) as write:
            before = await self._store.lock_webhook(write.tx, caller.require_tenant(), webhook_id)
            before.check_revision(request.webhook.revision)
            with prefix_field_paths("webhook"):
                draft, activates = updated_draft(before.draft, request)
            self._sender.check_url(draft.webhook_url)
            grant_ids = grants_after_update(before.grant_ids, caller, activates=activates)
            webhook = await self._store.update_webhook(
                write.tx,
                caller.require_tenant(),
                webhook_id,
                draft,
                grant_ids=grant_ids,
                makers=makers_after_update(before.makers, caller, activates=activates),
                at=now(),
                by=caller.principal,
            )
            return await write.save(pb.UpdateWebhookResponse(webhook=webhook_message(webhook)))

    async def DeleteWebhook(self, request: pb.DeleteWebhookRequest, context: Context) -> pb.DeleteWebhookResponse:
        caller, webhook_id = caller_of(context), UUID(request.webhook_id)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.delete_webhook(
                write.tx, caller.require_tenant(), webhook_id, at=now(), by=caller.principal
            )
            await write.save(pb.DeleteWebhookResponse())
        return pb.DeleteWebhookResponse()

    async def RotateWebhookSecret(
        self, request: pb.RotateWebhookSecretRequest, context: Context
    ) -> pb.RotateWebhookSecretResponse:
        caller, at = caller_of(context), now()
        key = TenantKey(key_id=UUID(request.webhook_id), secret=TenantKey.new(at).secret)
        async with self._idempotency.begin(caller, request) as write:
            webhook = await self._store.rotate_secret(
                write.tx, caller.require_tenant(), key, at=at, by=caller.principal
            )
            response = await write.save(pb.RotateWebhookSecretResponse(webhook=webhook_message(webhook)))
        response.secret = secret_text(key.secret)
        return response

    async def TestWebhook(self, request: pb.TestWebhookRequest, context: Context) -> pb.TestWebhookResponse:
        tenant_id = caller_of(context).require_tenant()
        webhook = await self._store.get_webhook(tenant_id, UUID(request.webhook_id))
        error = await self._sender.test(tenant_id, webhook)
        return pb.TestWebhookResponse(delivered=error is None, error=error or "")

    async def ListWebhookDeliveries(
        self, request: pb.ListWebhookDeliveriesRequest, context: Context
    ) -> pb.ListWebhookDeliveriesResponse:
        tenant_id, size = caller_of(context).require_tenant(), resolve_page_size(request.page_size)
        rows = await self._deliveries.list_deliveries(
            tenant_id,
            UUID(request.webhook_id),
            state=_STATES.get(request.state),
            before=read_id(tenant_id, request),
            count=size + 1,
        )
        page, token = cut_page(map(delivery, rows), size, "delivery_id", tenant_id, request)
        return pb.ListWebhookDeliveriesResponse(deliveries=page, next_page_token=token)

    async def RetryWebhookDelivery(
        self, request: pb.RetryWebhookDeliveryRequest, context: Context
    ) -> pb.RetryWebhookDeliveryResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            row = await self._deliveries.retry_delivery(
                write.tx, caller.require_tenant(), UUID(request.delivery_id), at=now()
            )
            return await write.save(pb.RetryWebhookDeliveryResponse(delivery=delivery(row)))

    async def DeliverWebhooks(
        self, request: memory_pb2.DeliverWebhooksRequest, context: Context
    ) -> memory_pb2.DeliverWebhooksResponse:
        result = await self._sender.deliver(
            caller_of(context).require_tenant(),
            request.limit or _DEFAULT_DELIVERIES,
            seconds=request.wait.ToMilliseconds() / 1000 if request.HasField("wait") else None,
        )
        return memory_pb2.DeliverWebhooksResponse(
            delivered_count=result.delivered_count,
            failed_count=result.failed_count,
            more=result.has_more,
            active=result.has_webhooks,
            due_count=result.due_count,
            oldest_due_time=to_timestamp(result.oldest_due_time),
        )


def _shown(webhook: Webhook, caller: Caller) -> pb.Webhook:
    """Return a webhook as a caller sees it: without tenant.write no path and no query, which may be a credential."""
    message = webhook_message(webhook)
    if _MANAGE not in caller.permissions:
        parts = urlsplit(message.webhook_url)
        message.webhook_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return message


def read_draft(message: pb.Webhook) -> WebhookDraft:
    """Read a caller's new webhook. Raises FieldInvalid, EventTypeUnknown and errors of its condition."""
    return WebhookDraft(
        display_name=message.display_name,
        event_types=tuple(sorted(message.event_types)),
        condition=message.where.strip(),
        webhook_url=message.webhook_url,
        is_active=True,
    ).validate()


def updated_draft(before: WebhookDraft, request: pb.UpdateWebhookRequest) -> tuple[WebhookDraft, bool]:
    """Return a draft with the fields that the mask names, validated, and whether the request activates the webhook."""
    message, fields = request.webhook, updated_fields(request.update_mask, UPDATABLE)
    values: dict[str, object] = {}
    if "display_name" in fields:
        values["display_name"] = message.display_name
    if "event_types" in fields:
        values["event_types"] = tuple(sorted(message.event_types))
    if "where" in fields:
        values["condition"] = message.where.strip()
    if "webhook_url" in fields:
        values["webhook_url"] = message.webhook_url
    if "active" in fields:
        values["is_active"] = message.active
    after = replace(before, **values).validate()  # type: ignore[arg-type]  # Each of its field's type.
    return after, "active" in fields and message.active


def webhook_message(value: Webhook) -> pb.Webhook:
    draft = value.draft
    return pb.Webhook(
        webhook_id=str(value.webhook_id),
        display_name=draft.display_name,
        event_types=draft.event_types,
        where=draft.condition,
        webhook_url=draft.webhook_url,
        active=draft.is_active,
        consecutive_failures=value.failures,
        last_delivery_time=to_timestamp(value.last_delivery_time),
        last_error=value.last_error or "",
        disable_time=to_timestamp(value.disable_time),
        retry_time=to_timestamp(value.retry_time),
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
        grant_ids=[str(grant_id) for grant_id in value.grant_ids],
    )


def delivery(row: asyncpg.Record) -> pb.WebhookDelivery:
    return to_message(
        pb.WebhookDelivery,
        row,
        attempt_count=row["attempts"],
        next_attempt_time=to_timestamp(row["next_time"]) if row["state"] == "pending" else None,
    )
