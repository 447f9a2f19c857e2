"""Refusals of the tenancy service."""

from __future__ import annotations

from skein_kit.errors import AlreadyExists, FailedPrecondition, NotFound


class OrganizationNotFound(NotFound):
    """No such organization."""

    reason = "ORGANIZATION_NOT_FOUND"


class TenantNotFound(NotFound):
    """No such tenant is visible to the caller."""

    reason = "TENANT_NOT_FOUND"


class AgentNotFound(NotFound):
    """The tenant has no such agent."""

    reason = "AGENT_NOT_FOUND"


class OrganizationExists(AlreadyExists):
    """Another organization has this slug; choose a new one, or leave it empty to get one."""

    reason = "ORGANIZATION_EXISTS"


class TenantExists(AlreadyExists):
    """Another tenant of the organization has this slug; choose a new one, or leave it empty to get one."""

    reason = "TENANT_EXISTS"


class AgentExists(AlreadyExists):
    """The tenant has an agent with this id; choose a new one, or leave it empty to get one."""

    reason = "AGENT_EXISTS"


class OrganizationNotEmpty(FailedPrecondition):
    """The organization still has tenants; delete them first."""

    reason = "ORGANIZATION_NOT_EMPTY"
