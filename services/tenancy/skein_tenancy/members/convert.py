"""Roles and members as protobuf messages."""

from __future__ import annotations

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.rpc.well_known_types import to_message
from skein_tenancy.members.model import Member, Membership

_ROLES = {
    "viewer": pb.ROLE_VIEWER,
    "member": pb.ROLE_MEMBER,
    "admin": pb.ROLE_ADMIN,
    "owner": pb.ROLE_OWNER,
}
_ROLE_NAMES = {value: name for name, value in _ROLES.items()}


def role(name: str | None) -> pb.Role:
    """Convert a role; None stays unspecified."""
    return pb.ROLE_UNSPECIFIED if name is None else _ROLES[name]


def role_name(value: pb.Role) -> str:
    return _ROLE_NAMES[value]


def member(value: Member) -> pb.Member:
    return to_message(pb.Member, value)


def membership(value: Membership | None) -> pb.GetMembershipResponse:
    """Convert a membership; None: the tenant does not exist."""
    if value is None:
        return pb.GetMembershipResponse()
    state = pb.TENANT_STATE_ACTIVE if value.is_active else pb.TENANT_STATE_DELETED
    return pb.GetMembershipResponse(state=state, role=role(value.role), has_spaces=value.has_spaces)
