"""What goes wrong, in words for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from skein_gateway.connect import codec
from skein_gateway.identity import challenges
from skein_gateway.oauth.request_handler import status_of
from skein_kit.errors import reason_of, status_code
from skein_kit.identity.permissions import PERMISSION_DESCRIPTIONS
from skein_kit.violations import strip_violations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from typing import TypeVar

    from google.rpc.status_pb2 import Status

    Answer = TypeVar("Answer")

_TITLES: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.NOT_FOUND: "Not found",
    grpc.StatusCode.PERMISSION_DENIED: "Not allowed",
    grpc.StatusCode.ABORTED: "Changed meanwhile",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "Too much",
    grpc.StatusCode.UNAVAILABLE: "Not available",
    grpc.StatusCode.DEADLINE_EXCEEDED: "Too slow",
    grpc.StatusCode.INTERNAL: "Skein failed",
}
_WORDS = {
    "TENANT_NOT_FOUND": "There is no such tenant, or you are no member of it.",
    "MEMORY_NOT_FOUND": "There is no such memory in this tenant. It may have been purged.",
    "SESSION_NOT_FOUND": "There is no such session in this tenant.",
    "REVISION_STALE": "Somebody changed this since you opened the page. Nothing was saved: open it again.",
    "PAGE_TOKEN_INVALID": "This list moved on. Begin again at its first page.",
    "RATE_LIMITED": "More was asked than this tenant or you may ask for now. Wait a moment.",
    "OVERLOADED": "More is asked of the cluster than it can do now. Wait a moment, then try again.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PageError:
    """Why something is not shown, or was not done."""

    title: str
    text: str
    # The HTTP status of a page that shows nothing else.
    status: int
    reason: str = ""


def trouble_of(status: Status) -> PageError:
    """Say a refusal to a person; a service that does not answer is named."""
    code, reason, facts = status_code(status), reason_of(status), challenges.metadata_of(status)
    http, _ = codec.error(status)
    text = _WORDS.get(reason, status.message)
    if reason == "SERVICE_UNAVAILABLE" and facts.get("service"):
        text = f"The service “{facts['service']}” does not answer. What it keeps cannot be shown now; try again soon."
    elif reason == "PERMISSION_MISSING":
        needed = facts.get("permission", "")
        meaning = f" ({PERMISSION_DESCRIPTIONS[needed]})" if needed in PERMISSION_DESCRIPTIONS else ""
        text = f"This needs the permission {needed}{meaning}, which you do not have here."
    named = challenges.violations_of(status)
    if named:
        text = strip_violations(text, challenges.violations_in(status))
        text = f"{text.removesuffix('.')}: {named}."
    # 401 belongs to what is asked for by a header, which a person is not.
    shown = 403 if code is grpc.StatusCode.UNAUTHENTICATED else http
    return PageError(title=_TITLES.get(code, "This did not work"), text=text, status=shown, reason=reason)


def refusal_of(error: BaseException) -> PageError | None:
    """Return what a call was refused with, in words; None for what is no refusal."""
    status = status_of(error)
    return None if status is None else trouble_of(status)


async def attempted(work: Awaitable[Answer]) -> Answer | PageError:
    """Await a part of a page; when it is refused the part says why, and the rest is shown."""
    try:
        return await work
    except Exception as error:
        trouble = refusal_of(error)
        if trouble is None:
            raise
        return trouble
