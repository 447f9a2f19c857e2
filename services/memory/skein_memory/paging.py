"""Pages of lists: how much fits, and where the next one begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.rpc.pagination import DEFAULT_PAGE_SIZE, PAGE_BYTES, fit_items, write_token

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
        previous_count = len(self.items)
        for item in items:
            length = item.ByteSize()
            if self.items and self._bytes + length > PAGE_BYTES:
                self.is_full = True
                break
            self.items.append(item)
            self._bytes += length
        return len(self.items) - previous_count


def cut_page(
    items: Iterable[Item], size: int, id_field: str, tenant_id: UUID, request: Message
) -> tuple[list[Item], str]:
    """Return the first `size` items, as far as they fit one response, and the token of the next page; empty at the end.

    `items` have one more than `size` where there are more; the token holds the last item's `id_field`.
    """
    messages = list(items)
    page = fit_items(messages[:size])
    if len(page) == len(messages):
        return page, ""
    return page, write_token([getattr(page[-1], id_field)], tenant_id, request)
