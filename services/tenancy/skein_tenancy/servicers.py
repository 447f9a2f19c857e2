"""The RPCs of the tenancy service, in groups."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_tenancy.agents.rpc import AgentRpcs
from skein_tenancy.deletions.rpc import DeletionRpcs, PurgeRpcs
from skein_tenancy.invitations.rpc import InvitationRpcs
from skein_tenancy.maintenance.rpc import MembershipStateHandlers
from skein_tenancy.members.rpc import MemberRpcs
from skein_tenancy.policies.rpc import PolicyRpcs
from skein_tenancy.quotas.rpc import QuotaRpcs, RateLimitHandlers
from skein_tenancy.subjects.rpc import SubjectRpcs
from skein_tenancy.tenants.rpc import DirectoryRpcs
from skein_tenancy.tools.rpc import ToolRpcs

__all__ = ["TenancyInternalServicer", "TenancyServicer"]


class TenancyServicer(
    DirectoryRpcs,
    DeletionRpcs,
    MemberRpcs,
    InvitationRpcs,
    AgentRpcs,
    SubjectRpcs,
    ToolRpcs,
    PolicyRpcs,
    QuotaRpcs,
    rpc.TenancyServiceServicer,
):
    """TenancyService: who exists, who may act, and how."""


class TenancyInternalServicer(MembershipStateHandlers, PurgeRpcs, RateLimitHandlers, rpc.UpkeepServiceServicer):
    """UpkeepService: what the other services ask."""
