"""The members page: who belongs to the tenant with which role, and open invitations."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping

from google.protobuf.duration_pb2 import Duration
from starlette.requests import Request
from starlette.responses import Response

from skein.tenancy.v1 import members_pb2
from skein_gateway.console.browser_sessions import PageContext
from skein_gateway.console.pages import list_page, revision_of
from skein_gateway.console.problems import PageError, or_page_error
from skein_gateway.oauth.forms import FormInvalid, Parameters
from skein_gateway.oauth.pages import see_other
from skein_kit.identity.permissions import ROLE_PERMISSIONS

_PAGE = 50
_INVITATIONS = 100
_DAY = 86_400
# Roles from the lowest to the highest, each with what it adds.
ROLES: Mapping[str, str] = {
    "viewer": "reads",
    "member": "also writes memories, sessions and subjects",
    "admin": "also manages keys, agents, members and the policy",
    "owner": "also deletes the tenant and transfers its ownership",
}
# Lifetimes of an invitation, in days.
LIFETIMES = {"1": "1 day", "7": "1 week", "30": "30 days"}


async def show(request: Request, context: PageContext, parameters: Parameters) -> Response:
    """List members and invitations."""
    return await _list(request, context, parameters)


async def submit(request: Request, context: PageContext, parameters: Parameters, form: Parameters) -> Response:
    """Invite a person, revoke an invitation, change a role, or end a membership."""
    response = await or_page_error(_step(context, form))
    if isinstance(response, PageError):
        return await _list(request, context, parameters, form=form, failure=response)
    if isinstance(response, members_pb2.CreateInvitationResponse) and response.link:
        # The link is shown once, so the page cannot be a redirect.
        return await _list(request, context, parameters, invited=response)
    if form.get("step") == "remove" and form.get("account_id") == str(context.caller.account_id):
        return see_other("/?choose=1")
    return see_other(context.url("members", done=f"member-{form.get('step')}"))


def _step(context: PageContext, form: Parameters) -> Awaitable[object]:
    """Return the call of a form. Raises FormInvalid for a form that is none of the page's."""
    tenancy, step, role = context.api.tenancy, form.get("step"), form.get("role")
    if step == "invite" and role in ROLES and form.get("lifetime") in LIFETIMES:
        return tenancy.CreateInvitation(
            members_pb2.CreateInvitationRequest(
                email=form.get("email").strip(),
                role=f"ROLE_{role.upper()}",
                lifetime=Duration(seconds=int(form.get("lifetime")) * _DAY),
                request_id=form.get("request_id"),
            )
        )
    if step == "revoke":
        return tenancy.RevokeInvitation(members_pb2.RevokeInvitationRequest(invitation_id=form.get("invitation_id")))
    if step == "role" and role in ROLES and revision_of(form):
        return tenancy.UpdateMember(
            members_pb2.UpdateMemberRequest(
                account_id=form.get("account_id"), role=f"ROLE_{role.upper()}", revision=revision_of(form)
            )
        )
    if step == "remove":
        return tenancy.RemoveMember(members_pb2.RemoveMemberRequest(account_id=form.get("account_id")))
    raise FormInvalid("The form is incomplete. Load the page again.")


async def _list(
    request: Request,
    context: PageContext,
    parameters: Parameters,
    *,
    form: Parameters | None = None,
    invited: members_pb2.CreateInvitationResponse | None = None,
    failure: PageError | None = None,
) -> Response:
    members, invitations = await asyncio.gather(
        or_page_error(
            context.api.tenancy.ListMembers(
                members_pb2.ListMembersRequest(page_size=_PAGE, page_token=parameters.get("page"))
            )
        ),
        or_page_error(context.api.tenancy.ListInvitations(members_pb2.ListInvitationsRequest(page_size=_INVITATIONS))),
    )
    is_invitation = form is not None and form.get("step") == "invite"
    return list_page(
        "members",
        request,
        context,
        parameters,
        members,
        title="Members",
        failure=failure,
        invitations=invitations,
        invited=invited,
        own_account_id=str(context.caller.account_id or ""),
        roles=ROLES,
        # A member grants no role with a permission that the member lacks.
        grantable=[role for role in ROLES if all(map(context.may, ROLE_PERMISSIONS[role]))],
        lifetimes=LIFETIMES,
        email=form.get("email") if form is not None and is_invitation else "",
        role=form.get("role") if form is not None and is_invitation else "member",
        lifetime=form.get("lifetime") if form is not None and is_invitation else "7",
        # A form that is sent twice invites once.
        request_id=str(uuid.uuid4()),
        may_write=context.may("members.write"),
    )
