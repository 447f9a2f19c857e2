"""Pages of lists: size limits, and page tokens that are bound to tenant, caller and request."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.calls.call import current_call
from skein_kit.errors import MessageTooLarge, PageTokenInvalid, ServiceUnavailable
from skein_kit.ids import parse_id
from skein_kit.json_values import fields
from skein_kit.rpc.request_body import MAX_MESSAGE_BYTES

Item = TypeVar("Item", bound=Message)
Row = TypeVar("Row")

DEFAULT_PAGE_SIZE = 50
# A page ends early rather than exceed the default limit of clients (4 MiB).
PAGE_BYTES = 3 * 1024 * 1024
# Digits of an index into an unpaged list.
_MAX_DIGITS = 6
# A list of at most this length is returned whole when the request has no page_size.
MAX_UNPAGED = 1000
_PAGING_FIELDS = frozenset({"page_token", "page_size"})
# Services with paged lists; their database roles may read the key.
SERVICES = frozenset({"auth", "tenancy", "session", "memory", "recall"})
# Of an HMAC-SHA256.
_SIGNATURE_BYTES = 16


def resolve_page_size(requested: int) -> int:
    """Return the page size for a requested one; 0 means the default."""
    return requested or DEFAULT_PAGE_SIZE


def fit_items(items: Iterable[Item], *, used_bytes: int = 0) -> list[Item]:
    """Return the first items that fit one response with `used_bytes` other bytes, but at least one."""
    page: list[Item] = []
    total_bytes = used_bytes
    for item in items:
        total_bytes += item.ByteSize()
        if (page or used_bytes) and total_bytes > PAGE_BYTES:
            break
        page.append(item)
    return page


def fit_rows(
    rows: Sequence[Row],
    convert: Callable[[Row], Item],
    position: Callable[[Row], list[str]],
    request: Message,
    tenant_id: UUID | None,
    *,
    size: int,
) -> tuple[list[Item], str]:
    """Return a page of at most `size` rows, and the token of the next page; empty at the end.

    A row beyond `size` shows that there is a next page. `position` is where the page after a row begins.
    """
    page = fit_items(map(convert, rows[:size]))
    if len(rows) == len(page):
        return page, ""
    return page, write_token(position(rows[len(page) - 1]), tenant_id, request)


def paginate(
    items: Sequence[Item], key: Callable[[Item], str], request: Message, tenant_id: UUID | None, *, size: int
) -> tuple[list[Item], str]:
    """Return one page of a complete list in stable order, and the token of the next page; empty at the end.

    The page starts after the last item of the previous one, or at its index if that item is gone. A page ends early
    rather than exceed the size of a response. Raises PageTokenInvalid.
    """
    token: str = request.page_token  # type: ignore[attr-defined]  # Every list has one.
    start = 0
    if (position := read_token(token, tenant_id, request)) is not None:
        if len(position) != 2 or not position[1].isdecimal() or len(position[1]) > _MAX_DIGITS:  # noqa: PLR2004
            raise PageTokenInvalid
        start = next((index + 1 for index, item in enumerate(items) if key(item) == position[0]), int(position[1]))
    page = fit_items(items[start : start + size])
    end = start + len(page)
    if end >= len(items):
        return page, ""
    return page, write_token([key(page[-1]), str(end - 1)], tenant_id, request)


def require_fit(response: Message) -> None:
    """Refuse a response that is too large before the work is committed: its caller could not receive it.

    A response that repeats stored data may be larger than its request. A too large one first drops the structs of free
    JSON and keeps their text. Raises MessageTooLarge.
    """
    fields.drop_duplicates_to_fit(response, MAX_MESSAGE_BYTES)
    if (size := response.ByteSize()) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(limit=MAX_MESSAGE_BYTES, size=size)


def read_token(token: str, tenant_id: UUID | None, request: Message) -> list[str] | None:
    """Return the position in a token; None for the first page.

    Raises PageTokenInvalid unless this cluster made the token for this tenant, caller, method and request.
    """
    if not token:
        return None
    try:
        content = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        raise PageTokenInvalid from None
    signature, text = content[:_SIGNATURE_BYTES], content[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(text, tenant_id, request)):
        raise PageTokenInvalid
    return [str(part) for part in json.loads(text)]


def read_id(tenant_id: UUID | None, request: Message) -> UUID | None:
    """Return the id in the token of a list that is ordered by ids; None for the first page. Raises PageTokenInvalid."""
    position = read_token(request.page_token, tenant_id, request)  # type: ignore[attr-defined]  # Every list has one.
    if position is None:
        return None
    row_id = parse_id(position[0]) if len(position) == 1 else None
    if row_id is None:
        raise PageTokenInvalid
    return row_id


def write_token(position: list[str], tenant_id: UUID | None, request: Message) -> str:
    """Return the signed token of the page after `position`; it is valid for this list only."""
    text = json.dumps(position, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_signature(text, tenant_id, request) + text).decode("ascii")


def _signature(text: bytes, tenant_id: UUID | None, request: Message) -> bytes:
    """Sign a position with the cluster's key, for the current call."""
    call = current_call()
    if call is None or not call.page_token_key:
        raise ServiceUnavailable
    unpaged_request = type(request)()
    unpaged_request.CopyFrom(request)
    for name in _PAGING_FIELDS.intersection(unpaged_request.DESCRIPTOR.fields_by_name):
        unpaged_request.ClearField(name)
    # The same request may carry its free JSON as a struct over gRPC and as text too over HTTP.
    fields.canonicalize(unpaged_request)
    principal = "" if call.caller is None else call.caller.principal
    parts = (f"{tenant_id}", principal, call.path, request.DESCRIPTOR.full_name)
    mac = hmac.new(call.page_token_key, digestmod="sha256")
    for part in (*(part.encode() for part in parts), unpaged_request.SerializeToString(deterministic=True), text):
        mac.update(len(part).to_bytes(8, "big") + part)
    return mac.digest()[:_SIGNATURE_BYTES]
