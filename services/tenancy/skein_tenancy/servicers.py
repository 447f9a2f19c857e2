"""The servicers of tenancy's gRPC services: each names the handlers of its RPCs. A missing one fails the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skein_tenancy.agents.rpc import AgentHandlers
    from skein_tenancy.deletions.rpc import DeletionHandlers
    from skein_tenancy.invitations.rpc import InvitationHandlers
    from skein_tenancy.jobs.rpc import JobHandlers
    from skein_tenancy.maintenance.rpc import MaintenanceHandlers
    from skein_tenancy.members.rpc import MemberHandlers
    from skein_tenancy.organizations.rpc import OrganizationHandlers
    from skein_tenancy.policies.rpc import PolicyHandlers
    from skein_tenancy.quotas.rpc import QuotaHandlers
    from skein_tenancy.rate_limits.rpc import RateLimitHandlers
    from skein_tenancy.subjects.rpc import SubjectHandlers
    from skein_tenancy.tenants.rpc import TenantHandlers
    from skein_tenancy.tools.rpc import ToolHandlers


class TenancyServicer:
    """TenancyService: the directory of tenants, and the people, agents and rules in each."""

    def __init__(  # noqa: PLR0913, PLR0915 - an argument for each feature, a line for each RPC.
        self,
        *,
        organizations: OrganizationHandlers,
        tenants: TenantHandlers,
        deletions: DeletionHandlers,
        members: MemberHandlers,
        invitations: InvitationHandlers,
        agents: AgentHandlers,
        subjects: SubjectHandlers,
        tools: ToolHandlers,
        policies: PolicyHandlers,
        quotas: QuotaHandlers,
        jobs: JobHandlers,
    ) -> None:
        self.CreateOrganization = organizations.CreateOrganization
        self.GetOrganization = organizations.GetOrganization
        self.ListOrganizations = organizations.ListOrganizations
        self.UpdateOrganization = organizations.UpdateOrganization
        self.DeleteOrganization = deletions.DeleteOrganization
        self.CreateTenant = tenants.CreateTenant
        self.GetTenant = tenants.GetTenant
        self.ListTenants = tenants.ListTenants
        self.UpdateTenant = tenants.UpdateTenant
        self.DeleteTenant = deletions.DeleteTenant
        self.UndeleteTenant = deletions.UndeleteTenant
        self.GetDeletion = deletions.GetDeletion
        self.ListDeletions = deletions.ListDeletions
        self.TransferOwnership = members.TransferOwnership
        self.AddMember = members.AddMember
        self.GetMember = members.GetMember
        self.ListMembers = members.ListMembers
        self.UpdateMember = members.UpdateMember
        self.RemoveMember = members.RemoveMember
        self.LeaveTenant = members.LeaveTenant
        self.CreateInvitation = invitations.CreateInvitation
        self.ListInvitations = invitations.ListInvitations
        self.RevokeInvitation = invitations.RevokeInvitation
        self.AcceptInvitation = invitations.AcceptInvitation
        self.CreateSubject = subjects.CreateSubject
        self.GetSubject = subjects.GetSubject
        self.ListSubjects = subjects.ListSubjects
        self.UpdateSubject = subjects.UpdateSubject
        self.DeleteSubject = subjects.DeleteSubject
        self.UndeleteSubject = subjects.UndeleteSubject
        self.PurgeSubject = subjects.PurgeSubject
        self.CreateTool = tools.CreateTool
        self.GetTool = tools.GetTool
        self.ListTools = tools.ListTools
        self.UpdateTool = tools.UpdateTool
        self.DeleteTool = tools.DeleteTool
        self.UndeleteTool = tools.UndeleteTool
        self.PurgeTool = tools.PurgeTool
        self.AttachTool = tools.AttachTool
        self.DetachTool = tools.DetachTool
        self.GetPolicy = policies.GetPolicy
        self.UpdatePolicy = policies.UpdatePolicy
        self.GetQuota = quotas.GetQuota
        self.UpdateQuota = quotas.UpdateQuota
        self.GetUsage = quotas.GetUsage
        self.GetJobs = jobs.GetJobs
        self.PauseJob = jobs.PauseJob
        self.ResumeJob = jobs.ResumeJob
        self.LimitJob = jobs.LimitJob
        self.AdvanceImport = jobs.AdvanceImport
        self.CreateAgent = agents.CreateAgent
        self.GetAgent = agents.GetAgent
        self.ListAgents = agents.ListAgents
        self.UpdateAgent = agents.UpdateAgent
        self.DeleteAgent = agents.DeleteAgent
        self.UndeleteAgent = agents.UndeleteAgent
        self.PurgeAgent = agents.PurgeAgent


class TenancyInternalServicer:
    """TenancyInternalService: calls of the other services."""

    def __init__(
        self,
        *,
        deletions: DeletionHandlers,
        members: MemberHandlers,
        invitations: InvitationHandlers,
        quotas: QuotaHandlers,
        rate_limits: RateLimitHandlers,
        maintenance: MaintenanceHandlers,
    ) -> None:
        self.GetMembership = members.GetMembership
        self.AcquireRateLimit = rate_limits.AcquireRateLimit
        self.CheckInvitation = invitations.CheckInvitation
        self.RemoveAccount = members.RemoveAccount
        self.ListDueDeletions = deletions.ListDueDeletions
        self.RecordDeletion = deletions.RecordDeletion
        self.PurgeTenant = deletions.PurgeTenant
        self.CollectUsage = quotas.CollectUsage
        self.ListDueTenants = maintenance.ListDueTenants
        self.DeleteExpired = maintenance.DeleteExpired
