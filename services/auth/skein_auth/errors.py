"""Refusals of the auth service."""

from __future__ import annotations

from skein_kit.errors import NotFound, PermissionDenied


class PermissionWidened(PermissionDenied):
    """An API key cannot carry more than its creator has."""

    reason = "PERMISSION_WIDENED"


class ApiKeyNotFound(NotFound):
    """The tenant has no such API key."""

    reason = "API_KEY_NOT_FOUND"


class TenantNotFound(NotFound):
    """No such tenant."""

    reason = "TENANT_NOT_FOUND"
