"""Errors of the tenancy service."""

from __future__ import annotations

from skein_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)


class OrganizationNotFound(NotFound):
    """No such organization."""

    reason = "ORGANIZATION_NOT_FOUND"


class TenantNotFound(NotFound):
    """No such tenant is visible to the caller."""

    reason = "TENANT_NOT_FOUND"


class AgentNotFound(NotFound):
    """The tenant has no such agent."""

    reason = "AGENT_NOT_FOUND"


class MemoryNotFound(NotFound):
    """No such memory is visible to the caller."""

    reason = "MEMORY_NOT_FOUND"


class SpaceExists(AlreadyExists):
    """Another space of the tenant has this name."""

    reason = "SPACE_EXISTS"


class SpaceNotEmpty(FailedPrecondition):
    """The space has grants, snapshots, or memories, deleted ones included."""

    reason = "SPACE_NOT_EMPTY"


class SpacesFull(ResourceExhausted):
    """There may be {limit} spaces of a tenant, and as many grants of a principal as an identity has room for."""

    reason = "SPACES_FULL"


class SpaceGrantNotFound(NotFound):
    """The principal has no grant of this space."""

    reason = "SPACE_GRANT_NOT_FOUND"


class OrganizationExists(AlreadyExists):
    """Another organization has this slug; choose a new one, or leave it empty to get one."""

    reason = "ORGANIZATION_EXISTS"


class TenantExists(AlreadyExists):
    """Another tenant of the organization has this slug; choose a new one, or leave it empty to get one."""

    reason = "TENANT_EXISTS"


class AgentExists(AlreadyExists):
    """The tenant has an agent with this id; choose a new one, or leave it empty to get one."""

    reason = "AGENT_EXISTS"


class AgentDeleted(AlreadyExists):
    """A deleted agent has this id; bring it back with UndeleteAgent, or free the id with PurgeAgent."""

    reason = "AGENT_DELETED"


class DeletionStarted(FailedPrecondition):
    """The purge of the tenant has begun, so it cannot be undeleted."""

    reason = "DELETION_STARTED"


class SubjectNotFound(NotFound):
    """The tenant has no such subject."""

    reason = "SUBJECT_NOT_FOUND"


class SubjectExists(AlreadyExists):
    """The tenant has a subject with this id; choose a new one, or leave it empty to get one."""

    reason = "SUBJECT_EXISTS"


class SubjectDeleted(AlreadyExists):
    """A deleted subject has this id; bring it back with UndeleteSubject, or free the id with PurgeSubject."""

    reason = "SUBJECT_DELETED"


class ToolNotFound(NotFound):
    """The tenant has no such tool."""

    reason = "TOOL_NOT_FOUND"


class ToolExists(AlreadyExists):
    """The tenant has a tool with this id or this name; choose a new one."""

    reason = "TOOL_EXISTS"


class ToolDeleted(AlreadyExists):
    """A deleted tool has this id or this name; bring it back with UndeleteTool, or free both with PurgeTool."""

    reason = "TOOL_DELETED"


class JsonSchemaInvalid(InvalidArgument):
    """The document is not a JSON Schema."""

    reason = "JSON_SCHEMA_INVALID"


class PolicyFieldUnknown(InvalidArgument):
    """No policy has such a field."""

    reason = "POLICY_FIELD_UNKNOWN"


class EmbeddingModelNotOffered(FailedPrecondition):
    """The operator offers no such embedding model. Choose one of offered_models, or none: the cluster's.

    The operator offers a registered model by OfferEmbeddingModel.
    """

    reason = "EMBEDDING_MODEL_NOT_OFFERED"


class OrganizationNotEmpty(FailedPrecondition):
    """The organization still has tenants; delete them first."""

    reason = "ORGANIZATION_NOT_EMPTY"


class MemberNotFound(NotFound):
    """The account is no member of the tenant."""

    reason = "MEMBER_NOT_FOUND"


class MemberExists(AlreadyExists):
    """The account is a member of the tenant; change its role instead."""

    reason = "MEMBER_EXISTS"


class LastOwner(FailedPrecondition):
    """The tenant would be left without an owner; transfer the ownership first."""

    reason = "LAST_OWNER"


class RoleTooLow(PermissionDenied):
    """The role is above your own; ask a member with at least that role to give, take or change it."""

    reason = "ROLE_TOO_LOW"


class InvitationNotFound(NotFound):
    """No such open invitation for this address."""

    reason = "INVITATION_NOT_FOUND"
