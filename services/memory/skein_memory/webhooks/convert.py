"""Webhooks and their deliveries: protobuf to model and back."""

from __future__ import annotations

from dataclasses import replace

import asyncpg

from skein.memory.v1 import webhooks_pb2 as pb
from skein_kit.rpc.well_known_types import to_message, to_timestamp, updated_fields
from skein_memory.webhooks.model import Webhook, WebhookDraft

UPDATABLE = frozenset({"display_name", "event_types", "where", "webhook_url", "active"})


def draft(message: pb.Webhook) -> WebhookDraft:
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


def webhook(value: Webhook) -> pb.Webhook:
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
