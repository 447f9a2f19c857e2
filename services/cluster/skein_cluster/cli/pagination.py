"""The first items of a paginated list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

from google.protobuf.message import Message

from skein_client.pagination import iterate_pages


async def list_first(limit: int, method: Callable[..., Awaitable[Any]], request: Message, field: str) -> list[Any]:
    """Call a List method until there are `limit` items or no more."""
    result: list[Any] = []
    async with aclosing(cast("AsyncGenerator[Any, None]", iterate_pages(method, request, field))) as every:
        async for item in every:
            result.append(item)
            if len(result) >= limit:
                break
    return result
