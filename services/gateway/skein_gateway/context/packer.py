"""Packs contexts without blocking the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

from skein_gateway.context.model import Item, PackedContext, PackOptions, pack
from skein_gateway.recall.rpc import MAX_INLINE_CHARACTERS
from skein_kit.admission.processor_time import run_in_thread

P = ParamSpec("P")
T = TypeVar("T")


async def pack_items(items: Sequence[Item], options: PackOptions) -> PackedContext:
    """Pack items, in a thread if their texts are long."""
    return await run_by_length(items, pack, items, options)


async def run_by_length(items: Iterable[Item], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run code that works on the texts of items, in a thread if they are long."""
    if sum(len(item.text) for item in items) > MAX_INLINE_CHARACTERS:
        return await run_in_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
