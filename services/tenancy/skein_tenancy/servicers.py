"""The methods of each gRPC service of tenancy, each that of the feature which answers it."""

from __future__ import annotations

from skein.tenancy.v1.tenancy_methods import TenancyInternalServiceMethods, TenancyServiceMethods
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
from skein_tenancy.spaces.rpc import SpaceHandlers
from skein_tenancy.subjects.rpc import SubjectHandlers
from skein_tenancy.tenants.rpc import TenantHandlers
from skein_tenancy.tools.rpc import ToolHandlers


def tenancy_service(  # noqa: PLR0913 - one for each feature.
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
    spaces: SpaceHandlers,
) -> TenancyServiceMethods:
    """TenancyService: the directory of tenants, and the people, agents and rules in each."""
    return TenancyServiceMethods(
        CreateOrganization=organizations.CreateOrganization,
        GetOrganization=organizations.GetOrganization,
        ListOrganizations=organizations.ListOrganizations,
        UpdateOrganization=organizations.UpdateOrganization,
        DeleteOrganization=deletions.DeleteOrganization,
        CreateTenant=tenants.CreateTenant,
        GetTenant=tenants.GetTenant,
        ListTenants=tenants.ListTenants,
        UpdateTenant=tenants.UpdateTenant,
        DeleteTenant=deletions.DeleteTenant,
        UndeleteTenant=deletions.UndeleteTenant,
        GetDeletion=deletions.GetDeletion,
        ListDeletions=deletions.ListDeletions,
        TransferOwnership=members.TransferOwnership,
        AddMember=members.AddMember,
        GetMember=members.GetMember,
        ListMembers=members.ListMembers,
        UpdateMember=members.UpdateMember,
        RemoveMember=members.RemoveMember,
        LeaveTenant=members.LeaveTenant,
        CreateInvitation=invitations.CreateInvitation,
        ListInvitations=invitations.ListInvitations,
        RevokeInvitation=invitations.RevokeInvitation,
        AcceptInvitation=invitations.AcceptInvitation,
        CreateSubject=subjects.CreateSubject,
        GetSubject=subjects.GetSubject,
        ListSubjects=subjects.ListSubjects,
        UpdateSubject=subjects.UpdateSubject,
        DeleteSubject=subjects.DeleteSubject,
        UndeleteSubject=subjects.UndeleteSubject,
        PurgeSubject=subjects.PurgeSubject,
        CreateTool=tools.CreateTool,
        GetTool=tools.GetTool,
        ListTools=tools.ListTools,
        UpdateTool=tools.UpdateTool,
        DeleteTool=tools.DeleteTool,
        UndeleteTool=tools.UndeleteTool,
        PurgeTool=tools.PurgeTool,
        AttachTool=tools.AttachTool,
        DetachTool=tools.DetachTool,
        GetPolicy=policies.GetPolicy,
        UpdatePolicy=policies.UpdatePolicy,
        GetQuota=quotas.GetQuota,
        UpdateQuota=quotas.UpdateQuota,
        GetUsage=quotas.GetUsage,
        GetJobs=jobs.GetJobs,
        PauseJob=jobs.PauseJob,
        ResumeJob=jobs.ResumeJob,
        LimitJob=jobs.LimitJob,
        AdvanceImport=jobs.AdvanceImport,
        CreateAgent=agents.CreateAgent,
        GetAgent=agents.GetAgent,
        ListAgents=agents.ListAgents,
        UpdateAgent=agents.UpdateAgent,
        DeleteAgent=agents.DeleteAgent,
        UndeleteAgent=agents.UndeleteAgent,
        PurgeAgent=agents.PurgeAgent,
        CreateSpace=spaces.CreateSpace,
        GetSpace=spaces.GetSpace,
        ListSpaces=spaces.ListSpaces,
        UpdateSpace=spaces.UpdateSpace,
        DeleteSpace=spaces.DeleteSpace,
        GrantSpace=spaces.GrantSpace,
        RevokeSpaceGrant=spaces.RevokeSpaceGrant,
        ListSpaceGrants=spaces.ListSpaceGrants,
        ExplainAccess=spaces.ExplainAccess,
    )


def tenancy_internal_service(
    *,
    deletions: DeletionHandlers,
    members: MemberHandlers,
    invitations: InvitationHandlers,
    quotas: QuotaHandlers,
    rate_limits: RateLimitHandlers,
    maintenance: MaintenanceHandlers,
) -> TenancyInternalServiceMethods:
    """TenancyInternalService: calls of the other services."""
    return TenancyInternalServiceMethods(
        GetMembership=members.GetMembership,
        AcquireRateLimit=rate_limits.AcquireRateLimit,
        CheckInvitation=invitations.CheckInvitation,
        RemoveAccount=members.RemoveAccount,
        ListDueDeletions=deletions.ListDueDeletions,
        RecordDeletion=deletions.RecordDeletion,
        PurgeTenant=deletions.PurgeTenant,
        CollectUsage=quotas.CollectUsage,
        ListDueTenants=maintenance.ListDueTenants,
        DeleteExpired=maintenance.DeleteExpired,
    )
