"""Who may call what: one table for the whole cluster. A method without a row here does not start.

Permissions are what API keys carry. `operator` and `system` are held by the operator's keys and by the cluster's own
services; no key of a tenant can be given them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.errors import PermissionMissing, TenantMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skein_kit.identity import Caller

OPERATOR = "operator"
SYSTEM = "system"
# What a tenant's key can be given.
TENANT_PERMISSIONS = frozenset(
    {
        "memory.read",
        "memory.write",
        "session.read",
        "session.write",
        "recall.read",
        "tenant.read",
        "tenant.write",
        "keys.read",
        "keys.write",
    }
)
OPERATOR_PERMISSIONS = TENANT_PERMISSIONS | {OPERATOR}
# The internal RPCs, and which tenants there are: a stolen token of the worker reads no content and makes no key.
SYSTEM_PERMISSIONS = frozenset({SYSTEM, "tenant.read"})


@dataclass(frozen=True, slots=True)
class Rule:
    """What a caller needs: nothing at all (public), any credential (None), or one of these permissions."""

    permission: str | None = None
    # The call acts inside one tenant, so the caller must belong to one.
    tenant: bool = True
    public: bool = False

    def check(self, caller: Caller) -> None:
        """Refuse a caller that lacks the permission or the tenant."""
        if self.permission is not None and self.permission not in caller.permissions:
            raise PermissionMissing(permission=self.permission)
        if self.tenant and caller.tenant_id is None:
            raise TenantMissing


def _rules() -> dict[str, Rule]:
    anybody = Rule(public=True, tenant=False)
    operator = Rule(OPERATOR, tenant=False)
    table: dict[str, dict[str, Rule]] = {
        "skein.auth.v1.AuthService": {
            "GetMe": Rule(tenant=False),
            "CreateApiKey": Rule("keys.write"),
            "ListApiKeys": Rule("keys.read"),
            "RevokeApiKey": Rule("keys.write"),
            "Introspect": Rule("keys.read"),
            "ListSigningKeys": anybody,
            "RotateSigningKey": operator,
        },
        "skein.auth.v1.IdentityService": {
            "Exchange": anybody,
            "DeleteExpired": Rule(SYSTEM),
        },
        "skein.tenancy.v1.TenancyService": {
            "CreateOrganization": operator,
            "GetOrganization": operator,
            "ListOrganizations": operator,
            "UpdateOrganization": operator,
            "DeleteOrganization": operator,
            "CreateTenant": operator,
            "GetTenant": Rule("tenant.read", tenant=False),
            "ListTenants": Rule("tenant.read", tenant=False),
            "UpdateTenant": Rule("tenant.write", tenant=False),
            "DeleteTenant": operator,
            "CreateAgent": Rule("tenant.write"),
            "GetAgent": Rule("tenant.read"),
            "ListAgents": Rule("tenant.read"),
            "UpdateAgent": Rule("tenant.write"),
            "DeleteAgent": Rule("tenant.write"),
        },
        "skein.session.v1.SessionService": {
            "CreateSession": Rule("session.write"),
            "GetSession": Rule("session.read"),
            "ListSessions": Rule("session.read"),
            "UpdateSession": Rule("session.write"),
            "EndSession": Rule("session.write"),
            "DeleteSession": Rule("session.write"),
            "AppendMessages": Rule("session.write"),
            "GetMessage": Rule("session.read"),
            "ListMessages": Rule("session.read"),
            "SearchMessages": Rule("session.read"),
            "DeleteMessage": Rule("session.write"),
        },
        "skein.session.v1.UpkeepService": {
            "EnsurePartitions": Rule(SYSTEM, tenant=False),
            "DeleteExpired": Rule(SYSTEM),
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
        },
        "skein.memory.v1.LinkService": {
            "CreateLink": Rule("memory.write"),
            "DeleteLink": Rule("memory.write"),
            "ListLinks": Rule("memory.read"),
        },
        "skein.memory.v1.UpkeepService": {
            "EnsurePartitions": Rule(SYSTEM, tenant=False),
            "DeleteExpired": Rule(SYSTEM),
        },
        "skein.recall.v1.RecallService": {
            "Recall": Rule("recall.read"),
            "EmbedText": Rule("recall.read"),
            "ListEmbeddingModels": Rule("recall.read", tenant=False),
            "RegisterEmbeddingModel": operator,
        },
        "skein.recall.v1.IndexService": {
            # Called by memory and session in the name of whoever wrote the items.
            "IndexItems": Rule(),
            "IndexBacklog": Rule(SYSTEM),
        },
        "skein.gateway.v1.GatewayService": {
            # Each part is checked again by the service that does it.
            "Remember": Rule(),
            "Recall": Rule("recall.read"),
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
    "skein.recall.v1.RecallService": "recall",
}
