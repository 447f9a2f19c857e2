"""HTTP headers of errors: www-authenticate (RFC 6750, RFC 9728) and retry-after, and the details of a status."""

from __future__ import annotations

import math

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from skein_kit.errors import status_code, status_reason
from skein_kit.identity.permissions import ACCESS_RULES, TENANT_PERMISSIONS
from skein_kit.violations import unstated_violations

# Document that names the authorization server of the API.
RESOURCE_PATH = "/.well-known/oauth-protected-resource"


def error_headers(
    status: Status, path: str, issuer: str, *, has_credential: bool, resource: str = ""
) -> dict[str, str]:
    """Return the headers of a failed call of `path`. An empty `issuer` leaves out the resource metadata.

    `resource` is the resource's path below the issuer; empty for the API.
    """
    code = status_code(status)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        error = "invalid_token" if has_credential else ""
        # Clients request the scope in the challenge, so it is only what this call needs.
        return {"www-authenticate": bearer(issuer, error=error, scope=scope_of(path), resource=resource)}
    if code is grpc.StatusCode.PERMISSION_DENIED and status_reason(status) == "PERMISSION_MISSING":
        scope = metadata_of(status).get("permission", "")
        return {"www-authenticate": bearer(issuer, error="insufficient_scope", scope=scope, resource=resource)}
    if code in {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}:
        return retry_after(status)
    return {}


def bearer(issuer: str, *, error: str = "", scope: str = "", resource: str = "") -> str:
    """Return the Bearer challenge of a resource, given by its path below the issuer."""
    parts = [
        f'error="{error}"' if error else "",
        f'scope="{scope}"' if scope else "",
        f'resource_metadata="{issuer}{RESOURCE_PATH}{resource}"' if issuer else "",
    ]
    return " ".join(("Bearer", ", ".join(part for part in parts if part))).strip()


def scope_of(path: str) -> str:
    """Return the scope of a method; empty when it needs none, or one that applications cannot have."""
    rule = ACCESS_RULES.get(path)
    permission = "" if rule is None else rule.permission or ""
    return permission if permission in TENANT_PERMISSIONS else ""


def retry_after(status: Status) -> dict[str, str]:
    """Return Retry-After in whole seconds if the status has a RetryInfo."""
    info = error_details_pb2.RetryInfo()
    if not _unpack(status, info):
        return {}
    seconds = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return {"retry-after": str(max(1, math.ceil(seconds)))}


def metadata_of(status: Status) -> dict[str, str]:
    """Return the ErrorInfo metadata of a status."""
    info = error_details_pb2.ErrorInfo()
    return dict(info.metadata) if _unpack(status, info) else {}


def violations_of(status: Status) -> str:
    """Return the field violations on one line; empty without any."""
    return "; ".join(f"{field} {description}".strip() for field, description in violations_in(status))


def unstated_violations_in(status: Status) -> list[tuple[str, str]]:
    """Return the field violations that the status message does not mention."""
    return unstated_violations(status.message, violations_in(status))


def violations_in(status: Status) -> list[tuple[str, str]]:
    """Return the field violations as field and description."""
    bad = error_details_pb2.BadRequest()
    if not _unpack(status, bad):
        return []
    return [(violation.field, violation.description) for violation in bad.field_violations]


def _unpack(status: Status, into: Message) -> bool:
    return any(detail.Unpack(into) for detail in status.details)
