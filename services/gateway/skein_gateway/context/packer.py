"""Packs contexts without blocking the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skein_gateway.context.model import pack
from skein_gateway.recall.rpc import MAX_INLINE_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_gateway.context.model import Item, PackedContext, PackOptions


async def pack_items(items: Sequence[Item], options: PackOptions) -> PackedContext:
    """Pack items, in a thread if their texts are long."""
    if sum(len(item.text) for item in items) > MAX_INLINE_CHARACTERS:
        return await asyncio.to_thread(pack, items, options)
    return pack(items, options)
