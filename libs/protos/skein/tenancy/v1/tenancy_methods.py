"""The methods of the services of skein/tenancy/v1/tenancy.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.tenancy.v1 import jobs_pb2
from skein.tenancy.v1 import limits_pb2
from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import spaces_pb2
from skein.tenancy.v1 import subjects_pb2
from skein.tenancy.v1 import tenancy_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class TenancyServiceMethods:
    """What answers each RPC of TenancyService."""

    CreateOrganization: Callable[[tenancy_pb2.CreateOrganizationRequest, Any], Awaitable[tenancy_pb2.CreateOrganizationResponse]]
    GetOrganization: Callable[[tenancy_pb2.GetOrganizationRequest, Any], Awaitable[tenancy_pb2.GetOrganizationResponse]]
    ListOrganizations: Callable[[tenancy_pb2.ListOrganizationsRequest, Any], Awaitable[tenancy_pb2.ListOrganizationsResponse]]
    UpdateOrganization: Callable[[tenancy_pb2.UpdateOrganizationRequest, Any], Awaitable[tenancy_pb2.UpdateOrganizationResponse]]
    DeleteOrganization: Callable[[tenancy_pb2.DeleteOrganizationRequest, Any], Awaitable[tenancy_pb2.DeleteOrganizationResponse]]
    CreateTenant: Callable[[tenancy_pb2.CreateTenantRequest, Any], Awaitable[tenancy_pb2.CreateTenantResponse]]
    GetTenant: Callable[[tenancy_pb2.GetTenantRequest, Any], Awaitable[tenancy_pb2.GetTenantResponse]]
    ListTenants: Callable[[tenancy_pb2.ListTenantsRequest, Any], Awaitable[tenancy_pb2.ListTenantsResponse]]
    UpdateTenant: Callable[[tenancy_pb2.UpdateTenantRequest, Any], Awaitable[tenancy_pb2.UpdateTenantResponse]]
    DeleteTenant: Callable[[tenancy_pb2.DeleteTenantRequest, Any], Awaitable[tenancy_pb2.DeleteTenantResponse]]
    UndeleteTenant: Callable[[members_pb2.UndeleteTenantRequest, Any], Awaitable[members_pb2.UndeleteTenantResponse]]
    GetDeletion: Callable[[members_pb2.GetDeletionRequest, Any], Awaitable[members_pb2.GetDeletionResponse]]
    ListDeletions: Callable[[members_pb2.ListDeletionsRequest, Any], Awaitable[members_pb2.ListDeletionsResponse]]
    TransferOwnership: Callable[[members_pb2.TransferOwnershipRequest, Any], Awaitable[members_pb2.TransferOwnershipResponse]]
    AddMember: Callable[[members_pb2.AddMemberRequest, Any], Awaitable[members_pb2.AddMemberResponse]]
    GetMember: Callable[[members_pb2.GetMemberRequest, Any], Awaitable[members_pb2.GetMemberResponse]]
    ListMembers: Callable[[members_pb2.ListMembersRequest, Any], Awaitable[members_pb2.ListMembersResponse]]
    UpdateMember: Callable[[members_pb2.UpdateMemberRequest, Any], Awaitable[members_pb2.UpdateMemberResponse]]
    RemoveMember: Callable[[members_pb2.RemoveMemberRequest, Any], Awaitable[members_pb2.RemoveMemberResponse]]
    LeaveTenant: Callable[[members_pb2.LeaveTenantRequest, Any], Awaitable[members_pb2.LeaveTenantResponse]]
    CreateInvitation: Callable[[members_pb2.CreateInvitationRequest, Any], Awaitable[members_pb2.CreateInvitationResponse]]
    ListInvitations: Callable[[members_pb2.ListInvitationsRequest, Any], Awaitable[members_pb2.ListInvitationsResponse]]
    RevokeInvitation: Callable[[members_pb2.RevokeInvitationRequest, Any], Awaitable[members_pb2.RevokeInvitationResponse]]
    AcceptInvitation: Callable[[members_pb2.AcceptInvitationRequest, Any], Awaitable[members_pb2.AcceptInvitationResponse]]
    CreateSubject: Callable[[subjects_pb2.CreateSubjectRequest, Any], Awaitable[subjects_pb2.CreateSubjectResponse]]
    GetSubject: Callable[[subjects_pb2.GetSubjectRequest, Any], Awaitable[subjects_pb2.GetSubjectResponse]]
    ListSubjects: Callable[[subjects_pb2.ListSubjectsRequest, Any], Awaitable[subjects_pb2.ListSubjectsResponse]]
    UpdateSubject: Callable[[subjects_pb2.UpdateSubjectRequest, Any], Awaitable[subjects_pb2.UpdateSubjectResponse]]
    DeleteSubject: Callable[[subjects_pb2.DeleteSubjectRequest, Any], Awaitable[subjects_pb2.DeleteSubjectResponse]]
    UndeleteSubject: Callable[[subjects_pb2.UndeleteSubjectRequest, Any], Awaitable[subjects_pb2.UndeleteSubjectResponse]]
    PurgeSubject: Callable[[subjects_pb2.PurgeSubjectRequest, Any], Awaitable[subjects_pb2.PurgeSubjectResponse]]
    CreateTool: Callable[[subjects_pb2.CreateToolRequest, Any], Awaitable[subjects_pb2.CreateToolResponse]]
    GetTool: Callable[[subjects_pb2.GetToolRequest, Any], Awaitable[subjects_pb2.GetToolResponse]]
    ListTools: Callable[[subjects_pb2.ListToolsRequest, Any], Awaitable[subjects_pb2.ListToolsResponse]]
    UpdateTool: Callable[[subjects_pb2.UpdateToolRequest, Any], Awaitable[subjects_pb2.UpdateToolResponse]]
    DeleteTool: Callable[[subjects_pb2.DeleteToolRequest, Any], Awaitable[subjects_pb2.DeleteToolResponse]]
    UndeleteTool: Callable[[subjects_pb2.UndeleteToolRequest, Any], Awaitable[subjects_pb2.UndeleteToolResponse]]
    PurgeTool: Callable[[subjects_pb2.PurgeToolRequest, Any], Awaitable[subjects_pb2.PurgeToolResponse]]
    AttachTool: Callable[[subjects_pb2.AttachToolRequest, Any], Awaitable[subjects_pb2.AttachToolResponse]]
    DetachTool: Callable[[subjects_pb2.DetachToolRequest, Any], Awaitable[subjects_pb2.DetachToolResponse]]
    GetPolicy: Callable[[subjects_pb2.GetPolicyRequest, Any], Awaitable[subjects_pb2.GetPolicyResponse]]
    UpdatePolicy: Callable[[subjects_pb2.UpdatePolicyRequest, Any], Awaitable[subjects_pb2.UpdatePolicyResponse]]
    GetQuota: Callable[[limits_pb2.GetQuotaRequest, Any], Awaitable[limits_pb2.GetQuotaResponse]]
    UpdateQuota: Callable[[limits_pb2.UpdateQuotaRequest, Any], Awaitable[limits_pb2.UpdateQuotaResponse]]
    GetUsage: Callable[[limits_pb2.GetUsageRequest, Any], Awaitable[limits_pb2.GetUsageResponse]]
    GetJobs: Callable[[jobs_pb2.GetJobsRequest, Any], Awaitable[jobs_pb2.GetJobsResponse]]
    PauseJob: Callable[[jobs_pb2.PauseJobRequest, Any], Awaitable[jobs_pb2.PauseJobResponse]]
    ResumeJob: Callable[[jobs_pb2.ResumeJobRequest, Any], Awaitable[jobs_pb2.ResumeJobResponse]]
    LimitJob: Callable[[jobs_pb2.LimitJobRequest, Any], Awaitable[jobs_pb2.LimitJobResponse]]
    AdvanceImport: Callable[[jobs_pb2.AdvanceImportRequest, Any], Awaitable[jobs_pb2.AdvanceImportResponse]]
    CreateAgent: Callable[[tenancy_pb2.CreateAgentRequest, Any], Awaitable[tenancy_pb2.CreateAgentResponse]]
    GetAgent: Callable[[tenancy_pb2.GetAgentRequest, Any], Awaitable[tenancy_pb2.GetAgentResponse]]
    ListAgents: Callable[[tenancy_pb2.ListAgentsRequest, Any], Awaitable[tenancy_pb2.ListAgentsResponse]]
    UpdateAgent: Callable[[tenancy_pb2.UpdateAgentRequest, Any], Awaitable[tenancy_pb2.UpdateAgentResponse]]
    DeleteAgent: Callable[[tenancy_pb2.DeleteAgentRequest, Any], Awaitable[tenancy_pb2.DeleteAgentResponse]]
    UndeleteAgent: Callable[[tenancy_pb2.UndeleteAgentRequest, Any], Awaitable[tenancy_pb2.UndeleteAgentResponse]]
    PurgeAgent: Callable[[tenancy_pb2.PurgeAgentRequest, Any], Awaitable[tenancy_pb2.PurgeAgentResponse]]
    CreateSpace: Callable[[spaces_pb2.CreateSpaceRequest, Any], Awaitable[spaces_pb2.CreateSpaceResponse]]
    GetSpace: Callable[[spaces_pb2.GetSpaceRequest, Any], Awaitable[spaces_pb2.GetSpaceResponse]]
    ListSpaces: Callable[[spaces_pb2.ListSpacesRequest, Any], Awaitable[spaces_pb2.ListSpacesResponse]]
    UpdateSpace: Callable[[spaces_pb2.UpdateSpaceRequest, Any], Awaitable[spaces_pb2.UpdateSpaceResponse]]
    DeleteSpace: Callable[[spaces_pb2.DeleteSpaceRequest, Any], Awaitable[spaces_pb2.DeleteSpaceResponse]]
    GrantSpace: Callable[[spaces_pb2.GrantSpaceRequest, Any], Awaitable[spaces_pb2.GrantSpaceResponse]]
    RevokeSpaceGrant: Callable[[spaces_pb2.RevokeSpaceGrantRequest, Any], Awaitable[spaces_pb2.RevokeSpaceGrantResponse]]
    ListSpaceGrants: Callable[[spaces_pb2.ListSpaceGrantsRequest, Any], Awaitable[spaces_pb2.ListSpaceGrantsResponse]]
    ExplainAccess: Callable[[spaces_pb2.ExplainAccessRequest, Any], Awaitable[spaces_pb2.ExplainAccessResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class TenancyInternalServiceMethods:
    """What answers each RPC of TenancyInternalService."""

    GetMembership: Callable[[members_pb2.GetMembershipRequest, Any], Awaitable[members_pb2.GetMembershipResponse]]
    AcquireRateLimit: Callable[[limits_pb2.AcquireRateLimitRequest, Any], Awaitable[limits_pb2.AcquireRateLimitResponse]]
    CheckInvitation: Callable[[members_pb2.CheckInvitationRequest, Any], Awaitable[members_pb2.CheckInvitationResponse]]
    RemoveAccount: Callable[[members_pb2.RemoveAccountRequest, Any], Awaitable[members_pb2.RemoveAccountResponse]]
    ListDueDeletions: Callable[[members_pb2.ListDueDeletionsRequest, Any], Awaitable[members_pb2.ListDueDeletionsResponse]]
    RecordDeletion: Callable[[members_pb2.RecordDeletionRequest, Any], Awaitable[members_pb2.RecordDeletionResponse]]
    PurgeTenant: Callable[[members_pb2.PurgeTenantRequest, Any], Awaitable[members_pb2.PurgeTenantResponse]]
    ListDueTenants: Callable[[members_pb2.ListDueTenantsRequest, Any], Awaitable[members_pb2.ListDueTenantsResponse]]
    CollectUsage: Callable[[limits_pb2.CollectUsageRequest, Any], Awaitable[limits_pb2.CollectUsageResponse]]
    DeleteExpired: Callable[[members_pb2.DeleteExpiredRequest, Any], Awaitable[members_pb2.DeleteExpiredResponse]]
