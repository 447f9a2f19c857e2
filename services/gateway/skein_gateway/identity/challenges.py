"""What HTTP adds to a refusal: who must show what to whom (RFC 6750, RFC 9728), and when to come back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import grpc
from google.rpc import error_details_pb2

from skein_kit.errors import reason_of, status_code
from skein_kit.identity.permissions import ACCESS_RULES, TENANT_PERMISSIONS
from skein_kit.violations import unstated_violations

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from google.rpc.status_pb2 import Status

# Where a client of the API learns which authorization server it needs.
RESOURCE_PATH = "/.well-known/oauth-protected-resource"


def error_headers(
    status: Status, path: str, issuer: str, *, has_credential: bool, resource: str = ""
) -> dict[str, str]:
    """Return the headers that go with the refusal of a method; an empty `issuer` leaves out where tokens come from.

    `resource` is the path of the resource below the issuer; empty for the API.
    """
    code = status_code(status)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        error = "invalid_token" if has_credential else ""
        # Clients that know no better ask for what they are told here, so it is no more than this call needs.
        return {"www-authenticate": bearer(issuer, error=error, scope=scope_of(path), resource=resource)}
    if code is grpc.StatusCode.PERMISSION_DENIED and reason_of(status) == "PERMISSION_MISSING":
        scope = metadata_of(status).get("permission", "")
        return {"www-authenticate": bearer(issuer, error="insufficient_scope", scope=scope, resource=resource)}
    if code in {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}:
        return retry_after(status)
    return {}


def bearer(issuer: str, *, error: str = "", scope: str = "", resource: str = "") -> str:
    """Return the challenge of a resource of the issuer's own, by its path."""
    parts = [
        f'error="{error}"' if error else "",
        f'scope="{scope}"' if scope else "",
        f'resource_metadata="{issuer}{RESOURCE_PATH}{resource}"' if issuer else "",
    ]
    return " ".join(("Bearer", ", ".join(part for part in parts if part))).strip()


def scope_of(path: str) -> str:
    """Return the scope that a method needs; empty for one that needs none, or what no application can have."""
    rule = ACCESS_RULES.get(path)
    permission = "" if rule is None else rule.permission or ""
    return permission if permission in TENANT_PERMISSIONS else ""


def retry_after(status: Status) -> dict[str, str]:
    """Return Retry-After, in whole seconds, if the refusal says when to try again."""
    info = error_details_pb2.RetryInfo()
    if not _found(status, info):
        return {}
    seconds = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return {"retry-after": str(max(1, math.ceil(seconds)))}


def metadata_of(status: Status) -> dict[str, str]:
    """Return the facts of a refusal."""
    info = error_details_pb2.ErrorInfo()
    return dict(info.metadata) if _found(status, info) else {}


def violations_of(status: Status) -> str:
    """Return what is wrong with which field, in one line; empty when the refusal names none."""
    return "; ".join(f"{field} {description}".strip() for field, description in violations_in(status))


def unstated_violations_in(status: Status) -> list[tuple[str, str]]:
    """Return the violations that the message of the status leaves out."""
    return unstated_violations(status.message, violations_in(status))


def violations_in(status: Status) -> list[tuple[str, str]]:
    """Return what is wrong with which field."""
    bad = error_details_pb2.BadRequest()
    if not _found(status, bad):
        return []
    return [(one.field, one.description) for one in bad.field_violations]


def _found(status: Status, kind: Message) -> bool:
    return any(detail.Unpack(kind) for detail in status.details)
