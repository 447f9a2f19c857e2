"""The access table of the whole cluster: the permission that each method requires. A method without a row cannot start.

API keys and access tokens carry permissions (scopes in OAuth). The role of a member implies permissions too. No
tenant's key and no application can get three of them. Only operator keys have `operator`, only services of the cluster
have `system`, and only people who logged in have `account`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein_kit.errors import (
    AccountRequired,
    AgentBound,
    PermissionMissing,
    TenantMissing,
    TenantNotDeleted,
    TenantNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skein_kit.identity.identity_token import Caller

# Operators manage organizations, tenants, accounts, quotas, models and signing keys. They act in the tenant that the
# metadata key skein-tenant-id names.
OPERATOR = "operator"
# Services of the cluster call internal RPCs for a tenant.
SYSTEM = "system"
# A logged-in person manages the account and its auth sessions, and gives consent. No key and no application has it.
ACCOUNT = "account"
# Operators make new tenants, and people do where SKEIN_ACCOUNTS_CREATE_TENANTS is on.
CREATE_TENANT = "tenant.create"
# What sets the trust in sources. An agent that may write memories does not rate itself.
RATE_SOURCES = "tenant.write"

# Permissions of each role of a tenant; each role includes those of the lower ones.
_VIEWER = frozenset({"memory.read", "session.read", "recall.read", "subject.read", "tenant.read"})
_MEMBER = _VIEWER | {"memory.write", "session.write", "subject.write", "members.read"}
_ADMIN = _MEMBER | {
    "memory.approve",
    "tenant.write",
    "jobs.write",
    "keys.read",
    "keys.write",
    "members.write",
    "audit.read",
    "secrets.read",
}
_OWNER = _ADMIN | {"tenant.own"}
ROLE_PERMISSIONS: Mapping[str, frozenset[str]] = {
    "viewer": _VIEWER,
    "member": _MEMBER,
    "admin": _ADMIN,
    "owner": _OWNER,
}
# What each permission allows, as the consent page shows it.
PERMISSION_DESCRIPTIONS: Mapping[str, str] = {
    "memory.read": "Read what is remembered",
    "memory.write": "Remember, change and forget",
    "memory.approve": "Approve and refuse what others remember",
    "session.read": "Read conversations",
    "session.write": "Write and delete conversations",
    "recall.read": "Search memories and conversations",
    "subject.read": "Read profiles of the people that memories are about",
    "subject.write": "Change these profiles",
    "tenant.read": "See the tenant, its agents, tools and policy",
    "tenant.write": "Manage the tenant, its agents, tools and policy",
    "jobs.write": "Pause, resume and limit background work",
    "keys.read": "List API keys and service accounts",
    "keys.write": "Create and revoke API keys and service accounts",
    "members.read": "See who the members are",
    "members.write": "Invite, change and remove members",
    "audit.read": "Read the record of sign-ins and credentials",
    "secrets.read": "See the secrets that are kept among the memories",
    "tenant.own": "Delete the tenant or pass it on",
}
# Permissions that a key of a tenant may have.
TENANT_PERMISSIONS = frozenset(PERMISSION_DESCRIPTIONS)
OPERATOR_PERMISSIONS = TENANT_PERMISSIONS | {OPERATOR, CREATE_TENANT}
# Internal RPCs and the list of tenants: a stolen token of the worker reads no content and creates no key.
SYSTEM_PERMISSIONS = frozenset({SYSTEM, "tenant.read"})


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The requirement of a method: none (public), any credential (permission None), or one permission."""

    permission: str | None = None
    # The method acts within one tenant, so the caller must have one.
    needs_tenant: bool = True
    is_public: bool = False
    # The method purges a deleted tenant. Every other method requires one that is not deleted.
    allows_deleted_tenant: bool = False
    # The only service that may call; empty: no such limit.
    service: str = ""
    # The method reads or writes what all agents of the tenant have: no credential that is bound to one may call it.
    for_all_agents: bool = False
    # Where a request names the agent that it acts as, such as "memories.agent_id".
    agent_field: str = ""

    def check(self, caller: Caller) -> None:
        """Raise the error of a caller that lacks the permission, the account or the tenant."""
        # The permissions of a role need a tenant, so a person without one lacks the tenant, not the permission.
        can_choose_tenant = not caller.permissions.isdisjoint((OPERATOR, ACCOUNT))
        if (
            self.needs_tenant
            and caller.tenant_id is None
            and can_choose_tenant
            and self.permission in TENANT_PERMISSIONS
        ):
            raise TenantMissing
        if self.permission is not None and self.permission not in caller.permissions:
            raise AccountRequired if self.permission == ACCOUNT else PermissionMissing(permission=self.permission)
        if self.service and caller.principal != f"{SYSTEM}:{self.service}":
            raise PermissionMissing(permission=f"{SYSTEM}:{self.service}")
        if self.needs_tenant and caller.tenant_id is None:
            raise TenantMissing
        if self.for_all_agents and caller.agent_id:
            raise AgentBound(agent_id=caller.agent_id)
        if caller.is_tenant_deleted and not self.allows_deleted_tenant:
            raise TenantNotFound
        if self.allows_deleted_tenant and not caller.is_tenant_deleted:
            raise TenantNotDeleted

    def check_agent(self, caller: Caller, request: Any) -> None:
        """Raise AgentBound for a request that acts as another agent than that of its credential."""
        if not (caller.agent_id and self.agent_field):
            return
        name = self.agent_field.rpartition(".")[2]
        if "update_mask" in request.DESCRIPTOR.fields_by_name and name not in (request.update_mask.paths or [name]):
            return
        if not set(_values(request, self.agent_field.split("."))) <= {"", caller.agent_id}:
            raise AgentBound(agent_id=caller.agent_id)


def _values(message: Any, path: Sequence[str]) -> list[str]:
    """Return the values that a field has in a message and the messages within it."""
    value = getattr(message, path[0])
    if len(path) == 1:
        return [value]
    is_repeated = message.DESCRIPTOR.fields_by_name[path[0]].is_repeated
    return [text for part in (value if is_repeated else [value]) for text in _values(part, path[1:])]


def _rules() -> dict[str, AccessRule]:
    public = AccessRule(is_public=True, needs_tenant=False)
    account = AccessRule(ACCOUNT, needs_tenant=False)
    operator = AccessRule(OPERATOR, needs_tenant=False)
    worker = AccessRule(SYSTEM, service="worker")
    worker_without_tenant = AccessRule(SYSTEM, needs_tenant=False, service="worker")
    auth = AccessRule(SYSTEM, needs_tenant=False, service="auth")
    purge = AccessRule(SYSTEM, allows_deleted_tenant=True, service="worker")
    table: dict[str, dict[str, AccessRule]] = {
        "skein.auth.v1.AuthService": {
            # Each of these requests has its own proof: a password, a token, an invitation.
            "SignUp": public,
            "VerifyEmail": public,
            "RequestPasswordReset": public,
            "ResetPassword": public,
            "SignIn": public,
            "SignInWithIdentity": public,
            "RefreshSession": public,
            "GetMe": AccessRule(needs_tenant=False),
            "SignOut": account,
            "UpdateMe": account,
            "ChangePassword": account,
            "DeactivateMe": account,
            "DeleteMe": account,
            "RequestEmailVerification": account,
            "StartTotp": account,
            "ConfirmTotp": account,
            "DisableTotp": account,
            "ListAuthSessions": account,
            "RevokeAuthSession": account,
            "LinkIdentity": account,
            "UnlinkIdentity": account,
            "ListIdentities": account,
            "ListMyAuditEvents": account,
            "CreateAccount": operator,
            "GetAccount": operator,
            "ListAccounts": operator,
            "UpdateAccount": operator,
            "DeleteAccount": operator,
            "CreateOneTimeToken": operator,
            "RevokeCredentials": operator,
            "ImportClient": operator,
            "RotateSigningKey": operator,
            "SetLegacyToken": AccessRule(OPERATOR),
            "ListAuditEvents": AccessRule("audit.read", needs_tenant=False),
            # An operator may name a deleted tenant.
            "GetErasureCertificate": AccessRule("audit.read", needs_tenant=False),
            "ListErasureCertificates": AccessRule("audit.read", needs_tenant=False),
            "CreateServiceAccount": AccessRule("keys.write"),
            "UpdateServiceAccount": AccessRule("keys.write"),
            "DeleteServiceAccount": AccessRule("keys.write"),
            "CreateApiKey": AccessRule("keys.write"),
            "RotateApiKey": AccessRule("keys.write"),
            "RevokeApiKey": AccessRule("keys.write"),
            # A person's own sign-in alone, as the method itself checks.
            "AdoptApiKey": AccessRule("keys.write"),
            "AdoptServiceAccount": AccessRule("keys.write"),
            "GetServiceAccount": AccessRule("keys.read"),
            "ListServiceAccounts": AccessRule("keys.read"),
            "ListApiKeys": AccessRule("keys.read"),
            "Introspect": AccessRule("keys.read"),
            "ListSigningKeys": public,
        },
        "skein.auth.v1.OAuthService": {
            # Clients, codes and tokens prove themselves; consent is a person's.
            "GetServerMetadata": public,
            "RegisterClient": public,
            "GetClient": public,
            "UpdateClient": public,
            "DeleteClient": public,
            "CreateAuthorization": public,
            "ExchangeToken": public,
            "StartDeviceAuthorization": public,
            "RevokeToken": public,
            "IntrospectToken": public,
            "GetUserInfo": public,
            "ApproveAuthorization": account,
            "GetDeviceAuthorization": account,
            "ApproveDevice": account,
        },
        "skein.auth.v1.AuthInternalService": {
            "Exchange": public,
            "GetCheckKeys": public,
            "ListDueTenants": worker_without_tenant,
            # Without a tenant it deletes the rows of none.
            "DeleteExpired": worker_without_tenant,
            "PurgeTenant": purge,
            # Called by tenancy in the name of a caller who manages members.
            "GetAccountState": AccessRule(needs_tenant=False),
            # Called by the gateway in its caller's name. The servicer checks the permissions of the reported purge.
            "IssueErasureCertificate": AccessRule(),
            # Called by recall in the name of a caller whose answer gets a receipt.
            "SignRecallReceipts": AccessRule("recall.read"),
            # The tenant that it names does not exist any more.
            "IssueDeletionCertificate": worker_without_tenant,
        },
        "skein.tenancy.v1.TenancyService": {
            "CreateOrganization": operator,
            "GetOrganization": operator,
            "ListOrganizations": operator,
            "UpdateOrganization": operator,
            "DeleteOrganization": operator,
            "CreateTenant": AccessRule(CREATE_TENANT, needs_tenant=False),
            "GetTenant": AccessRule("tenant.read", needs_tenant=False),
            "ListTenants": AccessRule("tenant.read", needs_tenant=False),
            "UpdateTenant": AccessRule("tenant.write", needs_tenant=False),
            "DeleteTenant": AccessRule("tenant.own", needs_tenant=False),
            "UndeleteTenant": operator,
            "GetDeletion": operator,
            "ListDeletions": operator,
            "TransferOwnership": AccessRule("tenant.own"),
            "AddMember": AccessRule(OPERATOR),
            "GetMember": AccessRule("members.read"),
            "ListMembers": AccessRule("members.read"),
            "ListInvitations": AccessRule("members.read"),
            "UpdateMember": AccessRule("members.write"),
            "RemoveMember": AccessRule("members.write"),
            "CreateInvitation": AccessRule("members.write"),
            "RevokeInvitation": AccessRule("members.write"),
            "LeaveTenant": AccessRule(ACCOUNT),
            "AcceptInvitation": account,
            "CreateAgent": AccessRule("tenant.write"),
            "UpdateAgent": AccessRule("tenant.write"),
            "DeleteAgent": AccessRule("tenant.write"),
            "UndeleteAgent": AccessRule("tenant.write"),
            "PurgeAgent": AccessRule("tenant.write"),
            "CreateTool": AccessRule("tenant.write"),
            "UpdateTool": AccessRule("tenant.write"),
            "DeleteTool": AccessRule("tenant.write"),
            "UndeleteTool": AccessRule("tenant.write"),
            "PurgeTool": AccessRule("tenant.write"),
            "AttachTool": AccessRule("tenant.write"),
            "DetachTool": AccessRule("tenant.write"),
            "UpdatePolicy": AccessRule("tenant.write"),
            "GetAgent": AccessRule("tenant.read"),
            "ListAgents": AccessRule("tenant.read"),
            "GetTool": AccessRule("tenant.read"),
            "ListTools": AccessRule("tenant.read"),
            "GetPolicy": AccessRule("tenant.read"),
            "GetJobs": AccessRule("tenant.read"),
            "PauseJob": AccessRule("jobs.write"),
            "ResumeJob": AccessRule("jobs.write"),
            "LimitJob": AccessRule("jobs.write"),
            "AdvanceImport": AccessRule("memory.write"),
            "CreateSubject": AccessRule("subject.write"),
            "UpdateSubject": AccessRule("subject.write"),
            "DeleteSubject": AccessRule("subject.write"),
            "UndeleteSubject": AccessRule("subject.write"),
            "PurgeSubject": AccessRule("subject.write", for_all_agents=True),
            "GetSubject": AccessRule("subject.read"),
            "ListSubjects": AccessRule("subject.read"),
            # Without a tenant, an operator names an organization.
            "GetQuota": AccessRule("tenant.read", needs_tenant=False),
            "GetUsage": AccessRule("tenant.read", needs_tenant=False),
            "UpdateQuota": operator,
        },
        "skein.tenancy.v1.TenancyInternalService": {
            "GetMembership": auth,
            "CheckInvitation": auth,
            "RemoveAccount": auth,
            "ListDueTenants": worker_without_tenant,
            "ListDueDeletions": worker_without_tenant,
            "RecordDeletion": worker_without_tenant,
            # Called by the gateway in its caller's name.
            "AcquireRateLimit": AccessRule(needs_tenant=False),
            "PurgeTenant": purge,
            "CollectUsage": worker,
            "DeleteExpired": worker,
        },
        "skein.session.v1.SessionService": {
            "CreateSession": AccessRule("session.write", agent_field="session.agent_id"),
            "GetSession": AccessRule("session.read"),
            "ListSessions": AccessRule("session.read"),
            "UpdateSession": AccessRule("session.write", agent_field="session.agent_id"),
            "EndSession": AccessRule("session.write"),
            "HideSession": AccessRule("session.write"),
            "UnhideSession": AccessRule("session.write"),
            "SummarizeSession": AccessRule("session.write"),
            "DeleteSession": AccessRule("session.write"),
            "AppendMessages": AccessRule("session.write", agent_field="messages.agent_id"),
            "GetMessage": AccessRule("session.read"),
            "StreamMessages": AccessRule("session.read"),
            "ListMessages": AccessRule("session.read"),
            "ListAgentMessages": AccessRule("session.read", agent_field="agent_id"),
            "GetRecentWindow": AccessRule("session.read"),
            "SearchMessages": AccessRule("session.read"),
            "UpdateMessage": AccessRule("session.write"),
            "DeleteMessage": AccessRule("session.write"),
            "PutAgentState": AccessRule("session.write", agent_field="state.agent_id"),
            "GetAgentState": AccessRule("session.read", agent_field="agent_id"),
            "ListAgentStates": AccessRule("session.read", agent_field="agent_id"),
            "DeleteAgentState": AccessRule("session.write", agent_field="agent_id"),
            "PutSessionItem": AccessRule("session.write"),
            "GetSessionItem": AccessRule("session.read"),
            "ListSessionItems": AccessRule("session.read"),
            "DeleteSessionItem": AccessRule("session.write"),
            "PurgeSession": AccessRule("session.write"),
            "PurgeMessages": AccessRule("session.write"),
            "PurgeSubject": AccessRule("session.write", for_all_agents=True),
            # It shows what was deleted too.
            "ExportSubject": AccessRule("session.write", for_all_agents=True),
            "ArchiveSession": AccessRule("session.write"),
            "UnarchiveSession": AccessRule("session.write"),
            "ListArchivedSessions": AccessRule("session.read"),
        },
        "skein.session.v1.SessionInternalService": {
            **dict.fromkeys(
                ("DeleteExpired", "EndIdleSessions", "InheritParticipants", "ArchiveHiddenSessions"), worker
            ),
            "EnsurePartitions": worker_without_tenant,
            "ListDueTenants": worker_without_tenant,
            "PurgeTenant": purge,
        },
        "skein.memory.v1.MemoryService": {
            "CreateMemory": AccessRule("memory.write", agent_field="memory.agent_id"),
            "BatchCreateMemories": AccessRule("memory.write", agent_field="memories.agent_id"),
            "GetMemory": AccessRule("memory.read"),
            "BatchGetMemories": AccessRule("memory.read"),
            "ListMemories": AccessRule("memory.read"),
            "UpdateMemory": AccessRule("memory.write", agent_field="memory.agent_id"),
            "DeleteMemory": AccessRule("memory.write"),
            "UndeleteMemory": AccessRule("memory.write"),
            "ExplainScore": AccessRule("memory.read"),
            "ReinforceMemory": AccessRule("memory.write"),
            "DecayScores": AccessRule("memory.write"),
            "MergeMemories": AccessRule("memory.write"),
            "ConsolidateMemories": AccessRule("memory.write"),
            "ListMemoryVersions": AccessRule("memory.read"),
            "ExportMemories": AccessRule("memory.read"),
            "PurgeMemories": AccessRule("memory.write"),
            "DeleteMemories": AccessRule("memory.write"),
            "ListMemoryTypes": AccessRule("memory.read"),
            "RevealSecret": AccessRule("secrets.read"),
            "RotateTenantKey": AccessRule("tenant.write"),
            "PromoteMemory": AccessRule("memory.write"),
            "DemoteMemory": AccessRule("memory.write"),
            "ListTasks": AccessRule("memory.read"),
            "ListObjectives": AccessRule("memory.read"),
            "ListNextActions": AccessRule("memory.read"),
            "UpdateTaskStatus": AccessRule("memory.write"),
            "CompleteTask": AccessRule("memory.write"),
            "ReopenTask": AccessRule("memory.write"),
            "SetObjective": AccessRule("memory.write"),
        },
        "skein.memory.v1.LinkService": {
            "CreateLink": AccessRule("memory.write"),
            "BatchCreateLinks": AccessRule("memory.write"),
            "UpsertLink": AccessRule("memory.write"),
            "UpdateLink": AccessRule("memory.write"),
            "DeleteLink": AccessRule("memory.write"),
            "GetLink": AccessRule("memory.read"),
            "ListLinks": AccessRule("memory.read"),
            "TraverseLinks": AccessRule("memory.read"),
            "GetSubgraph": AccessRule("memory.read"),
            "FindPaths": AccessRule("memory.read"),
            "SpreadActivation": AccessRule("memory.read"),
            "SuggestLinks": AccessRule("memory.read"),
        },
        "skein.memory.v1.CurationService": {
            "SetSourceTrust": AccessRule(RATE_SOURCES),
            "GetSourceTrust": AccessRule("memory.read"),
            "ListSourceTrust": AccessRule("memory.read"),
            "DeleteSourceTrust": AccessRule(RATE_SOURCES),
            "ListConflicts": AccessRule("memory.read"),
            "ResolveConflict": AccessRule("memory.write"),
            "ListConflictResolutions": AccessRule("memory.read"),
            "ResolveEntity": AccessRule("memory.write"),
            "GetCanonicalMemory": AccessRule("memory.read"),
            "ListAliases": AccessRule("memory.read"),
            "DeleteAlias": AccessRule("memory.write"),
            "GetLineage": AccessRule("memory.read"),
            "ListImpacted": AccessRule("memory.read"),
            "ListPendingMemories": AccessRule("memory.approve", for_all_agents=True),
            "ApproveMemory": AccessRule("memory.approve", for_all_agents=True),
            "RefuseMemory": AccessRule("memory.approve", for_all_agents=True),
            "GetReviewQueue": AccessRule("memory.read"),
            "GetTemporalClusters": AccessRule("memory.read"),
            "GetStatistics": AccessRule("memory.read", for_all_agents=True),
        },
        "skein.memory.v1.BlockService": {
            "CreateBlock": AccessRule("memory.write", agent_field="agent_id"),
            "CreateBlockFromTemplate": AccessRule("memory.write", agent_field="agent_id"),
            "GetBlock": AccessRule("memory.read"),
            "ListBlocks": AccessRule("memory.read"),
            "UpdateBlock": AccessRule("memory.write"),
            "DeleteBlock": AccessRule("memory.write"),
            "UndeleteBlock": AccessRule("memory.write"),
            "PurgeBlock": AccessRule("memory.write"),
            "AppendToBlock": AccessRule("memory.write"),
            "ReplaceInBlock": AccessRule("memory.write"),
            "InsertIntoBlock": AccessRule("memory.write"),
            "AttachBlock": AccessRule("memory.write", agent_field="agent_id"),
            "DetachBlock": AccessRule("memory.write", agent_field="agent_id"),
            "ListBlockAgents": AccessRule("memory.read"),
            "ListAgentBlocks": AccessRule("memory.read", agent_field="agent_id"),
            "CompileBlocks": AccessRule("memory.read", agent_field="agent_id"),
            "ListBlockRevisions": AccessRule("memory.read"),
            "RevertBlock": AccessRule("memory.write"),
        },
        "skein.memory.v1.HistoryService": {
            "ListChanges": AccessRule("memory.read", for_all_agents=True),
            "StreamChanges": AccessRule("memory.read", for_all_agents=True),
            # The administrators of a tenant decide what leaves the cluster.
            "CreateWebhook": AccessRule("tenant.write", for_all_agents=True),
            "UpdateWebhook": AccessRule("tenant.write", for_all_agents=True),
            "DeleteWebhook": AccessRule("tenant.write", for_all_agents=True),
            "RotateWebhookSecret": AccessRule("tenant.write", for_all_agents=True),
            "TestWebhook": AccessRule("tenant.write", for_all_agents=True),
            "RetryWebhookDelivery": AccessRule("tenant.write", for_all_agents=True),
            "GetWebhook": AccessRule("memory.read", for_all_agents=True),
            "ListWebhooks": AccessRule("memory.read", for_all_agents=True),
            "ListWebhookDeliveries": AccessRule("memory.read", for_all_agents=True),
            "ListAccessLog": AccessRule("audit.read", for_all_agents=True),
            "ArchiveMemories": AccessRule("tenant.write", for_all_agents=True),
            "UnarchiveMemories": AccessRule("tenant.write", for_all_agents=True),
            "ListArchives": AccessRule("memory.read", for_all_agents=True),
        },
        "skein.memory.v1.SnapshotService": {
            "CreateSnapshot": AccessRule("memory.write", for_all_agents=True),
            "GetSnapshot": AccessRule("memory.read", for_all_agents=True),
            "ListSnapshots": AccessRule("memory.read", for_all_agents=True),
            "DiffSnapshots": AccessRule("memory.read", for_all_agents=True),
            "RestoreSnapshot": AccessRule("memory.write", for_all_agents=True),
            "DeleteSnapshot": AccessRule("memory.write", for_all_agents=True),
            "ExportData": AccessRule("memory.read", for_all_agents=True),
            "ImportData": AccessRule("memory.write", for_all_agents=True),
        },
        "skein.memory.v1.MemoryInternalService": {
            **dict.fromkeys(
                ("ContinueSnapshots", "DeleteExpired", "DecayMemories", "ReindexMemories", "RescoreTrust"), worker
            ),
            **dict.fromkeys(("DeliverWebhooks", "ArchiveIdleMemories", "ApplyRetention"), worker),
            "EnsurePartitions": worker_without_tenant,
            "ListDueTenants": worker_without_tenant,
            "PurgeTenant": purge,
        },
        "skein.recall.v1.RecallService": {
            "Recall": AccessRule("recall.read"),
            "FindSimilar": AccessRule("recall.read"),
            # Of the caller's own answers; with audit.read, of all.
            "GetRecallReceipt": AccessRule("recall.read"),
            "ListRecallReceipts": AccessRule("recall.read"),
            "ReplayRecall": AccessRule("recall.read"),
            "DiffRecall": AccessRule("recall.read"),
            "EmbedText": AccessRule("recall.read"),
            "ListEmbeddingModels": AccessRule("recall.read", needs_tenant=False),
            "RegisterEmbeddingModel": operator,
            "PutEmbedding": AccessRule("memory.write"),
            "BatchGetIndexStates": AccessRule("recall.read"),
            "StartReindex": operator,
            "GetReindex": operator,
            "ListReindexes": operator,
            "CancelReindex": operator,
            "CompareEmbeddingModels": operator,
            "ActivateEmbeddingModel": operator,
            "DeleteEmbeddingModel": operator,
        },
        "skein.recall.v1.RecallInternalService": {
            # Memory and session call it for the caller that wrote the items.
            "IndexItems": AccessRule(),
            # The gateway calls it for a caller whose context gets a receipt.
            "RecordContexts": AccessRule("recall.read"),
            "IndexBacklog": worker,
            "ListDueTenants": worker_without_tenant,
            "ListDueReindexes": worker_without_tenant,
            "ContinueReindex": worker,
            "PurgeTenant": purge,
        },
        "skein.gateway.v1.GatewayService": {
            # The services that do the parts check their permissions.
            "Remember": AccessRule(),
            "Recall": AccessRule("recall.read"),
            "BuildContext": AccessRule("recall.read"),
            # Of the caller's own contexts; with audit.read, of all.
            "ReplayContext": AccessRule("recall.read"),
            "Forget": AccessRule(for_all_agents=True),
            "GetClusterStatus": AccessRule(needs_tenant=False),
        },
    }
    return {f"/{service}/{method}": rule for service, methods in table.items() for method, rule in methods.items()}


ACCESS_RULES: Mapping[str, AccessRule] = _rules()
# Services that the gateway offers to callers; every other service is internal.
PUBLIC_SERVICES: Mapping[str, str] = {
    "skein.auth.v1.AuthService": "auth",
    "skein.tenancy.v1.TenancyService": "tenancy",
    "skein.session.v1.SessionService": "session",
    "skein.memory.v1.MemoryService": "memory",
    "skein.memory.v1.LinkService": "memory",
    "skein.memory.v1.HistoryService": "memory",
    "skein.memory.v1.BlockService": "memory",
    "skein.memory.v1.SnapshotService": "memory",
    "skein.memory.v1.CurationService": "memory",
    "skein.recall.v1.RecallService": "recall",
}
