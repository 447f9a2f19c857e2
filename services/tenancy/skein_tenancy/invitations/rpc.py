"""The RPCs of invitations, and their mails with the links in them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.outbound.mail import Mailer
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message
from skein_tenancy.errors import MemberExists
from skein_tenancy.invitations.model import DEFAULT_LIFETIME, Invitation, InvitationDraft, parse_token
from skein_tenancy.invitations.store import InvitationStore
from skein_tenancy.members.accounts import AccountClient
from skein_tenancy.members.convert import member as convert_member
from skein_tenancy.members.convert import role_name
from skein_tenancy.members.model import Authority

_SUBJECT = "You are invited to Skein"
# The inviter writes none of it: otherwise every inviter could send arbitrary text to strangers.
_TEXT = """\
You are invited to join a tenant of Skein, as {role}.

To accept, open this address and sign in or sign up as {email}:

{link}

It works once, until {expire_time} (UTC). If you do not expect this invitation, ignore it.
"""
# No mail reaches this domain (RFC 2606), and a relay would return it to the sender.
_INVALID_DOMAIN = ".invalid"


class InvitationHandlers:
    """Invitations to join a tenant."""

    def __init__(
        self,
        store: InvitationStore,
        mailer: InvitationMailer,
        accounts: AccountClient,
        idempotency: IdempotencyStore,
        *,
        max_per_hour: int,
    ) -> None:
        self._store = store
        self._mailer = mailer
        self._accounts = accounts
        self._idempotency = idempotency
        self._max_per_hour = max_per_hour

    async def CreateInvitation(
        self, request: pb.CreateInvitationRequest, context: Context
    ) -> pb.CreateInvitationResponse:
        caller = caller_of(context)
        tenant_id = caller.require_tenant()
        draft = _draft(request, caller)
        Authority.of(caller).require_permissions_for(draft.role)
        async with self._idempotency.begin(caller, request) as write:
            invitation, token = await self._store.create_invitation(
                write.tx, tenant_id, draft, max_per_hour=self._max_per_hour
            )
            # The saved response lacks the token, which is stored as a hash only.
            response = await write.save(pb.CreateInvitationResponse(invitation=_invitation(invitation)))
        link = self._mailer.link(token)
        if await self._mailer.send(invitation, link):
            await self._store.mark_mailed(tenant_id, invitation.invitation_id)
        else:
            response.token, response.link = token, link
        return response

    async def ListInvitations(self, request: pb.ListInvitationsRequest, context: Context) -> pb.ListInvitationsResponse:
        tenant_id = caller_of(context).require_tenant()
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(tenant_id, request)
        rows = await self._store.list_invitations(tenant_id, before=before, size=size + 1, at=now())
        page, token = pagination.fit_rows(
            rows, _invitation, lambda row: [str(row.invitation_id)], request, tenant_id, size=size
        )
        return pb.ListInvitationsResponse(invitations=page, next_page_token=token)

    async def RevokeInvitation(
        self, request: pb.RevokeInvitationRequest, context: Context
    ) -> pb.RevokeInvitationResponse:
        caller = caller_of(context)
        async with self._idempotency.begin(caller, request) as write:
            await self._store.revoke_invitation(write.tx, caller.require_tenant(), UUID(request.invitation_id))
        return pb.RevokeInvitationResponse()

    async def AcceptInvitation(
        self, request: pb.AcceptInvitationRequest, context: Context
    ) -> pb.AcceptInvitationResponse:
        caller = caller_of(context)
        address = await self._accounts.get_address(caller)
        token = parse_token(request.token)
        try:
            async with self._idempotency.begin_with_key(token.tenant_id, IdempotencyKey.of(caller, request)) as write:
                member = await self._store.accept_invitation(write.tx, token, caller, address)
                return await write.save(
                    pb.AcceptInvitationResponse(member=convert_member(member), tenant_id=str(token.tenant_id))
                )
        except MemberExists:
            # The transaction is rolled back, but the invitation of a member must not stay open.
            await self._store.use_invitation(token, now())
            raise

    async def CheckInvitation(self, request: pb.CheckInvitationRequest, context: Context) -> pb.CheckInvitationResponse:
        token = parse_token(request.token)
        invitation = await self._store.check_invitation(token, request.email.lower(), now())
        return pb.CheckInvitationResponse(invitation_id=str(token.token_id), mailed=invitation.is_mailed)


def _draft(request: pb.CreateInvitationRequest, creator: Caller) -> InvitationDraft:
    return InvitationDraft(
        email=request.email.lower(),
        role=role_name(request.role),
        lifetime=request.lifetime.ToTimedelta() if request.HasField("lifetime") else DEFAULT_LIFETIME,
        created_by=creator.principal,
        grant_ids=creator.grant_ids,
    )


def _invitation(value: Invitation) -> pb.Invitation:
    return to_message(pb.Invitation, value)


class InvitationMailer:
    """Sends invitations by mail."""

    def __init__(self, mailer: Mailer, issuer: Callable[[], str]) -> None:
        """Link to `issuer()`, called for each mail: the gateway's address is known only once it listens."""
        self._mailer = mailer
        self._issuer = issuer

    def link(self, token: str) -> str:
        return f"{self._issuer()}/account/invitation?token={token}"

    async def send(self, invitation: Invitation, link: str) -> bool:
        """Return whether a relay took the mail."""
        if not self._mailer.configured or invitation.email.endswith(_INVALID_DOMAIN):
            return False
        text = _TEXT.format(
            role=invitation.role,
            email=invitation.email,
            link=link,
            expire_time=f"{invitation.expire_time:%Y-%m-%d %H:%M}",
        )
        return await self._mailer.send(invitation.email, _SUBJECT, text)
