"""Invitations as protobuf messages, and drafts of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.invitations.model import DEFAULT_LIFETIME, InvitationDraft
from skein_tenancy.members.convert import role, role_name

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller
    from skein_tenancy.invitations.model import Invitation


def draft(request: pb.CreateInvitationRequest, creator: Caller) -> InvitationDraft:
    return InvitationDraft(
        email=request.email.lower(),
        role=role_name(request.role),
        lifetime=request.lifetime.ToTimedelta() if request.HasField("lifetime") else DEFAULT_LIFETIME,
        created_by=creator.principal,
        grant_ids=creator.grant_ids,
    )


def invitation(value: Invitation) -> pb.Invitation:
    return pb.Invitation(
        invitation_id=str(value.invitation_id),
        email=value.email,
        role=role(value.role),
        create_time=to_timestamp(value.create_time),
        expire_time=to_timestamp(value.expire_time),
        created_by=value.created_by,
    )
