"""Who may call what: one table for the whole cluster. A method without a row here does not start.

Permissions are what API keys and access tokens carry (OAuth calls them scopes). What a member of a tenant may do
follows from its role. `operator` and `system` are held by the operator's keys and by the cluster's own services,
`account` by people who signed in themselves; no key of a tenant and no application can be given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import AccountNeeded, PermissionMissing, TenantClosed, TenantMissing, TenantNotDeleted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.identity.identity_token import Caller

# Operators manage organizations, tenants, accounts, quotas, models and signing keys. They act in the tenant that the
# metadata key skein-tenant-id names.
OPERATOR = "operator"
# The cluster's own services call internal RPCs for a tenant.
SYSTEM = "system"
# A person's own sign-in manages the account and its sign-ins, and gives consent. No key and no application has it.
ACCOUNT = "account"
# Operators make new tenants, and people do where SKEIN_ACCOUNTS_CREATE_TENANTS is on.
CREATE_TENANT = "tenant.create"

# What each role of a tenant may do, the roles above including those below.
_VIEWER = frozenset({"memory.read", "session.read", "recall.read", "subject.read", "tenant.read"})
_MEMBER = _VIEWER | {"memory.write", "session.write", "subject.write", "members.read"}
_ADMIN = _MEMBER | {"tenant.write", "keys.read", "keys.write", "members.write", "audit.read", "secrets.read"}
_OWNER = _ADMIN | {"tenant.own"}
ROLES: Mapping[str, frozenset[str]] = {"viewer": _VIEWER, "member": _MEMBER, "admin": _ADMIN, "owner": _OWNER}
# What each permission lets an application do, in words for the person who is asked.
MEANINGS: Mapping[str, str] = {
    "memory.read": "Read what is remembered",
    "memory.write": "Remember, change and forget",
    "session.read": "Read conversations",
    "session.write": "Write and delete conversations",
    "recall.read": "Search memories and conversations",
    "subject.read": "Read profiles of the people that memories are about",
    "subject.write": "Change these profiles",
    "tenant.read": "See the tenant, its agents, tools and policy",
    "tenant.write": "Manage the tenant, its agents, tools and policy",
    "keys.read": "List API keys and service accounts",
    "keys.write": "Create and revoke API keys and service accounts",
    "members.read": "See who the members are",
    "members.write": "Invite, change and remove members",
    "audit.read": "Read the record of sign-ins and credentials",
    "secrets.read": "See the secrets that are kept among the memories",
    "tenant.own": "Delete the tenant or pass it on",
}
# What a tenant's key can be given.
TENANT_PERMISSIONS = frozenset(MEANINGS)
OPERATOR_PERMISSIONS = TENANT_PERMISSIONS | {OPERATOR, CREATE_TENANT}
# The internal RPCs, and which tenants there are: a stolen token of the worker reads no content and makes no key.
SYSTEM_PERMISSIONS = frozenset({SYSTEM, "tenant.read"})


@dataclass(frozen=True, slots=True)
class Rule:
    """What a caller needs: nothing at all (public), any credential (None), or one permission."""

    permission: str | None = None
    # The call acts inside one tenant, so the caller must belong to one.
    tenant: bool = True
    public: bool = False
    # The call removes what is left of a deleted tenant, so it must be one. Every other call needs an open one.
    closed: bool = False
    # The one service of the cluster that makes the call; empty for every other call.
    service: str = ""

    def check(self, caller: Caller) -> None:
        """Refuse a caller that lacks the permission or the tenant."""
        # A person has the permissions of a role only once the tenant is known: to miss them means to miss the tenant.
        chooses = not caller.permissions.isdisjoint((OPERATOR, ACCOUNT))
        if self.tenant and caller.tenant_id is None and chooses and self.permission in TENANT_PERMISSIONS:
            raise TenantMissing
        if self.permission is not None and self.permission not in caller.permissions:
            raise AccountNeeded if self.permission == ACCOUNT else PermissionMissing(permission=self.permission)
        if self.service and caller.principal != f"{SYSTEM}:{self.service}":
            raise PermissionMissing(permission=f"{SYSTEM}:{self.service}")
        if self.tenant and caller.tenant_id is None:
            raise TenantMissing
        if caller.closed and not self.closed:
            raise TenantClosed
        if self.closed and not caller.closed:
            raise TenantNotDeleted


def _rules() -> dict[str, Rule]:
    anybody = Rule(public=True, tenant=False)
    account = Rule(ACCOUNT, tenant=False)
    operator = Rule(OPERATOR, tenant=False)
    worker = Rule(SYSTEM, service="worker")
    worker_anywhere = Rule(SYSTEM, tenant=False, service="worker")
    auth = Rule(SYSTEM, tenant=False, service="auth")
    purge = Rule(SYSTEM, closed=True, service="worker")
    table: dict[str, dict[str, Rule]] = {
        "skein.auth.v1.AuthService": {
            # Each of these carries its own proof: a password, a token, an invitation.
            "SignUp": anybody,
            "VerifyEmail": anybody,
            "RequestPasswordReset": anybody,
            "ResetPassword": anybody,
            "SignIn": anybody,
            "SignInWithIdentity": anybody,
            "RefreshSession": anybody,
            "GetMe": Rule(tenant=False),
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
            "SetLegacyToken": Rule(OPERATOR),
            "ListAuditEvents": Rule("audit.read", tenant=False),
            "CreateServiceAccount": Rule("keys.write"),
            "UpdateServiceAccount": Rule("keys.write"),
            "DeleteServiceAccount": Rule("keys.write"),
            "CreateApiKey": Rule("keys.write"),
            "RotateApiKey": Rule("keys.write"),
            "RevokeApiKey": Rule("keys.write"),
            # A person's own sign-in alone, as the method itself checks.
            "AdoptApiKey": Rule("keys.write"),
            "AdoptServiceAccount": Rule("keys.write"),
            "GetServiceAccount": Rule("keys.read"),
            "ListServiceAccounts": Rule("keys.read"),
            "ListApiKeys": Rule("keys.read"),
            "Introspect": Rule("keys.read"),
            "ListSigningKeys": anybody,
        },
        "skein.auth.v1.OAuthService": {
            # Clients, codes and tokens prove themselves; consent is a person's.
            "GetServerMetadata": anybody,
            "RegisterClient": anybody,
            "GetClient": anybody,
            "UpdateClient": anybody,
            "DeleteClient": anybody,
            "CreateAuthorization": anybody,
            "ExchangeToken": anybody,
            "StartDeviceAuthorization": anybody,
            "RevokeToken": anybody,
            "IntrospectToken": anybody,
            "GetUserInfo": anybody,
            "ApproveAuthorization": account,
            "GetDeviceAuthorization": account,
            "ApproveDevice": account,
        },
        "skein.auth.v1.IdentityService": {
            "Exchange": anybody,
            "GetCheckKeys": anybody,
            "DeleteExpired": worker,
            "PurgeTenant": purge,
            # Called by tenancy in the name of whoever manages members.
            "GetAccountStanding": Rule(tenant=False),
        },
        "skein.tenancy.v1.TenancyService": {
            "CreateOrganization": operator,
            "GetOrganization": operator,
            "ListOrganizations": operator,
            "UpdateOrganization": operator,
            "DeleteOrganization": operator,
            "CreateTenant": Rule(CREATE_TENANT, tenant=False),
            "GetTenant": Rule("tenant.read", tenant=False),
            "ListTenants": Rule("tenant.read", tenant=False),
            "UpdateTenant": Rule("tenant.write", tenant=False),
            "DeleteTenant": Rule("tenant.own", tenant=False),
            "UndeleteTenant": operator,
            "GetDeletion": operator,
            "ListDeletions": operator,
            "TransferOwnership": Rule("tenant.own"),
            "AddMember": Rule(OPERATOR),
            "GetMember": Rule("members.read"),
            "ListMembers": Rule("members.read"),
            "ListInvitations": Rule("members.read"),
            "UpdateMember": Rule("members.write"),
            "RemoveMember": Rule("members.write"),
            "CreateInvitation": Rule("members.write"),
            "RevokeInvitation": Rule("members.write"),
            "LeaveTenant": Rule(ACCOUNT),
            "AcceptInvitation": account,
            "CreateAgent": Rule("tenant.write"),
            "UpdateAgent": Rule("tenant.write"),
            "DeleteAgent": Rule("tenant.write"),
            "UndeleteAgent": Rule("tenant.write"),
            "PurgeAgent": Rule("tenant.write"),
            "CreateTool": Rule("tenant.write"),
            "UpdateTool": Rule("tenant.write"),
            "DeleteTool": Rule("tenant.write"),
            "UndeleteTool": Rule("tenant.write"),
            "PurgeTool": Rule("tenant.write"),
            "AttachTool": Rule("tenant.write"),
            "DetachTool": Rule("tenant.write"),
            "UpdatePolicy": Rule("tenant.write"),
            "GetAgent": Rule("tenant.read"),
            "ListAgents": Rule("tenant.read"),
            "GetTool": Rule("tenant.read"),
            "ListTools": Rule("tenant.read"),
            "GetPolicy": Rule("tenant.read"),
            "CreateSubject": Rule("subject.write"),
            "UpdateSubject": Rule("subject.write"),
            "DeleteSubject": Rule("subject.write"),
            "UndeleteSubject": Rule("subject.write"),
            "PurgeSubject": Rule("subject.write"),
            "GetSubject": Rule("subject.read"),
            "ListSubjects": Rule("subject.read"),
            # Without a tenant, an operator names an organization.
            "GetQuota": Rule("tenant.read", tenant=False),
            "GetUsage": Rule("tenant.read", tenant=False),
            "UpdateQuota": operator,
        },
        "skein.tenancy.v1.UpkeepService": {
            "GetStanding": auth,
            "CheckInvitation": auth,
            "RemoveAccount": auth,
            "ListDueDeletions": worker_anywhere,
            "RecordDeletion": worker_anywhere,
            # Called by the gateway in the name of whoever calls it.
            "LeaseRequests": Rule(tenant=False),
            "PurgeTenant": purge,
            "CollectUsage": worker,
            "DeleteExpired": worker,
        },
        "skein.session.v1.SessionService": {
            "CreateSession": Rule("session.write"),
            "GetSession": Rule("session.read"),
            "ListSessions": Rule("session.read"),
            "UpdateSession": Rule("session.write"),
            "EndSession": Rule("session.write"),
            "ArchiveSession": Rule("session.write"),
            "UnarchiveSession": Rule("session.write"),
            "SummarizeSession": Rule("session.write"),
            "DeleteSession": Rule("session.write"),
            "AppendMessages": Rule("session.write"),
            "GetMessage": Rule("session.read"),
            "StreamMessages": Rule("session.read"),
            "ListMessages": Rule("session.read"),
            "ListAgentMessages": Rule("session.read"),
            "GetRecentWindow": Rule("session.read"),
            "SearchMessages": Rule("session.read"),
            "UpdateMessage": Rule("session.write"),
            "DeleteMessage": Rule("session.write"),
            "PutAgentState": Rule("session.write"),
            "GetAgentState": Rule("session.read"),
            "ListAgentStates": Rule("session.read"),
            "DeleteAgentState": Rule("session.write"),
            "PutItem": Rule("session.write"),
            "GetItem": Rule("session.read"),
            "ListItems": Rule("session.read"),
            "DeleteItem": Rule("session.write"),
            "PurgeSession": Rule("session.write"),
            "PurgeMessages": Rule("session.write"),
            "PurgeSubject": Rule("session.write"),
            # It shows what was deleted too.
            "ExportSubject": Rule("session.write"),
            "StoreSession": Rule("session.write"),
            "RestoreSession": Rule("session.write"),
            "ListStoredSessions": Rule("session.read"),
        },
        "skein.session.v1.UpkeepService": {
            **dict.fromkeys(("DeleteExpired", "EndIdleSessions", "InheritParticipants", "StoreArchived"), worker),
            "EnsurePartitions": worker_anywhere,
            "PurgeTenant": purge,
        },
        "skein.memory.v1.MemoryService": {
            "CreateMemory": Rule("memory.write"),
            "BatchCreateMemories": Rule("memory.write"),
            "GetMemory": Rule("memory.read"),
            "BatchGetMemories": Rule("memory.read"),
            "ListMemories": Rule("memory.read"),
            "UpdateMemory": Rule("memory.write"),
            "DeleteMemory": Rule("memory.write"),
            "RestoreMemory": Rule("memory.write"),
            "ExplainScore": Rule("memory.read"),
            "Reinforce": Rule("memory.write"),
            "Decay": Rule("memory.write"),
            "Merge": Rule("memory.write"),
            "Consolidate": Rule("memory.write"),
            "ListMemoryVersions": Rule("memory.read"),
            "ExportMatching": Rule("memory.read"),
            "PurgeMemories": Rule("memory.write"),
            "ForgetMemories": Rule("memory.write"),
            "ListMemoryTypes": Rule("memory.read"),
            "RevealSecret": Rule("secrets.read"),
            "RotateTenantKey": Rule("tenant.write"),
            "PromoteMemory": Rule("memory.write"),
            "DemoteMemory": Rule("memory.write"),
            "ListTasks": Rule("memory.read"),
            "ListObjectives": Rule("memory.read"),
            "ListNextActions": Rule("memory.read"),
            "UpdateTaskStatus": Rule("memory.write"),
            "CompleteTask": Rule("memory.write"),
            "ReopenTask": Rule("memory.write"),
            "SetObjective": Rule("memory.write"),
        },
        "skein.memory.v1.LinkService": {
            "CreateLink": Rule("memory.write"),
            "BatchCreateLinks": Rule("memory.write"),
            "UpsertLink": Rule("memory.write"),
            "UpdateLink": Rule("memory.write"),
            "DeleteLink": Rule("memory.write"),
            "GetLink": Rule("memory.read"),
            "ListLinks": Rule("memory.read"),
            "Traverse": Rule("memory.read"),
            "GetSubgraph": Rule("memory.read"),
            "FindPaths": Rule("memory.read"),
            "Activate": Rule("memory.read"),
            "SuggestLinks": Rule("memory.read"),
        },
        "skein.memory.v1.CurationService": {
            "SetSourceTrust": Rule("memory.write"),
            "GetSourceTrust": Rule("memory.read"),
            "ListSourceTrust": Rule("memory.read"),
            "DeleteSourceTrust": Rule("memory.write"),
            "ListConflicts": Rule("memory.read"),
            "ResolveConflict": Rule("memory.write"),
            "ListConflictResolutions": Rule("memory.read"),
            "ResolveEntity": Rule("memory.write"),
            "GetCanonical": Rule("memory.read"),
            "ListAliases": Rule("memory.read"),
            "RemoveAlias": Rule("memory.write"),
            "GetReviewQueue": Rule("memory.read"),
            "GetTemporalClusters": Rule("memory.read"),
            "GetStatistics": Rule("memory.read"),
        },
        "skein.memory.v1.BlockService": {
            "CreateBlock": Rule("memory.write"),
            "CreateBlockFromTemplate": Rule("memory.write"),
            "GetBlock": Rule("memory.read"),
            "ListBlocks": Rule("memory.read"),
            "UpdateBlock": Rule("memory.write"),
            "DeleteBlock": Rule("memory.write"),
            "RestoreBlock": Rule("memory.write"),
            "PurgeBlock": Rule("memory.write"),
            "AppendToBlock": Rule("memory.write"),
            "ReplaceInBlock": Rule("memory.write"),
            "InsertIntoBlock": Rule("memory.write"),
            "AttachBlock": Rule("memory.write"),
            "DetachBlock": Rule("memory.write"),
            "ListBlockAgents": Rule("memory.read"),
            "ListAgentBlocks": Rule("memory.read"),
            "CompileBlocks": Rule("memory.read"),
            "ListBlockRevisions": Rule("memory.read"),
            "RevertBlock": Rule("memory.write"),
        },
        "skein.memory.v1.HistoryService": {
            "ListChanges": Rule("memory.read"),
            "WatchChanges": Rule("memory.read"),
            # What leaves the cluster is the tenant's administration's to say.
            "CreateWatch": Rule("tenant.write"),
            "UpdateWatch": Rule("tenant.write"),
            "DeleteWatch": Rule("tenant.write"),
            "RotateWatchSecret": Rule("tenant.write"),
            "TestWatch": Rule("tenant.write"),
            "RetryDelivery": Rule("tenant.write"),
            "GetWatch": Rule("memory.read"),
            "ListWatches": Rule("memory.read"),
            "ListDeliveries": Rule("memory.read"),
            "ListAccessLog": Rule("audit.read"),
            "CreateArchive": Rule("tenant.write"),
            "RestoreArchive": Rule("tenant.write"),
            "ListArchives": Rule("memory.read"),
        },
        "skein.memory.v1.SnapshotService": {
            "CreateSnapshot": Rule("memory.write"),
            "GetSnapshot": Rule("memory.read"),
            "ListSnapshots": Rule("memory.read"),
            "DiffSnapshots": Rule("memory.read"),
            "RestoreSnapshot": Rule("memory.write"),
            "DeleteSnapshot": Rule("memory.write"),
            "ExportData": Rule("memory.read"),
            "ImportData": Rule("memory.write"),
        },
        "skein.memory.v1.UpkeepService": {
            **dict.fromkeys(("ContinueSnapshots", "DeleteExpired", "DecayMemories", "ReindexMemories"), worker),
            **dict.fromkeys(("DeliverWebhooks", "ArchiveIdle", "ApplyRetention"), worker),
            "EnsurePartitions": worker_anywhere,
            "PurgeTenant": purge,
        },
        "skein.recall.v1.RecallService": {
            "Recall": Rule("recall.read"),
            "FindSimilar": Rule("recall.read"),
            "EmbedText": Rule("recall.read"),
            "ListEmbeddingModels": Rule("recall.read", tenant=False),
            "RegisterEmbeddingModel": operator,
            "PutEmbedding": Rule("memory.write"),
            "BatchGetIndexStates": Rule("recall.read"),
            "StartReindex": operator,
            "GetReindex": operator,
            "ListReindexes": operator,
            "CancelReindex": operator,
            "CompareModels": operator,
            "SetActiveModel": operator,
            "DropModel": operator,
        },
        "skein.recall.v1.IndexService": {
            # Called by memory and session in the name of whoever wrote the items.
            "IndexItems": Rule(),
            "IndexBacklog": worker,
            "ListDueReindexes": worker_anywhere,
            "ContinueReindex": worker,
            "PurgeTenant": purge,
        },
        "skein.gateway.v1.GatewayService": {
            # Each part is checked again by the service that does it.
            "Remember": Rule(),
            "Recall": Rule("recall.read"),
            "BuildContext": Rule("recall.read"),
            "Forget": Rule(),
            "GetClusterStatus": Rule(tenant=False),
        },
    }
    return {f"/{service}/{method}": rule for service, methods in table.items() for method, rule in methods.items()}


RULES: Mapping[str, Rule] = _rules()
# What the gateway offers to the world; every other service is internal.
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
