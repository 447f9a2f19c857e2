"""Lists as iterators, which fetch the next page when it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from google.protobuf.message import Message


async def iterate_pages(method: Callable[..., Awaitable[Any]], request: Message, field: str) -> AsyncIterator[Any]:
    """Call a List method until its last page; yield the items in `field` of each response."""
    while True:
        response = await method(request)
        for item in getattr(response, field):
            yield item
        if not response.next_page_token:
            return
        request = _next_request(request, response.next_page_token)


def iterate_pages_sync(method: Callable[..., Any], request: Message, field: str) -> Iterator[Any]:
    """Do as `iterate_pages`, blocking for each page."""
    while True:
        response = method(request)
        yield from getattr(response, field)
        if not response.next_page_token:
            return
        request = _next_request(request, response.next_page_token)


def _next_request(request: Message, page_token: str) -> Message:
    result = type(request)()
    result.CopyFrom(request)
    result.page_token = page_token  # type: ignore[attr-defined]  # Every List request has the field.
    return result
