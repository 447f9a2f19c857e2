"""Who may call each method: the permission that it declares in the proto. A method that declares none cannot start.

API keys and access tokens carry permissions (scopes in OAuth). The role of a member implies permissions too. No
tenant's key and no application can get three of them. Only operator keys have `operator`, only services of the cluster
have `system`, and only people who logged in have `account`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from skein.options.v1 import options_pb2 as pb
from skein_kit.errors import (
    AccountRequired,
    AgentBound,
    PermissionMissing,
    SpacesUnsupported,
    TenantMissing,
    TenantNotDeleted,
    TenantNotFound,
)
from skein_kit.identity import space_reach
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_kit.rpc.declarations import is_write, method_rule, paths

# Operators manage organizations, tenants, accounts, quotas, models and signing keys. They act in the tenant that the
# metadata key skein-tenant-id names.
OPERATOR = "operator"
# Services of the cluster call internal RPCs for a tenant.
SYSTEM = "system"
# An extractor of facts reads the messages of its lease, adds memories and ends its own. No key has it, nor the system.
EXTRACT = "extract"
# A logged-in person manages the account and its auth sessions, and gives consent. No key and no application has it.
ACCOUNT = "account"
# Operators make new tenants, and people do where SKEIN_ACCOUNTS_CREATE_TENANTS is on.
CREATE_TENANT = "tenant.create"
# What sets the trust in sources. An agent that may write memories does not rate itself.
RATE_SOURCES = "tenant.write"

# Permissions of each role of a tenant; each role includes those of the lower ones.
_VIEWER = frozenset({"memory.read", "session.read", "recall.read", "subject.read", "tenant.read", "spaces.read"})
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
    "spaces.write",
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
    "spaces.read": "See the spaces of the tenant that it may see",
    "spaces.write": "Make spaces and say who sees them",
    "secrets.read": "See the secrets that are kept among the memories",
    "tenant.own": "Delete the tenant or pass it on",
}
# Permissions that a key of a tenant may have.
TENANT_PERMISSIONS = frozenset(PERMISSION_DESCRIPTIONS)
# What remembering and recalling need: the permissions of an agent's credential for which none is named.
AGENT_PERMISSIONS = frozenset({"memory.read", "memory.write", "recall.read", "session.read", "session.write"})
OPERATOR_PERMISSIONS = TENANT_PERMISSIONS | {OPERATOR, CREATE_TENANT}
# Internal RPCs and the list of tenants: a stolen token of the worker reads no content and creates no key.
SYSTEM_PERMISSIONS = frozenset({SYSTEM, "tenant.read"})
# memory.read, because a write may return the fact that has its key.
EXTRACTOR_PERMISSIONS = frozenset({EXTRACT, "memory.read"})
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


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The requirement of a method: none (public), any credential (permission None), or one permission."""

    permission: str | None = None
    # The method acts within one tenant, so the caller must have one.
    needs_tenant: bool = True
    is_public: bool = False
    # The method purges a deleted tenant. Every other method requires one that is not deleted.
    allows_deleted_tenant: bool = False
    # The services that may call; empty: no such limit.
    services: frozenset[str] = frozenset()
    # The method reads or writes what all agents of the tenant have: no credential that is bound to one may call it.
    for_all_agents: bool = False
    # Where a request names the agent that it acts as, such as "memories.agent_id".
    agent_field: str = ""
    # An extractor of facts may call without the permission.
    for_extractors: bool = False
    # Which items the method reaches in a tenant with spaces.
    spaces: pb.SpaceRule = pb.SPACE_RULE_UNSPECIFIED
    # The method changes something, and so acts in one space.
    is_write: bool = False

    def check_service(self, services: frozenset[str]) -> None:
        """Raise PermissionMissing unless the calling process proved that it is one of the services that may call."""
        if self.services and self.services.isdisjoint(services):
            raise PermissionMissing(permission=" or ".join(f"{SYSTEM}:{name}" for name in sorted(self.services)))

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
        is_extractor = self.for_extractors and EXTRACT in caller.permissions
        if self.permission is not None and self.permission not in caller.permissions and not is_extractor:
            raise AccountRequired if self.permission == ACCOUNT else PermissionMissing(permission=self.permission)
        if self.permission == SYSTEM and caller.principal.removeprefix(f"{SYSTEM}:") not in self.services:
            raise PermissionMissing(permission=" or ".join(f"{SYSTEM}:{name}" for name in sorted(self.services)))
        if self.needs_tenant and caller.tenant_id is None:
            raise TenantMissing
        if self.for_all_agents and caller.agent_id:
            raise AgentBound(agent_id=caller.agent_id)
        if caller.is_tenant_deleted and not self.allows_deleted_tenant:
            raise TenantNotFound
        if self.allows_deleted_tenant and not caller.is_tenant_deleted:
            raise TenantNotDeleted

    def check_reach(self, caller: Caller, named: str) -> None:
        """Raise the errors of `check`, and of a call in the space that it names."""
        self.check(caller)
        self.space_ids(caller, named)

    def space_ids(self, caller: Caller, named: str = "") -> tuple[UUID, ...] | None:
        """Return the spaces that a call reaches, which may name one; None: the default one, in a tenant without others.

        Raises SpacesUnsupported for a caller of a tenant with spaces where the method does not keep to them, and the
        errors of skein_kit.identity.space_reach.
        """
        if self.spaces == pb.SPACE_RULE_WALLED:
            return space_reach.walled_reach(caller, named, is_write=self.is_write)
        if self.spaces == pb.SPACE_RULE_DEFAULT:
            return space_reach.default_reach(caller, named)
        if self.spaces == pb.SPACE_RULE_ALL:
            return space_reach.whole_reach(caller, named)
        space_reach.check_named(caller, named)
        if caller.spaces is None:
            return None
        if self.permission in {SYSTEM, EXTRACT}:
            # The worker acts in one space at a time, which its token names.
            return tuple(space_id for space_id, _ in caller.spaces)
        is_of_tenant = self.permission is None or self.permission in TENANT_PERMISSIONS
        if is_of_tenant and self.spaces != pb.SPACE_RULE_NO_ITEMS:
            raise SpacesUnsupported
        return ()

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


def may_rate_sources(caller: Caller, space_ids: Sequence[UUID] | None) -> bool:
    """Return whether a call that reaches some spaces may set ratings, which hold in all of them."""
    return RATE_SOURCES in caller.permissions and (space_ids is None or DEFAULT_SPACE in space_ids)


def _rule_of(path: str) -> AccessRule:
    declared = method_rule(path)
    if "InternalService/" in path and not declared.only_service:
        message = f"{path} does not declare which service may call it: add only_service to its (skein.options.v1.rule)."
        raise LookupError(message)
    return AccessRule(
        declared.permission or None,
        needs_tenant=not (declared.without_tenant or declared.public),
        is_public=declared.public,
        allows_deleted_tenant=declared.in_deleted_tenant,
        services=frozenset({declared.only_service, *declared.more_services} - {""}),
        for_all_agents=declared.for_all_agents,
        agent_field=declared.agent_field,
        for_extractors=declared.for_extractors,
        spaces=declared.spaces,
        is_write=is_write(path),
    )


class _AccessRules(Mapping[str, AccessRule]):
    """The access rule of every method, made from its declaration when it is first asked for."""

    def __init__(self) -> None:
        self._rules: dict[str, AccessRule] = {}

    def __getitem__(self, path: str) -> AccessRule:
        rule = self._rules.get(path)
        if rule is None:
            try:
                rule = self._rules[path] = _rule_of(path)
            except LookupError as error:
                raise KeyError(*error.args) from None
        return rule

    def __iter__(self) -> Iterator[str]:
        return paths()

    def __len__(self) -> int:
        return sum(1 for _ in paths())


ACCESS_RULES: Mapping[str, AccessRule] = _AccessRules()
