"""What fits an answer, and page tokens: where a list goes on, bound to the tenant and to the question asked."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from skein_kit import json_fields
from skein_kit.errors import MessageTooLarge, PageTokenInvalid
from skein_kit.interceptors import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

Item = TypeVar("Item", bound=Message)

DEFAULT_PAGE_SIZE = 50
# An answer ends early rather than outgrow what a client takes by default (4 MiB).
PAGE_BYTES = 3 * 1024 * 1024
# Of a place in a list that is known whole.
_MOST_DIGITS = 6
# A short list that is asked for without a size comes whole.
WHOLE = 1000
_PAGING_FIELDS = ("page_token", "page_size")


def page_size(asked: int) -> int:
    """Return the size to use for the size that was asked (0 means the default)."""
    return asked or DEFAULT_PAGE_SIZE


def fitting(items: Iterable[Item], *, beside: int = 0) -> list[Item]:
    """Return those of the first items that fit one answer `beside` so many bytes; if there are none, at least one."""
    found: list[Item] = []
    taken = beside
    for item in items:
        taken += item.ByteSize()
        if (found or beside) and taken > PAGE_BYTES:
            break
        found.append(item)
    return found


def page_of(
    items: Sequence[Item], key: Callable[[Item], str], request: Message, tenant_id: UUID | None, *, size: int
) -> tuple[list[Item], str]:
    """Return the page of a short list that a request asks for, and the token of the next one; empty for none.

    The list is known whole and its order is stable. It goes on after the item that the page before ended with, or at
    its place where that item is gone. A page ends early rather than outgrow an answer. Raises PageTokenInvalid.
    """
    token: str = request.page_token  # type: ignore[attr-defined]  # Every list has one.
    start = 0
    if (place := read_token(token, tenant_id, request)) is not None:
        if len(place) != 2 or not place[1].isdecimal() or len(place[1]) > _MOST_DIGITS:  # noqa: PLR2004
            raise PageTokenInvalid
        start = next((index + 1 for index, item in enumerate(items) if key(item) == place[0]), int(place[1]))
    page = fitting(items[start : start + size])
    end = start + len(page)
    if end >= len(items):
        return page, ""
    return page, write_token([key(page[-1]), str(end - 1)], tenant_id, request)


def must_fit(response: Message) -> None:
    """Refuse, before the work is committed, an answer that is too large to be taken: its caller would not learn of it.

    An answer that repeats what it stored says more than the request did. One that is too large says free JSON as text
    alone. Raises MessageTooLarge.
    """
    json_fields.fit(response, MAX_MESSAGE_BYTES)
    if (size := response.ByteSize()) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(limit=MAX_MESSAGE_BYTES, size=size)


def read_token(token: str, tenant_id: UUID | None, request: Message) -> list[str] | None:
    """Return the place that a token names, None for the first page; refuse a foreign or damaged one."""
    if not token:
        return None
    try:
        binding, *place = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
        # JSON can say half a character; the database, which gets the place, cannot.
        "".join(place).encode()
    except (ValueError, TypeError, RecursionError):
        raise PageTokenInvalid from None
    if binding != _binding(tenant_id, request) or not all(isinstance(part, str) for part in place):
        raise PageTokenInvalid
    return list(place)


def write_token(place: list[str], tenant_id: UUID | None, request: Message) -> str:
    """Return the token of the page that starts after `place`."""
    return base64.urlsafe_b64encode(json.dumps([_binding(tenant_id, request), *place]).encode()).decode("ascii")


def _binding(tenant_id: UUID | None, request: Message) -> str:
    question = type(request)()
    question.CopyFrom(request)
    for name in _PAGING_FIELDS:
        question.ClearField(name)
    digest = hashlib.sha256(f"{tenant_id}|{request.DESCRIPTOR.full_name}|".encode())
    digest.update(question.SerializeToString(deterministic=True))
    return digest.hexdigest()[:16]
