"""Protobuf to drafts and changes of organizations and tenants."""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.errors import RpcError
from skein_kit.ids import parse_id
from skein_kit.rpc import well_known_types
from skein_tenancy.directory.model import UPDATABLE, DirectoryChange, DirectoryDraft


def draft(message: pb.Organization | pb.Tenant, *, noun: str) -> DirectoryDraft:
    return DirectoryDraft.create(
        noun,
        display_name=message.display_name,
        slug=message.slug,
        metadata=well_known_types.json_text(message, "metadata"),
    )


def change(
    message: pb.Organization | pb.Tenant,
    mask: FieldMask,
    *,
    noun: str,
    not_found: RpcError,
    updatable: Collection[str] = UPDATABLE,
) -> DirectoryChange:
    """Read the fields that the mask names, or all when it is empty. Raises `not_found` for a malformed id."""
    row_id = parse_id(getattr(message, f"{noun}_id"))
    if row_id is None:
        raise not_found
    values = {
        field: well_known_types.json_text(message, field) if field == "metadata" else getattr(message, field).strip()
        for field in sorted(well_known_types.updated_fields(mask, updatable))
    }
    return DirectoryChange.create(noun, row_id, message.revision, values)
