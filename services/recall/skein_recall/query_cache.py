"""The vectors of queries, remembered for the next time; callers who ask the same at once share one run of the model."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import numpy as np
    from numpy.typing import NDArray

REMEMBERED = 1024


class QueryCache:
    """Vectors by a digest of the question and its scope: no text is kept."""

    def __init__(self, *, most: int = REMEMBERED) -> None:
        """Keep the vectors of the `most` questions that were asked last."""
        self._most = most
        # By scope and digest.
        self._vectors: OrderedDict[tuple[str, bytes], NDArray[np.float32]] = OrderedDict()
        # Questions that the model is working on.
        self._asking: dict[tuple[str, bytes], asyncio.Task[NDArray[np.float32]]] = {}

    async def vector(
        self, text: str, scope: str, make: Callable[[], Awaitable[NDArray[np.float32]]]
    ) -> NDArray[np.float32]:
        """Return the vector of a text, read-only because it is shared; `make` it when it is not known.

        Pass the tenant as `scope`: the time of an answer must not tell whether another tenant asked the same. A caller
        who is cancelled takes the vector from nobody.
        """
        key = scope, blake2b(text.encode(), digest_size=16).digest()
        if (known := self._vectors.get(key)) is not None:
            self._vectors.move_to_end(key)
            return known
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._make(key, make))
            asking.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(asking)

    def drop(self, scope: str | None) -> None:
        """Forget the vectors of a scope, those included that the model is working on; None: of every scope."""
        for key in [key for key in self._vectors if scope in (None, key[0])]:
            del self._vectors[key]
        for key in [key for key in self._asking if scope in (None, key[0])]:
            del self._asking[key]

    async def _make(
        self, key: tuple[str, bytes], make: Callable[[], Awaitable[NDArray[np.float32]]]
    ) -> NDArray[np.float32]:
        vector = await make()
        vector.flags.writeable = False
        if self._asking.get(key) is asyncio.current_task():
            self._vectors[key] = vector
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
        return vector

    def _made(self, key: tuple[str, bytes], done: asyncio.Task[NDArray[np.float32]]) -> None:
        if self._asking.get(key) is done:
            del self._asking[key]
        if not done.cancelled():
            done.exception()  # Looked at, so that it is not reported when every caller was cancelled.
