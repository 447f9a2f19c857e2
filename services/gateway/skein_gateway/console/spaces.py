"""The spaces pages: the spaces of a tenant, who sees them and until when, and where the browser's pages act."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from skein.tenancy.v1 import spaces_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import form_page, list_page, page_links
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other

_PAGE = 50
# Roles from the lowest to the highest, each with what it adds.
ROLES: Mapping[str, str] = {
    "reader": "reads what lies in the space",
    "writer": "also writes in it",
    "manager": "also says who else sees it",
}


async def list_spaces(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List the spaces that the caller sees, with a form for a new one."""
    return await _list(request, context, parameters)


async def create(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Create a space, or choose the one in which this browser's pages act."""
    if form.get("step") == "choose":
        space_id = form.get("space_id")
        response = see_other(context.url("spaces", done="space-chosen"))
        context.browser.set_space(response, space_id if space_id in context.spaces else "")
        return response
    space = spaces_pb2.Space(display_name=form.get("name").strip(), description=form.get("description").strip())
    created = await or_page_error(
        context.api.tenancy.CreateSpace(spaces_pb2.CreateSpaceRequest(space=space, request_id=form.get("request_id")))
    )
    if isinstance(created, PageError):
        return await _list(request, context, parameters, form=form, failure=created)
    return see_other(context.url("space", id=created.space.space_id, done="space-created"))


async def show_space(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """Show a space and its grants."""
    return await _show(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Grant or revoke a space, or delete it."""
    response = await or_page_error(_step(context, form))
    if isinstance(response, PageError):
        return await _show(request, context, parameters, form=form, failure=response)
    if form.get("step") == "delete":
        return see_other(context.url("spaces", done="space-deleted"))
    return see_other(context.url("space", id=form.get("space_id"), done=f"space-{form.get('step')}"))


def _step(context: PageContext, form: Parameters) -> Awaitable[object]:
    """Return the call of a form. Raises FormInvalid for a form that is none of the page's."""
    tenancy, step, role = context.api.tenancy, form.get("step"), form.get("role")
    space_id, principal = form.get("space_id"), form.get("principal").strip()
    if step == "grant" and role in ROLES:
        grant = spaces_pb2.SpaceGrant(
            space_id=space_id,
            principal=principal,
            role=f"SPACE_ROLE_{role.upper()}",
            is_delegable=form.get("delegable") == "on",
        )
        if form.get("until"):
            grant.expire_time.FromDatetime(_day(form.get("until")))
        return tenancy.GrantSpace(
            spaces_pb2.GrantSpaceRequest(grant=grant, bind=form.get("bind") == "on", request_id=form.get("request_id"))
        )
    if step == "revoke":
        return tenancy.RevokeSpaceGrant(
            spaces_pb2.RevokeSpaceGrantRequest(
                space_id=space_id, principal=principal, unbind=form.get("unbind") == "on"
            )
        )
    if step == "delete":
        return tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=space_id))
    raise FormInvalid("The form is incomplete. Load the page again.")


def _day(text: str) -> datetime:
    """Return the beginning of a day, in UTC. Raises FormInvalid."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise FormInvalid("The end is no day. Write it as 2026-12-31.") from None


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    form: Parameters | None = None,
    failure: PageError | None = None,
) -> Response:
    response = await or_page_error(
        context.api.tenancy.ListSpaces(spaces_pb2.ListSpacesRequest(page_size=_PAGE, page_token=parameters.get("page")))
    )
    return list_page(
        "spaces",
        request,
        context,
        parameters,
        response,
        title="Spaces",
        failure=failure,
        name="" if form is None else form.get("name"),
        description="" if form is None else form.get("description"),
        request_id=str(uuid.uuid4()),
        may_write=context.may("spaces.write"),
    )


async def _show(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    form: Parameters | None = None,
    failure: PageError | None = None,
) -> Response:
    space_id = form.get("space_id") if form is not None else parameters.get("id")
    space = (await context.api.tenancy.GetSpace(spaces_pb2.GetSpaceRequest(space_id=space_id))).space
    grants = await or_page_error(
        context.api.tenancy.ListSpaceGrants(
            spaces_pb2.ListSpaceGrantsRequest(space_id=space_id, page_size=_PAGE, page_token=parameters.get("page"))
        )
    )
    return form_page(
        "space",
        request,
        context,
        at="spaces",
        title=space.display_name,
        failure=failure,
        space=space,
        response=grants,
        roles=ROLES,
        principal="" if form is None else form.get("principal"),
        role="reader" if form is None or form.get("role") not in ROLES else form.get("role"),
        request_id=str(uuid.uuid4()),
        **page_links(context, "space", grants, parameters, id=space_id),
        may_bind=context.may("spaces.write"),
    )
