"""The servicers of tenancy's two gRPC services. Each RPC is delegated to the feature that handles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.tenancy.v1 import tenancy_pb2_grpc as rpc

if TYPE_CHECKING:
    from skein.tenancy.v1 import limits_pb2, members_pb2, subjects_pb2, tenancy_pb2
    from skein_kit.calls.call import Context
    from skein_tenancy.agents.rpc import AgentHandlers
    from skein_tenancy.deletions.rpc import DeletionHandlers
    from skein_tenancy.invitations.rpc import InvitationHandlers
    from skein_tenancy.maintenance.rpc import MaintenanceHandlers
    from skein_tenancy.members.rpc import MemberHandlers
    from skein_tenancy.organizations.rpc import OrganizationHandlers
    from skein_tenancy.policies.rpc import PolicyHandlers
    from skein_tenancy.quotas.rpc import QuotaHandlers
    from skein_tenancy.rate_limits.rpc import RateLimitHandlers
    from skein_tenancy.subjects.rpc import SubjectHandlers
    from skein_tenancy.tenants.rpc import TenantHandlers
    from skein_tenancy.tools.rpc import ToolHandlers


@dataclass(kw_only=True, eq=False, slots=True)
class TenancyServicer(rpc.TenancyServiceServicer):
    """TenancyService: the directory of tenants, and the people, agents and rules in each."""

    organizations: OrganizationHandlers
    tenants: TenantHandlers
    deletions: DeletionHandlers
    members: MemberHandlers
    invitations: InvitationHandlers
    agents: AgentHandlers
    subjects: SubjectHandlers
    tools: ToolHandlers
    policies: PolicyHandlers
    quotas: QuotaHandlers

    async def CreateOrganization(
        self, request: tenancy_pb2.CreateOrganizationRequest, context: Context
    ) -> tenancy_pb2.CreateOrganizationResponse:
        return await self.organizations.CreateOrganization(request, context)

    async def GetOrganization(
        self, request: tenancy_pb2.GetOrganizationRequest, context: Context
    ) -> tenancy_pb2.GetOrganizationResponse:
        return await self.organizations.GetOrganization(request, context)

    async def ListOrganizations(
        self, request: tenancy_pb2.ListOrganizationsRequest, context: Context
    ) -> tenancy_pb2.ListOrganizationsResponse:
        return await self.organizations.ListOrganizations(request, context)

    async def UpdateOrganization(
        self, request: tenancy_pb2.UpdateOrganizationRequest, context: Context
    ) -> tenancy_pb2.UpdateOrganizationResponse:
        return await self.organizations.UpdateOrganization(request, context)

    async def DeleteOrganization(
        self, request: tenancy_pb2.DeleteOrganizationRequest, context: Context
    ) -> tenancy_pb2.DeleteOrganizationResponse:
        return await self.deletions.DeleteOrganization(request, context)

    async def CreateTenant(
        self, request: tenancy_pb2.CreateTenantRequest, context: Context
    ) -> tenancy_pb2.CreateTenantResponse:
        return await self.tenants.CreateTenant(request, context)

    async def GetTenant(self, request: tenancy_pb2.GetTenantRequest, context: Context) -> tenancy_pb2.GetTenantResponse:
        return await self.tenants.GetTenant(request, context)

    async def ListTenants(
        self, request: tenancy_pb2.ListTenantsRequest, context: Context
    ) -> tenancy_pb2.ListTenantsResponse:
        return await self.tenants.ListTenants(request, context)

    async def UpdateTenant(
        self, request: tenancy_pb2.UpdateTenantRequest, context: Context
    ) -> tenancy_pb2.UpdateTenantResponse:
        return await self.tenants.UpdateTenant(request, context)

    async def DeleteTenant(
        self, request: tenancy_pb2.DeleteTenantRequest, context: Context
    ) -> tenancy_pb2.DeleteTenantResponse:
        return await self.deletions.DeleteTenant(request, context)

    async def UndeleteTenant(
        self, request: members_pb2.UndeleteTenantRequest, context: Context
    ) -> members_pb2.UndeleteTenantResponse:
        return await self.deletions.UndeleteTenant(request, context)

    async def GetDeletion(
        self, request: members_pb2.GetDeletionRequest, context: Context
    ) -> members_pb2.GetDeletionResponse:
        return await self.deletions.GetDeletion(request, context)

    async def ListDeletions(
        self, request: members_pb2.ListDeletionsRequest, context: Context
    ) -> members_pb2.ListDeletionsResponse:
        return await self.deletions.ListDeletions(request, context)

    async def TransferOwnership(
        self, request: members_pb2.TransferOwnershipRequest, context: Context
    ) -> members_pb2.TransferOwnershipResponse:
        return await self.members.TransferOwnership(request, context)

    async def AddMember(self, request: members_pb2.AddMemberRequest, context: Context) -> members_pb2.AddMemberResponse:
        return await self.members.AddMember(request, context)

    async def GetMember(self, request: members_pb2.GetMemberRequest, context: Context) -> members_pb2.GetMemberResponse:
        return await self.members.GetMember(request, context)

    async def ListMembers(
        self, request: members_pb2.ListMembersRequest, context: Context
    ) -> members_pb2.ListMembersResponse:
        return await self.members.ListMembers(request, context)

    async def UpdateMember(
        self, request: members_pb2.UpdateMemberRequest, context: Context
    ) -> members_pb2.UpdateMemberResponse:
        return await self.members.UpdateMember(request, context)

    async def RemoveMember(
        self, request: members_pb2.RemoveMemberRequest, context: Context
    ) -> members_pb2.RemoveMemberResponse:
        return await self.members.RemoveMember(request, context)

    async def LeaveTenant(
        self, request: members_pb2.LeaveTenantRequest, context: Context
    ) -> members_pb2.LeaveTenantResponse:
        return await self.members.LeaveTenant(request, context)

    async def CreateInvitation(
        self, request: members_pb2.CreateInvitationRequest, context: Context
    ) -> members_pb2.CreateInvitationResponse:
        return await self.invitations.CreateInvitation(request, context)

    async def ListInvitations(
        self, request: members_pb2.ListInvitationsRequest, context: Context
    ) -> members_pb2.ListInvitationsResponse:
        return await self.invitations.ListInvitations(request, context)

    async def RevokeInvitation(
        self, request: members_pb2.RevokeInvitationRequest, context: Context
    ) -> members_pb2.RevokeInvitationResponse:
        return await self.invitations.RevokeInvitation(request, context)

    async def AcceptInvitation(
        self, request: members_pb2.AcceptInvitationRequest, context: Context
    ) -> members_pb2.AcceptInvitationResponse:
        return await self.invitations.AcceptInvitation(request, context)

    async def CreateSubject(
        self, request: subjects_pb2.CreateSubjectRequest, context: Context
    ) -> subjects_pb2.CreateSubjectResponse:
        return await self.subjects.CreateSubject(request, context)

    async def GetSubject(
        self, request: subjects_pb2.GetSubjectRequest, context: Context
    ) -> subjects_pb2.GetSubjectResponse:
        return await self.subjects.GetSubject(request, context)

    async def ListSubjects(
        self, request: subjects_pb2.ListSubjectsRequest, context: Context
    ) -> subjects_pb2.ListSubjectsResponse:
        return await self.subjects.ListSubjects(request, context)

    async def UpdateSubject(
        self, request: subjects_pb2.UpdateSubjectRequest, context: Context
    ) -> subjects_pb2.UpdateSubjectResponse:
        return await self.subjects.UpdateSubject(request, context)

    async def DeleteSubject(
        self, request: subjects_pb2.DeleteSubjectRequest, context: Context
    ) -> subjects_pb2.DeleteSubjectResponse:
        return await self.subjects.DeleteSubject(request, context)

    async def UndeleteSubject(
        self, request: subjects_pb2.UndeleteSubjectRequest, context: Context
    ) -> subjects_pb2.UndeleteSubjectResponse:
        return await self.subjects.UndeleteSubject(request, context)

    async def PurgeSubject(
        self, request: subjects_pb2.PurgeSubjectRequest, context: Context
    ) -> subjects_pb2.PurgeSubjectResponse:
        return await self.subjects.PurgeSubject(request, context)

    async def CreateTool(
        self, request: subjects_pb2.CreateToolRequest, context: Context
    ) -> subjects_pb2.CreateToolResponse:
        return await self.tools.CreateTool(request, context)

    async def GetTool(self, request: subjects_pb2.GetToolRequest, context: Context) -> subjects_pb2.GetToolResponse:
        return await self.tools.GetTool(request, context)

    async def ListTools(
        self, request: subjects_pb2.ListToolsRequest, context: Context
    ) -> subjects_pb2.ListToolsResponse:
        return await self.tools.ListTools(request, context)

    async def UpdateTool(
        self, request: subjects_pb2.UpdateToolRequest, context: Context
    ) -> subjects_pb2.UpdateToolResponse:
        return await self.tools.UpdateTool(request, context)

    async def DeleteTool(
        self, request: subjects_pb2.DeleteToolRequest, context: Context
    ) -> subjects_pb2.DeleteToolResponse:
        return await self.tools.DeleteTool(request, context)

    async def UndeleteTool(
        self, request: subjects_pb2.UndeleteToolRequest, context: Context
    ) -> subjects_pb2.UndeleteToolResponse:
        return await self.tools.UndeleteTool(request, context)

    async def PurgeTool(
        self, request: subjects_pb2.PurgeToolRequest, context: Context
    ) -> subjects_pb2.PurgeToolResponse:
        return await self.tools.PurgeTool(request, context)

    async def AttachTool(
        self, request: subjects_pb2.AttachToolRequest, context: Context
    ) -> subjects_pb2.AttachToolResponse:
        return await self.tools.AttachTool(request, context)

    async def DetachTool(
        self, request: subjects_pb2.DetachToolRequest, context: Context
    ) -> subjects_pb2.DetachToolResponse:
        return await self.tools.DetachTool(request, context)

    async def GetPolicy(
        self, request: subjects_pb2.GetPolicyRequest, context: Context
    ) -> subjects_pb2.GetPolicyResponse:
        return await self.policies.GetPolicy(request, context)

    async def UpdatePolicy(
        self, request: subjects_pb2.UpdatePolicyRequest, context: Context
    ) -> subjects_pb2.UpdatePolicyResponse:
        return await self.policies.UpdatePolicy(request, context)

    async def GetQuota(self, request: limits_pb2.GetQuotaRequest, context: Context) -> limits_pb2.GetQuotaResponse:
        return await self.quotas.GetQuota(request, context)

    async def UpdateQuota(
        self, request: limits_pb2.UpdateQuotaRequest, context: Context
    ) -> limits_pb2.UpdateQuotaResponse:
        return await self.quotas.UpdateQuota(request, context)

    async def GetUsage(self, request: limits_pb2.GetUsageRequest, context: Context) -> limits_pb2.GetUsageResponse:
        return await self.quotas.GetUsage(request, context)

    async def CreateAgent(
        self, request: tenancy_pb2.CreateAgentRequest, context: Context
    ) -> tenancy_pb2.CreateAgentResponse:
        return await self.agents.CreateAgent(request, context)

    async def GetAgent(self, request: tenancy_pb2.GetAgentRequest, context: Context) -> tenancy_pb2.GetAgentResponse:
        return await self.agents.GetAgent(request, context)

    async def ListAgents(
        self, request: tenancy_pb2.ListAgentsRequest, context: Context
    ) -> tenancy_pb2.ListAgentsResponse:
        return await self.agents.ListAgents(request, context)

    async def UpdateAgent(
        self, request: tenancy_pb2.UpdateAgentRequest, context: Context
    ) -> tenancy_pb2.UpdateAgentResponse:
        return await self.agents.UpdateAgent(request, context)

    async def DeleteAgent(
        self, request: tenancy_pb2.DeleteAgentRequest, context: Context
    ) -> tenancy_pb2.DeleteAgentResponse:
        return await self.agents.DeleteAgent(request, context)

    async def UndeleteAgent(
        self, request: tenancy_pb2.UndeleteAgentRequest, context: Context
    ) -> tenancy_pb2.UndeleteAgentResponse:
        return await self.agents.UndeleteAgent(request, context)

    async def PurgeAgent(
        self, request: tenancy_pb2.PurgeAgentRequest, context: Context
    ) -> tenancy_pb2.PurgeAgentResponse:
        return await self.agents.PurgeAgent(request, context)


@dataclass(kw_only=True, eq=False, slots=True)
class TenancyInternalServicer(rpc.TenancyInternalServiceServicer):
    """TenancyInternalService: calls of the other services."""

    deletions: DeletionHandlers
    members: MemberHandlers
    invitations: InvitationHandlers
    quotas: QuotaHandlers
    rate_limits: RateLimitHandlers
    maintenance: MaintenanceHandlers

    async def GetMembership(
        self, request: members_pb2.GetMembershipRequest, context: Context
    ) -> members_pb2.GetMembershipResponse:
        return await self.members.GetMembership(request, context)

    async def AcquireRateLimit(
        self, request: limits_pb2.AcquireRateLimitRequest, context: Context
    ) -> limits_pb2.AcquireRateLimitResponse:
        return await self.rate_limits.AcquireRateLimit(request, context)

    async def CheckInvitation(
        self, request: members_pb2.CheckInvitationRequest, context: Context
    ) -> members_pb2.CheckInvitationResponse:
        return await self.invitations.CheckInvitation(request, context)

    async def RemoveAccount(
        self, request: members_pb2.RemoveAccountRequest, context: Context
    ) -> members_pb2.RemoveAccountResponse:
        return await self.members.RemoveAccount(request, context)

    async def ListDueDeletions(
        self, request: members_pb2.ListDueDeletionsRequest, context: Context
    ) -> members_pb2.ListDueDeletionsResponse:
        return await self.deletions.ListDueDeletions(request, context)

    async def RecordDeletion(
        self, request: members_pb2.RecordDeletionRequest, context: Context
    ) -> members_pb2.RecordDeletionResponse:
        return await self.deletions.RecordDeletion(request, context)

    async def PurgeTenant(
        self, request: members_pb2.PurgeTenantRequest, context: Context
    ) -> members_pb2.PurgeTenantResponse:
        return await self.deletions.PurgeTenant(request, context)

    async def CollectUsage(
        self, request: limits_pb2.CollectUsageRequest, context: Context
    ) -> limits_pb2.CollectUsageResponse:
        return await self.quotas.CollectUsage(request, context)

    async def DeleteExpired(
        self, request: members_pb2.DeleteExpiredRequest, context: Context
    ) -> members_pb2.DeleteExpiredResponse:
        return await self.maintenance.DeleteExpired(request, context)
