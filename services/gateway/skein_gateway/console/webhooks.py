"""The webhooks pages: a list with a form for a new webhook, and one webhook with its deliveries and their failures."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response

from skein.memory.v1 import webhooks_pb2
from skein_gateway.console import field_merge
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, list_page, page_links, revision_of
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 25
STATES = ("pending", "delivered", "failed")
_FIELDS = ("display_name", "webhook_url", "event_types", "where", "active")
_EMPTY: Mapping[str, str] = {**dict.fromkeys(_FIELDS, ""), "event_types": "*", "active": "on"}


async def list_webhooks(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List the webhooks."""
    return await _list(request, context, parameters)


async def create(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Create a webhook. Its signing key is shown once."""
    values = _typed(form)
    create_request = webhooks_pb2.CreateWebhookRequest(
        webhook=_webhook_of(values, _FIELDS), request_id=form.get("request_id")
    )
    response = await or_page_error(context.api.history.CreateWebhook(create_request))
    if isinstance(response, PageError):
        return await _list(request, context, parameters, values=values, failure=response)
    return await _list(request, context, parameters, created=response)


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    values: Mapping[str, str] = _EMPTY,
    created: webhooks_pb2.CreateWebhookResponse | None = None,
    failure: PageError | None = None,
) -> Response:
    response = await or_page_error(
        context.api.history.ListWebhooks(
            webhooks_pb2.ListWebhooksRequest(page_size=_PAGE, page_token=parameters.get("page"))
        )
    )
    return list_page(
        "webhooks",
        request,
        context,
        parameters,
        response,
        title="Webhooks",
        failure=failure,
        created=created,
        values=values,
        # A form that is sent twice creates one webhook.
        request_id=str(uuid.uuid4()),
        may_write=context.may("tenant.write"),
    )


async def show_webhook(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show one webhook with a page of its deliveries."""
    return await _webhook_page(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Save, test or delete a webhook, replace its signing key, or retry a delivery."""
    webhook_id, step, history = parameters.get("id"), form.get("step"), context.api.history
    values: Mapping[str, str] | None = None
    response: Message | PageError
    if step == "save":
        values = _typed(form)
        response = await _save(context, webhook_id, revision_of(form), values)
    elif step == "test":
        response = await or_page_error(history.TestWebhook(webhooks_pb2.TestWebhookRequest(webhook_id=webhook_id)))
    elif step == "rotate":
        response = await or_page_error(
            history.RotateWebhookSecret(
                webhooks_pb2.RotateWebhookSecretRequest(webhook_id=webhook_id, request_id=form.get("request_id"))
            )
        )
    elif step == "retry":
        response = await or_page_error(
            history.RetryWebhookDelivery(webhooks_pb2.RetryWebhookDeliveryRequest(delivery_id=form.get("delivery_id")))
        )
    elif step == "delete":
        response = await or_page_error(history.DeleteWebhook(webhooks_pb2.DeleteWebhookRequest(webhook_id=webhook_id)))
    else:
        raise FormInvalid("The form is incomplete. Open the webhook again.")
    if isinstance(response, PageError):
        return await _webhook_page(request, context, parameters, values=values, failure=response)
    if isinstance(response, webhooks_pb2.TestWebhookResponse | webhooks_pb2.RotateWebhookSecretResponse):
        return await _webhook_page(request, context, parameters, result=response)
    if step == "delete":
        return see_other(context.url("webhooks", done="webhook-delete"))
    return see_other(context.url("webhook", id=webhook_id, state=_state(parameters), done=f"webhook-{step}"))


async def _save(context: PageContext, webhook_id: str, revision: int, values: Mapping[str, str]) -> Message | PageError:
    stored = (await context.api.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))).webhook
    changed = field_merge.changed_fields(_values_of(stored), values)
    if not changed:
        return stored
    webhook = _webhook_of(values, changed)
    webhook.webhook_id, webhook.revision = webhook_id, revision
    update_request = webhooks_pb2.UpdateWebhookRequest(webhook=webhook)
    update_request.update_mask.paths.extend(changed)
    return await or_page_error(context.api.history.UpdateWebhook(update_request))


async def _webhook_page(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    values: Mapping[str, str] | None = None,
    result: Message | None = None,
    failure: PageError | None = None,
) -> Response:
    webhook_id, state = parameters.get("id"), _state(parameters)
    response = await context.api.history.GetWebhook(webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))
    deliveries = await or_page_error(
        context.api.history.ListWebhookDeliveries(
            webhooks_pb2.ListWebhookDeliveriesRequest(
                webhook_id=webhook_id,
                state=f"DELIVERY_STATE_{state.upper()}" if state else None,
                page_size=_PAGE,
                page_token=parameters.get("page"),
            )
        )
    )
    return form_page(
        "webhook",
        request,
        context,
        at="webhooks",
        title=response.webhook.display_name,
        failure=failure,
        webhook=response.webhook,
        values=_values_of(response.webhook) if values is None else values,
        deliveries=deliveries,
        state=state,
        states=STATES,
        test=result if isinstance(result, webhooks_pb2.TestWebhookResponse) else None,
        rotated=result if isinstance(result, webhooks_pb2.RotateWebhookSecretResponse) else None,
        request_id=str(uuid.uuid4()),
        **page_links(context, "webhook", deliveries, parameters, id=webhook_id, state=state),
        may_write=context.may("tenant.write"),
    )


def _state(parameters: Parameters) -> str:
    return parameters.get("state") if parameters.get("state") in STATES else ""


def _typed(form: Parameters) -> dict[str, str]:
    return {name: form.get(name) for name in _FIELDS}


def _values_of(webhook: webhooks_pb2.Webhook) -> dict[str, str]:
    return {
        "display_name": webhook.display_name,
        "webhook_url": webhook.webhook_url,
        "event_types": "\n".join(webhook.event_types),
        "where": webhook.where,
        "active": "on" if webhook.active else "",
    }


def _webhook_of(values: Mapping[str, str], names: Sequence[str]) -> webhooks_pb2.Webhook:
    webhook = webhooks_pb2.Webhook()
    for name in names:
        text = values[name].strip()
        if name == "active":
            webhook.active = text == "on"
        elif name == "event_types":
            webhook.event_types.extend(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
        else:
            setattr(webhook, name, text)
    return webhook
