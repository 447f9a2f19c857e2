"""Vectors held in memory, of the tenants that search most.

What is held finds nothing by itself. A search learns here which items stand nearest, and has the database compare
those with the vector once more, as the tenant that it works for, and all that came since: so what is gone, changed or
another's is not found, and what is new is. A vector never changes: an item that gets other vectors loses the old ones,
and the new ones are told by the transaction that wrote them. When what is left proves that nothing else can be nearer,
the answer is exact; when it does not, the index is scanned as if nothing were held.

What words and neighbours find is compared here as well, once the database has told, as the tenant, that it is there and
that nothing of it was written since. Should that happen between this and the search's first statement, the answer shows
what was there at the first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import VECTOR_CACHE_BYTES
from skein_recall.vector_cache.matrix import QuantizedVectors, Shortlist, VectorMatrix, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    import asyncpg
    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel
    from skein_recall.vector_cache.matrix import Key
    from skein_recall.vector_cache.store import TransactionHorizon, VectorCacheStore

log = logs.get("recall")
# A tenant's vectors are read when it searched so often within so many seconds.
_SEARCHES, _LATELY_SECONDS = 2, 60.0
# A tenant with fewer chunks is searched as fast by the index.
LEAST_CHUNKS = 1000
# Vectors that came since, in one search: from so many on they are read, and with more the index is faster.
_READ_FROM, MOST_NEW = 250, 2000
# Room for what comes, beside what is there: a share, and a number.
_SPARE_SHARE, _SPARE_ROWS = 0.125, 512
# What was not searched for so long is let go of. Before it was not for some time it makes room for nobody, or two would
# take turns in being read.
IDLE_SECONDS, _KEEP_SECONDS = 600.0, 60.0
# What is held is read anew after so long, for what was deleted since is among it still; twice as long it is not kept.
OLD_SECONDS = 1800.0
# A moment serves for so long: the log reaches the disk within a second, and each tenant would wait for that.
_MOMENT_SECONDS, _SETTLE_SECONDS = 5.0, 0.1
# All of a tenant is not read again for so long; each time longer, up to the longest, until what came since sufficed.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 3600.0
# A reading may take so long, and longer by what it has to read.
_LOOK_SECONDS, _ROWS_A_SECOND = 60.0, 1000
# Tenants of which it is known when they searched.
_MOST_TENANTS = 10_000
# Numbers that are compared on the loop that answers calls, in two milliseconds: rounded ones, and such as are compared
# as they are. More are compared beside it. For fewer that would be a loss: a thread waits for its turn among the loop's
# work, several times.
_ROUNDED_AT_ONCE, _WHOLE_AT_ONCE = 30_000_000, 1_000_000


@dataclass(slots=True)
class _CacheEntry:
    """What is known of a tenant's searches, and what is held of it."""

    model: EmbeddingModel
    searches: int = 0
    since: float = 0.0
    used: float = 0.0
    matrix: VectorMatrix | None = None
    # Not to be looked at before; all of it not to be read before, nor for how long the next time.
    again: float = 0.0
    whole_again: float = 0.0
    pause: float = _FIRST_PAUSE_SECONDS

    def wait(self, at: float) -> None:
        """Read all of it no more for some time, each time for longer."""
        self.again = self.whole_again = at + self.pause
        self.pause = min(2 * self.pause, _LONGEST_PAUSE_SECONDS)


class VectorCache:
    """The vectors that one process holds."""

    def __init__(
        self,
        store: VectorCacheStore,
        *,
        most_bytes: int,
        least_chunks: int = LEAST_CHUNKS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hold up to `most_bytes` of vectors, those included that are being read; 0: none."""
        self._store = store
        self._most_bytes = most_bytes
        self._least_chunks = max(1, least_chunks)
        self._clock = clock
        # The one that searched last is the last.
        self._known: OrderedDict[Key, _CacheEntry] = OrderedDict()
        self._bytes = 0
        # Those that are to be read, in order.
        self._wanted: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        # The last one that was settled, and when that was.
        self._moment: TransactionHorizon | None = None
        self._moment_time = 0.0
        VECTOR_CACHE_BYTES.set_function(lambda: self.size)

    @property
    def size(self) -> int:
        """How many bytes are held."""
        return self._bytes

    async def shortlist(
        self, tenant_id: UUID, model: EmbeddingModel, vector: NDArray[np.float32], kinds: tuple[str, ...], count: int
    ) -> Shortlist | None:
        """Return about the `count` items nearest to a vector; None when nothing is held of the tenant."""
        if not self._most_bytes:
            return None
        key, at = (tenant_id, model.table_name, model.create_time), self._clock()
        known = self._known.setdefault(key, _CacheEntry(model, since=at))
        self._known.move_to_end(key)
        known.used = at
        age = 0.0 if known.matrix is None else at - known.matrix.read_time
        if age > 2 * OLD_SECONDS:
            self._let_go(known)
        if known.matrix is None:
            self._note(key, known, at)
        elif age > OLD_SECONDS:
            self._want(key, known, at)
        matrix = known.matrix
        if matrix is None:
            return None
        if matrix.vectors.size <= _ROUNDED_AT_ONCE:
            shortlist = Shortlist.of_matrix(key, matrix, vector, kinds, count, _WHOLE_AT_ONCE)
            if shortlist is not None:
                return shortlist
        return await asyncio.to_thread(Shortlist.of_matrix, key, matrix, vector, kinds, count)

    def takes(self, shortlist: Shortlist, rows: Sequence[asyncpg.Record]) -> bool:
        """Say whether what the database answered to a shortlist is all that it asked for, and learn from it."""
        known = self._known.get(shortlist.key)
        new = sum(row["is_new"] is True for row in rows)
        is_of_it = rows[0]["server"] == shortlist.moment.server
        if known is not None and known.matrix is not None and known.matrix.moment is shortlist.moment:
            at = self._clock()
            if not is_of_it:
                self._let_go(known)
                known.wait(at)
                self._moment = None
            elif new >= _READ_FROM:
                self._want(shortlist.key, known, at)
        return is_of_it and new < MOST_NEW

    def drop(self, tenant_id: UUID | None) -> None:
        """Let go of all that is held of a tenant, what is being read included; None: of every tenant."""
        for key in [key for key in self._known if tenant_id in (None, key[0])]:
            self._let_go(self._known.pop(key))

    async def run(self) -> None:
        """Read what is wanted, one tenant at a time, and let go of what nobody uses."""
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    key = await self._wanted.get()
            except TimeoutError:
                self._forget()
                continue
            known = self._known.get(key)
            try:
                if known is not None:
                    await self._look(key, known)
            except Exception as error:  # noqa: BLE001 - whatever it is: the index serves this tenant, and others wait.
                log.warning("vectors_not_held", error=type(error).__name__)
                if known is not None:
                    self._let_go(known)
                    known.wait(self._clock())
            finally:
                # Whoever searched meanwhile wanted just this.
                self._waiting.discard(key)
            self._forget()

    def _note(self, key: Key, known: _CacheEntry, at: float) -> None:
        if at - known.since > _LATELY_SECONDS:
            known.since, known.searches = at, 0
        known.searches += 1
        if known.searches >= _SEARCHES:
            self._want(key, known, at)
        while len(self._known) > _MOST_TENANTS:
            _, last = self._known.popitem(last=False)
            self._let_go(last)

    def _want(self, key: Key, known: _CacheEntry, at: float) -> None:
        if key not in self._waiting and at >= known.again:
            self._waiting.add(key)
            self._wanted.put_nowait(key)

    async def _look(self, key: Key, known: _CacheEntry) -> None:
        """Read what came since, or all of it where nothing is held, or too much came."""
        began, held = self._clock(), known.matrix
        if held is not None and began - held.read_time <= OLD_SECONDS:
            async with asyncio.timeout(_LOOK_SECONDS):
                moment = await self._settled()
                new = await self._store.since(key[0], known.model, held.moment.horizon, MOST_NEW)
            matrix = None
            if new is not None and moment.server == held.moment.server:
                rounded = await asyncio.to_thread(QuantizedVectors.of, new.vectors)
                matrix = held.with_those(new, rounded, moment=moment)
            if matrix is not None:
                if known.matrix is held and self._known.get(key) is known:
                    known.matrix = matrix
                known.again, known.pause = self._clock() + _MOMENT_SECONDS, _FIRST_PAUSE_SECONDS
                return
            if began < known.whole_again:
                self._let_go(known)
                known.again = known.whole_again
                return
        await self._read(key, known)

    async def _read(self, key: Key, known: _CacheEntry) -> None:
        tenant_id, dimensions = key[0], known.model.dimensions
        count = await self._store.count(tenant_id, known.model, self._most_bytes // size_of(1, dimensions) + 1)
        rows = count + int(count * _SPARE_SHARE) + _SPARE_ROWS
        size = size_of(rows, dimensions)
        if count < self._least_chunks or not self._make_room(known, size):
            self._let_go(known)
            known.wait(self._clock())
            return
        self._bytes += size
        try:
            async with asyncio.timeout(_LOOK_SECONDS + rows / _ROWS_A_SECOND):
                matrix: VectorMatrix | None = VectorMatrix.empty(
                    await self._settled(), self._clock(), rows=rows, dimensions=dimensions
                )
                async for chunks in self._store.all(tenant_id, known.model):
                    rounded = await asyncio.to_thread(QuantizedVectors.of, chunks.vectors)
                    matrix = matrix and matrix.with_those(chunks, rounded)
        finally:
            self._bytes -= size
        known.wait(self._clock())
        self._let_go(known)
        # It may have been forgotten meanwhile, or have grown by more than there was room for.
        if matrix is not None and matrix.count and self._known.get(key) is known:
            known.matrix = matrix
            self._bytes += size
            # What comes from now on may be read as soon as there is enough of it.
            known.again = self._clock() + _MOMENT_SECONDS

    async def _settled(self) -> TransactionHorizon:
        """Return a moment of some seconds ago at most, whose numbers no crash can give away again."""
        began = self._clock()
        if self._moment is None or began - self._moment_time > _MOMENT_SECONDS:
            moment = await self._store.moment()
            while not (is_settled := await self._store.is_settled(moment)):
                # Another server knows nothing of that moment.
                moment = await self._store.moment() if is_settled is None else moment
                await asyncio.sleep(_SETTLE_SECONDS)
            self._moment, self._moment_time = moment, began
        return self._moment

    def _make_room(self, known: _CacheEntry, size: int) -> bool:
        """Let go of what was not used lately until there is room beside the rest; say whether there is.

        When that would not be enough nothing is let go of, but for what is held of the same tenant.
        """
        if self._bytes + size > self._most_bytes:
            self._let_go(known)
        before = self._clock() - _KEEP_SECONDS
        idle = [other for other in self._known.values() if other.matrix is not None and other.used < before]
        excess = self._bytes + size - self._most_bytes
        if excess > sum(other.matrix.size for other in idle if other.matrix is not None):
            return False
        # The one that searched first goes first.
        for other in idle:
            if self._bytes + size <= self._most_bytes:
                break
            self._let_go(other)
        return True

    def _let_go(self, known: _CacheEntry) -> None:
        if known.matrix is not None:
            self._bytes -= known.matrix.size
            known.matrix = None

    def _forget(self) -> None:
        """Forget those that did not search for long."""
        before = self._clock() - IDLE_SECONDS
        while self._known:
            key, known = next(iter(self._known.items()))
            if known.used >= before:
                return
            self._let_go(known)
            del self._known[key]
