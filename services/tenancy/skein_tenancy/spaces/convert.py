"""Spaces and grants as protobuf messages, and grants of requests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import spaces_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.identity.spaces import MANAGER, READER, WRITER
from skein_kit.ids import new_id
from skein_kit.rpc import well_known_types
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.spaces.model import AccessExplanation, Space, SpaceGrant, VisibleSpace

_ROLES = {
    READER: pb.SPACE_ROLE_READER,
    WRITER: pb.SPACE_ROLE_WRITER,
    MANAGER: pb.SPACE_ROLE_MANAGER,
}
_ROLE_NAMES = {value: name for name, value in _ROLES.items()}
_UPDATABLE = ("display_name", "description")


def space(value: Space) -> pb.Space:
    return well_known_types.to_message(pb.Space, value)


def values(message: pb.Space, names: Iterable[str] = _UPDATABLE) -> dict[str, str]:
    """Return the texts of a space by name. Raises FieldInvalid for an empty name."""
    results = {name: str(getattr(message, name)) for name in names}
    if not results.get("display_name", "x").strip():
        raise FieldInvalid(violations=[("space.display_name", "cannot be empty")])
    return results


def change(message: pb.Space, mask: FieldMask) -> dict[str, str]:
    """Return the texts that the mask names, or all when it is empty. Raises FieldInvalid."""
    return values(message, well_known_types.updated_fields(mask, _UPDATABLE))


def grant(value: SpaceGrant) -> pb.SpaceGrant:
    return pb.SpaceGrant(
        grant_id=str(value.grant_id),
        space_id=str(value.space_id),
        principal=value.principal,
        role=_ROLES[value.role],
        expire_time=to_timestamp(value.expire_time),
        is_delegable=value.is_delegable,
        create_time=to_timestamp(value.create_time),
        created_by=value.created_by,
        delegating_grant_id=str(value.delegating_grant_id or ""),
        revoke_time=to_timestamp(value.revoke_time),
    )


def read_grant(message: pb.SpaceGrant, *, at: datetime, created_by: str) -> SpaceGrant:
    """Raises FieldInvalid for an end in the past."""
    expire_time = well_known_types.read_time(message, "expire_time")
    if expire_time is not None and expire_time <= at:
        raise FieldInvalid(violations=[("grant.expire_time", "is in the past")])
    return SpaceGrant(
        grant_id=new_id(at),
        space_id=UUID(message.space_id),
        principal=message.principal,
        role=_ROLE_NAMES[message.role],
        expire_time=expire_time,
        is_delegable=message.is_delegable,
        create_time=at,
        created_by=created_by,
    )


def explanation(value: AccessExplanation) -> pb.ExplainAccessResponse:
    return pb.ExplainAccessResponse(
        is_visible=bool(value.role),
        reason=f"ACCESS_REASON_{value.reason.upper()}",
        space_id=str(value.space_id),
        role=_ROLES.get(value.role, pb.SPACE_ROLE_UNSPECIFIED),
        expire_time=to_timestamp(value.expire_time),
        grants=map(grant, value.grants),
        is_bound=value.is_bound,
    )


def visible_spaces(spaces: Iterable[VisibleSpace]) -> list[members_pb2.VisibleSpace]:
    return [
        members_pb2.VisibleSpace(
            space_id=str(space.space_id), role=_ROLES[space.role], grant_id=str(space.grant_id or "")
        )
        for space in spaces
    ]
