"""Errors of RPCs as titles and messages for users of the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from skein_gateway.connect import codec
from skein_gateway.identity import challenges
from skein_gateway.oauth.request_handler import status_of
from skein_kit.errors import status_code, status_reason
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS
from skein_kit.violations import strip_violations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from typing import TypeVar

    from google.rpc.status_pb2 import Status

    Reply = TypeVar("Reply")

_TITLES: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.NOT_FOUND: "Not found",
    grpc.StatusCode.PERMISSION_DENIED: "Not allowed",
    grpc.StatusCode.ABORTED: "Changed in the meantime",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "Limit reached",
    grpc.StatusCode.UNAVAILABLE: "Not available",
    grpc.StatusCode.DEADLINE_EXCEEDED: "Timed out",
    grpc.StatusCode.INTERNAL: "Internal error",
    grpc.StatusCode.DATA_LOSS: "Damaged data",
}
_MESSAGES = {
    "TENANT_NOT_FOUND": "This tenant does not exist, or you are not a member of it.",
    "MEMORY_NOT_FOUND": "This memory does not exist in this tenant. It may have been purged.",
    "BLOCK_NOT_FOUND": "This block does not exist in this tenant. Look for it in the list of blocks.",
    "WEBHOOK_NOT_FOUND": "This webhook does not exist in this tenant. Look for it in the list of webhooks.",
    "DELIVERY_NOT_FOUND": "This delivery does not exist, or arrived already. Reload the page.",
    "MEMBER_NOT_FOUND": "This person is no member any more. Reload the page.",
    "INVITATION_NOT_FOUND": "This invitation is no longer open. Reload the page.",
    "ERASURE_CERTIFICATE_NOT_FOUND": "This certificate does not exist in this tenant. Look for it in the list.",
    "SESSION_NOT_FOUND": "This session does not exist in this tenant.",
    "RECEIPT_NOT_FOUND": "There is no such receipt, or it is of an answer to another caller. "
    "A new one is stored within a second after its answer: reload the page then.",
    "RECEIPT_ALTERED": "The stored receipt is not the one that was signed. It proves nothing.",
    "QUERY_TEXT_MISMATCH": "This is not the text of the query: its digest differs from that of the receipt.",
    "REVISION_STALE": "This was changed after you opened the page. Nothing was saved: reload the page and try again.",
    "PAGE_TOKEN_INVALID": "This page of the list is no longer valid. Start again at the first page.",
    "RATE_LIMITED": "Too many calls, of yours or of this tenant. Wait a moment, then try again.",
    "OVERLOADED": "The cluster is overloaded. Wait a moment, then try again.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PageError:
    """An error as a page shows it."""

    title: str
    text: str
    # HTTP status of a page that shows only this error.
    status: int
    reason: str = ""


def page_error(status: Status) -> PageError:
    """Return the error of a status. It names an unavailable service and a missing permission."""
    code, reason, metadata = status_code(status), status_reason(status), challenges.metadata_of(status)
    http_status, _ = codec.error(status)
    text = _MESSAGES.get(reason, status.message)
    if reason == "SERVICE_UNAVAILABLE" and metadata.get("service"):
        text = f"The service “{metadata['service']}” is unavailable, so its data cannot be shown. Try again soon."
    elif reason == "PERMISSION_MISSING":
        permission = metadata.get("permission", "")
        meaning = f" ({PERMISSION_DESCRIPTIONS[permission]})" if permission in PERMISSION_DESCRIPTIONS else ""
        text = f"You need the permission {permission}{meaning}."
    violations = challenges.violations_of(status)
    if violations:
        text = strip_violations(text, challenges.violations_in(status))
        text = f"{text.removesuffix('.')}: {violations}."
    # 401 would ask for an authorization header, which browsers do not send here.
    page_status = 403 if code is grpc.StatusCode.UNAUTHENTICATED else http_status
    return PageError(title=_TITLES.get(code, "Request failed"), text=text, status=page_status, reason=reason)


def page_error_of(error: Exception) -> PageError:
    """Return the error of a failed RPC. Raises any other exception again."""
    status = status_of(error)
    if status is None:
        raise error
    return page_error(status)


async def or_page_error(rpc: Awaitable[Reply]) -> Reply | PageError:
    """Await an RPC and return its response, or its error for the page to show. Raises other exceptions."""
    try:
        return await rpc
    except Exception as error:  # noqa: BLE001 - page_error_of raises unexpected errors again.
        return page_error_of(error)
