"""Rows of the tenancy schema as protobuf messages."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from google.protobuf.duration_pb2 import Duration

from skein.tenancy.v1 import limits_pb2, members_pb2, subjects_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.json_values.fields import fields
from skein_kit.quotas.store import DEFAULT_LIMITS
from skein_kit.rpc import well_known_types
from skein_tenancy.policies.model import DEFAULTS
from skein_tenancy.quotas import model as quotas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

_ROLES = {
    "viewer": members_pb2.ROLE_VIEWER,
    "member": members_pb2.ROLE_MEMBER,
    "admin": members_pb2.ROLE_ADMIN,
    "owner": members_pb2.ROLE_OWNER,
}
_ROLE_NAMES = {value: name for name, value in _ROLES.items()}


def organization(row: asyncpg.Record) -> pb.Organization:
    return pb.Organization(
        organization_id=str(row["organization_id"]),
        display_name=row["display_name"],
        slug=row["slug"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        **fields(metadata=row["metadata"]),
    )


def tenant(row: asyncpg.Record) -> pb.Tenant:
    return pb.Tenant(
        tenant_id=str(row["tenant_id"]),
        organization_id=str(row["organization_id"]),
        display_name=row["display_name"],
        slug=row["slug"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        # Only what was read for an account says what the account is there.
        role=role(row.get("role")),
        **fields(metadata=row["metadata"]),
    )


def agent(row: asyncpg.Record) -> pb.Agent:
    return pb.Agent(
        agent_id=row["agent_id"],
        display_name=row["display_name"],
        agent_type=row["agent_type"],
        description=row["description"],
        system_prompt=row["system_prompt"],
        topic=row["topic"],
        mcp_servers=row["mcp_servers"],
        message_ids=row["message_ids"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        delete_time=well_known_types.to_timestamp(row["delete_time"]),
        **fields(
            metadata=row["metadata"],
            llm_config=row["llm_config"],
            embedding_config=row["embedding_config"],
            tool_rules=row["tool_rules"],
        ),
    )


def role(name: str | None) -> members_pb2.Role:
    """Convert a role; None stays unspecified."""
    return members_pb2.ROLE_UNSPECIFIED if name is None else _ROLES[name]


def role_name(value: members_pb2.Role) -> str:
    return _ROLE_NAMES[value]


def member(row: asyncpg.Record) -> members_pb2.Member:
    return members_pb2.Member(
        account_id=str(row["account_id"]),
        role=role(row["role"]),
        email=row["email"],
        display_name=row["display_name"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        created_by=row["created_by"],
    )


def membership(row: asyncpg.Record | None) -> members_pb2.GetStandingResponse:
    """Convert what is known of a tenant and an account in it; None: there is no such tenant."""
    if row is None:
        return members_pb2.GetStandingResponse()
    state = members_pb2.TENANT_STATE_OPEN if row["is_active"] else members_pb2.TENANT_STATE_CLOSED
    return members_pb2.GetStandingResponse(state=state, role=role(row["role"]))


def invitation(row: asyncpg.Record) -> members_pb2.Invitation:
    return members_pb2.Invitation(
        invitation_id=str(row["invitation_id"]),
        email=row["email"],
        role=role(row["role"]),
        create_time=well_known_types.to_timestamp(row["create_time"]),
        expire_time=well_known_types.to_timestamp(row["expire_time"]),
        created_by=row["created_by"],
    )


def deletion(row: asyncpg.Record) -> members_pb2.Deletion:
    return members_pb2.Deletion(
        tenant_id=str(row["tenant_id"]),
        organization_id=str(row["organization_id"]),
        state=f"DELETION_STATE_{row['state'].upper()}",
        create_time=well_known_types.to_timestamp(row["create_time"]),
        purge_time=well_known_types.to_timestamp(row["purge_time"]),
        finish_time=well_known_types.to_timestamp(row["finish_time"]),
        created_by=row["created_by"],
        deleted_counts=json.loads(row["deleted_counts"]),
        stage=row["stage"],
    )


def subject(row: asyncpg.Record) -> subjects_pb2.Subject:
    return subjects_pb2.Subject(
        subject_id=row["subject_id"],
        display_name=row["display_name"],
        status=f"SUBJECT_STATUS_{row['status'].upper()}",
        timezone=row["timezone"],
        account_id=str(row["account_id"] or ""),
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        delete_time=well_known_types.to_timestamp(row["delete_time"]),
        **fields(profile=row["profile"], preferences=row["preferences"]),
    )


def tool(row: asyncpg.Record) -> subjects_pb2.Tool:
    return subjects_pb2.Tool(
        tool_id=row["tool_id"],
        name=row["name"],
        description=row["description"],
        source_type=row["source_type"],
        source_code=row["source_code"],
        tags=row["tags"],
        revision=row["revision"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        update_time=well_known_types.to_timestamp(row["update_time"]),
        created_by=row["created_by"],
        updated_by=row["updated_by"],
        delete_time=well_known_types.to_timestamp(row["delete_time"]),
        **fields(json_schema=row["json_schema"], metadata=row["metadata"]),
    )


def policy(row: asyncpg.Record | None) -> subjects_pb2.Policy:
    """Convert a policy, with the default where nothing was set; None: nothing was ever set."""
    given = {} if row is None else {name: value for name, value in row.items() if value is not None}
    said: dict[str, Any] = {"revision": 1, **DEFAULTS, **given}
    formula = f"IMPORTANCE_FORMULA_{said.pop('importance_formula').upper()}"
    weights = json.loads(said.pop("recall_weights"))
    return subjects_pb2.Policy(
        importance_formula=formula,
        recall_weights=weights,
        update_time=well_known_types.to_timestamp(said.pop("update_time", None)),
        **said,
    )


def quota(rows: Sequence[asyncpg.Record]) -> limits_pb2.Quota:
    """Convert the limits that were set, one row each; taking one away leaves a row without a limit."""
    return limits_pb2.Quota(
        revision=max((row["revision"] for row in rows), default=0),
        update_time=well_known_types.to_timestamp(max((row["update_time"] for row in rows), default=None)),
        **{row["kind"]: row["most"] for row in rows if row["most"] is not None},
    )


def usage(kind: str, row: asyncpg.Record | None) -> limits_pb2.Usage:
    """Convert what is used of a kind; None: nothing of it, and no limit."""
    used, most = (0, None) if row is None else (row["used"], row["most"])
    return limits_pb2.Usage(kind=kind, used=used, limit=DEFAULT_LIMITS.get(kind) if most is None else most)


def organization_usage(rows: Sequence[asyncpg.Record], limits: Mapping[str, int]) -> limits_pb2.GetUsageResponse:
    used = {row["kind"]: row["used"] for row in rows}
    return limits_pb2.GetUsageResponse(
        usage=[
            limits_pb2.Usage(kind=kind, used=used.get(kind, 0), limit=limits.get(kind))
            for kind in (quotas.TENANTS, *quotas.COUNTED_KINDS)
        ],
        collect_time=well_known_types.to_timestamp(min((row["collect_time"] for row in rows), default=None)),
    )


def rate_lease(
    tenants: quotas.RateLease, callers: quotas.RateLease, of_tenant: quotas.RateLimit, of_caller: quotas.RateLimit
) -> limits_pb2.LeaseRequestsResponse:
    """Convert what was granted; of two limits that are exhausted the one that holds longer is named."""
    short = max(tenants, callers, key=lambda one: one.after)
    return limits_pb2.LeaseRequestsResponse(
        tenant_count=tenants.count,
        caller_count=callers.count,
        lifetime=_duration(quotas.LEASE_SECONDS),
        retry_delay=_duration(short.after) if short.exhausted else None,
        exhausted=short.exhausted,
        tenant_rate=of_tenant.pace,
        caller_rate=of_caller.pace,
    )


def unlimited_lease(request: limits_pb2.LeaseRequestsRequest) -> limits_pb2.LeaseRequestsResponse:
    """Grant what is asked, to those who are not limited."""
    return limits_pb2.LeaseRequestsResponse(
        tenant_count=request.tenant_count,
        caller_count=request.caller_count,
        lifetime=_duration(quotas.LEASE_SECONDS),
        tenant_rate=float("inf"),
        caller_rate=float("inf"),
    )


def _duration(seconds: float) -> Duration:
    result = Duration()
    result.FromTimedelta(timedelta(seconds=seconds))
    return result
