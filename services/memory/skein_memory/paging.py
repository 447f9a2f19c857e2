"""Pages of lists: where one begins, and how much fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from google.protobuf.message import Message

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_kit.rpc.pagination import DEFAULT_PAGE_SIZE, PAGE_BYTES, read_token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

Item = TypeVar("Item", bound=Message)


class PageBuilder(Generic[Item]):
    """The first items that fit one response; the very first always fits."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.is_full = False
        self._bytes = 0

    def next_batch_size(self, count: int) -> int:
        """Return how many of the remaining items to read next.

        A default page is one batch; from then on as many as will fit if they are as long as those before.
        """
        if not self.items:
            return min(count, DEFAULT_PAGE_SIZE)
        free_bytes, length = PAGE_BYTES - self._bytes, self._bytes // len(self.items)
        return min(count, max(1, free_bytes // max(1, length)))

    def add(self, items: Iterable[Item]) -> int:
        """Add items up to the first that does not fit; return how many went in."""
        before = len(self.items)
        for item in items:
            length = item.ByteSize()
            if self.items and self._bytes + length > PAGE_BYTES:
                self.is_full = True
                break
            self.items.append(item)
            self._bytes += length
        return len(self.items) - before


def read_id_cursor(request: Message, tenant_id: UUID) -> UUID | None:
    """Return the last id of the page before; None for the first page."""
    token = read_token(request.page_token, tenant_id, request)  # type: ignore[attr-defined]  # Every list has one.
    if token is None:
        return None
    id_ = parse_id(token[0]) if len(token) == 1 else None
    if id_ is None:
        raise PageTokenInvalid
    return id_
