"""Tenants as protobuf messages, and drafts of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.rpc.well_known_types import to_timestamp
from skein_tenancy.directory import convert as directory
from skein_tenancy.members.convert import role
from skein_tenancy.tenants.model import TenantDraft

if TYPE_CHECKING:
    from skein_kit.identity.identity_token import Caller
    from skein_tenancy.tenants.model import Tenant


def tenant(value: Tenant) -> pb.Tenant:
    return pb.Tenant(
        tenant_id=str(value.tenant_id),
        organization_id=str(value.organization_id),
        display_name=value.display_name,
        slug=value.slug,
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        role=role(value.role),
        **fields(metadata=value.metadata),
    )


def draft(request: pb.CreateTenantRequest, caller: Caller, *, accounts_organization: str) -> TenantDraft:
    return TenantDraft.for_caller(
        caller,
        directory.draft(request.tenant, noun="tenant"),
        organization_id=UUID(request.tenant.organization_id) if request.tenant.organization_id else None,
        owner_account_id=request.owner_account_id,
        accounts_organization=accounts_organization,
    )
