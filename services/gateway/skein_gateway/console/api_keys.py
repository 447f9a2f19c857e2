"""The API keys page: lists, creates (the secret is shown once), adopts and revokes keys of a tenant."""

from __future__ import annotations

import time
import uuid

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import list_page
from skein_gateway.console.problems import PageError, or_page_error, page_error_of
from skein_gateway.oauth.forms import Parameters
from skein_gateway.oauth.pages import see_other
from skein_kit.errors import FieldInvalid
from skein_kit.identity.permissions import AGENT_PERMISSIONS, PERMISSION_DESCRIPTIONS

_PAGE = 50
# Lifetimes of a new key, in days.
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "1 year", "": "until revoked"}
_DAY = 86_400
_CHECKBOX_PREFIX = "permission-"


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List the keys."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Create, revoke or adopt a key. An adopted key outlives the access of the application that created it."""
    try:
        if form.get("step") == "revoke":
            await context.api.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=form.get("api_key_id")))
            return see_other(context.url("keys", done="revoked"))
        if form.get("step") == "adopt":
            await context.api.auth.AdoptApiKey(accounts_pb2.AdoptApiKeyRequest(api_key_id=form.get("api_key_id")))
            return see_other(context.url("keys", done="adopted"))
        created = await context.api.auth.CreateApiKey(_create_request(form))
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return await _list(request, context, parameters, form=form, failure=page_error_of(error))
    return await _list(request, context, parameters, created=created)


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    form: Parameters | None = None,
    created: auth_pb2.CreateApiKeyResponse | None = None,
    failure: PageError | None = None,
) -> Response:
    response = await or_page_error(
        context.api.auth.ListApiKeys(auth_pb2.ListApiKeysRequest(page_size=_PAGE, page_token=parameters.get("page")))
    )

    permissions = [(name, meaning) for name, meaning in PERMISSION_DESCRIPTIONS.items() if context.may(name)]
    checked = (
        AGENT_PERMISSIONS
        if form is None
        else {name for name in PERMISSION_DESCRIPTIONS if form.get(_CHECKBOX_PREFIX + name) == "on"}
    )
    return list_page(
        "keys",
        request,
        context,
        parameters,
        response,
        title="API keys",
        failure=failure,
        created=created,
        caller_key_id=context.caller.principal.removeprefix("api_key:"),
        permissions=permissions,
        checked=checked,
        checkbox_prefix=_CHECKBOX_PREFIX,
        display_name="" if form is None else form.get("display_name"),
        lifetime="90" if form is None else form.get("lifetime"),
        lifetimes=LIFETIMES,
        # A form that is sent twice creates one key.
        request_id=str(uuid.uuid4()),
        may_write=context.may("keys.write"),
        may_adopt=context.may("keys.write") and not context.is_key,
    )


def _create_request(form: Parameters) -> auth_pb2.CreateApiKeyRequest:
    """Parse the form. Raises FieldInvalid without permissions: such a key would get all those of the caller."""
    permissions = [name for name in PERMISSION_DESCRIPTIONS if form.get(_CHECKBOX_PREFIX + name) == "on"]
    if not permissions:
        raise FieldInvalid(violations=[("permissions", "select at least one")])
    days = form.get("lifetime")
    # The end of a day, so that a repeated form is the same request.
    today = int(time.time()) // _DAY
    expire_time = Timestamp(seconds=(today + int(days) + 1) * _DAY) if days in LIFETIMES and days else None
    return auth_pb2.CreateApiKeyRequest(
        display_name=form.get("display_name").strip(),
        permissions=permissions,
        expire_time=expire_time,
        request_id=form.get("request_id"),
    )
