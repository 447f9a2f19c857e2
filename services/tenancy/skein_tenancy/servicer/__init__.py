"""The RPCs of the tenancy service, in groups."""

from __future__ import annotations

from skein.tenancy.v1 import tenancy_pb2_grpc as rpc
from skein_tenancy.servicer.agents import AgentRpcs
from skein_tenancy.servicer.deletions import DeletionRpcs, PurgeRpcs
from skein_tenancy.servicer.directory import DirectoryRpcs
from skein_tenancy.servicer.invitations import InvitationRpcs
from skein_tenancy.servicer.members import MemberRpcs
from skein_tenancy.servicer.policies import PolicyRpcs
from skein_tenancy.servicer.quotas import AllowanceRpcs, QuotaRpcs
from skein_tenancy.servicer.subjects import SubjectRpcs
from skein_tenancy.servicer.tools import ToolRpcs
from skein_tenancy.servicer.upkeep import StandingRpcs

__all__ = ["TenancyServicer", "UpkeepServicer"]


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


class UpkeepServicer(StandingRpcs, PurgeRpcs, AllowanceRpcs, rpc.UpkeepServiceServicer):
    """UpkeepService: what the other services ask."""
