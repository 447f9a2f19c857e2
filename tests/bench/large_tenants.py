"""Fills tenants of any size past the services: rows as the services write them, by COPY and INSERT as the superuser."""

from __future__ import annotations

import struct
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from bench import dialogues
from numpy.typing import NDArray

from skein_recall.embedded_model.embedder import LocalEmbedder

DIMENSIONS = 384
# Rows of one COPY: some megabytes.
_ROWS = 20_000
_WORDS, _WORDS_PER_TEXT, _QUERY_WORDS = 50_000, 5, 3
# Shares of the entries of each type; filters ask for the second and the third.
COMMON, SOME, FEW = "fact", "decision", "insight"
SHARES = {SOME: 0.016, FEW: 0.001}
_NOISE = 0.35
_TEXTS = 1500
_COPY_HEADER, _COPY_TRAILER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0), struct.pack(">h", -1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LargeTenant:
    """A tenant's entries: of each its id, vector, type and words."""

    tenant_id: UUID
    # uint64 (n, 2).
    ids: NDArray[np.uint64]
    # float16 (n, DIMENSIONS), in a file.
    vectors: NDArray[np.float16]
    # Numbers of the types and of the words of each entry: (n,) and (n, _WORDS_PER_TEXT).
    types: NDArray[np.str_]
    words: NDArray[np.int32]

    @classmethod
    def make(cls, tenant_id: UUID, size: int, texts: NDArray[np.float32] | None, file: Path) -> LargeTenant:
        """Make entries whose vectors are mixtures of those of two texts, with noise; without texts, of random ones.

        `texts` is float32 (texts, DIMENSIONS); the vectors are written into a file.
        """
        source = np.random.default_rng(size)
        vectors = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=(size, DIMENSIONS))
        for start in range(0, size, _ROWS):
            count = min(_ROWS, size - start)
            vectors[start : start + count] = _vectors(source, count, texts)
        # A millisecond each up to now, so that the ids ascend as those of entries that came one after another.
        times = np.uint64(time.time() * 1000) - np.arange(size, 0, -1, dtype=np.uint64) // 100
        random = source.integers(0, 2**62, (2, size), dtype=np.uint64)
        highs = (times << np.uint64(16)) | np.uint64(0x7000) | (random[0] & np.uint64(0xFFF))
        ids = np.stack([np.sort(highs), random[1] | np.uint64(1 << 63)], axis=1)
        places, types = source.permutation(size), np.full(size, COMMON, dtype="U8")
        some, few = (max(1, int(size * share)) for share in SHARES.values())
        types[places[:some]], types[places[some : some + few]] = SOME, FEW
        # Zipf's law: the n-th word has about 1/n of the first one's entries.
        words = np.exp(source.random((size, _WORDS_PER_TEXT)) * np.log(_WORDS)).astype(np.int32)
        return cls(tenant_id=tenant_id, ids=ids, vectors=vectors, types=types, words=words)

    def nearest(self, questions: NDArray[np.float32], count: int, type_: str = "") -> list[set[str]]:
        """Return the ids of the entries, of a type, that are nearest to each question (n, DIMENSIONS)."""
        rows = np.flatnonzero(self.types == type_) if type_ else np.arange(len(self.ids))
        best = np.empty((len(questions), 0), dtype=np.float32)
        places = np.empty((len(questions), 0), dtype=np.intp)
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            cosines = questions @ np.asarray(self.vectors[some], dtype=np.float32).T
            best = np.concatenate([best, cosines], axis=1)
            places = np.concatenate([places, np.broadcast_to(some, cosines.shape)], axis=1)
            order = np.argsort(-best, axis=1)[:, :count]
            best, places = np.take_along_axis(best, order, axis=1), np.take_along_axis(places, order, axis=1)
        return [{self.id_of(row) for row in each} for each in places.tolist()]

    def id_of(self, row: int) -> str:
        """Return the id of an entry as a response has it."""
        high, low = self.ids[row].tolist()
        return str(UUID(int=high << 64 | low))

    def question(self, number: int) -> str:
        """Return some words of an entry."""
        row = number * 7919 % len(self.ids)
        return " ".join(f"w{word}" for word in self.words[row, :_QUERY_WORDS])

    async def fill(self, database_url: str) -> float:
        """Write the entries; return how many seconds it took."""
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(database_url)
        started = time.perf_counter()
        try:
            # No trigger checks rows against others: that is the services' work.
            await connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
            await connection.execute(_STAGE)
            await connection.copy_to_table("bench_items", source=self._items(), format="binary")
            for statement in _INSERTS:
                await connection.execute(statement, self.tenant_id)
            await connection.copy_to_table(
                "embeddings_all_minilm_l6_v2", schema_name="recall", source=self._vector_rows(), format="binary",
                columns=["tenant_id", "item_id", "chunk", "kind", "embedding"],
            )  # fmt: skip
            await connection.execute("DROP TABLE bench_items")
            for table in (
                "memory.memories",
                "recall.documents",
                "recall.postings",
                "recall.embeddings_all_minilm_l6_v2",
            ):
                await connection.execute(f"VACUUM (ANALYZE) {table}")
        finally:
            await connection.close()
        return time.perf_counter() - started

    async def _items(self) -> AsyncIterator[bytes]:
        words = [("words", "S", _WORDS_PER_TEXT * 7)]
        async for rows in self._copied([("item_id", ">u8", (2,)), ("type", "S8"), *words]):
            slice_ = rows.slice
            rows.fields["item_id"][:] = self.ids[slice_]
            rows.fields["type"][:] = np.char.ljust(self.types[slice_].astype("S8"), 8)
            texts = [b" ".join(b"w%d" % word for word in each) for each in self.words[slice_].tolist()]
            rows.fields["words"][:] = np.char.ljust(np.array(texts, dtype=f"S{_WORDS_PER_TEXT * 7}"), words[0][2])
            yield rows.data()
        yield _COPY_TRAILER

    async def _vector_rows(self) -> AsyncIterator[bytes]:
        columns: list[Any] = [
            ("tenant_id", ">u8", (2,)),
            ("item_id", ">u8", (2,)),
            ("chunk", ">i2"),
            ("kind", "S6"),
            ("embedding", [("dimensions", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (DIMENSIONS,))]),
        ]
        async for rows in self._copied(columns):
            rows.fields["tenant_id"][:] = divmod(self.tenant_id.int, 1 << 64)
            rows.fields["item_id"][:] = self.ids[rows.slice]
            rows.fields["kind"][:] = b"memory"
            rows.fields["embedding"]["dimensions"] = DIMENSIONS
            rows.fields["embedding"]["numbers"] = self.vectors[rows.slice]
            yield rows.data()
        yield _COPY_TRAILER

    async def _copied(self, columns: Sequence[Any]) -> AsyncIterator[CopyRows]:
        for start in range(0, len(self.ids), _ROWS):
            yield CopyRows(start, min(_ROWS, len(self.ids) - start), columns)


class CopyRows:
    """Rows of equal length in the binary form of COPY."""

    def __init__(self, start: int, count: int, columns: Sequence[Any]) -> None:
        """Make rows that are those of a tenant from `start` on, with columns as numpy describes fields."""
        self.slice = slice(start, start + count)
        fields = [("columns", ">i2")]
        for column in columns:
            fields += [(f"{column[0]}_length", ">i4"), column]
        self._rows = np.zeros(count, dtype=fields)
        self._rows["columns"] = len(columns)
        for name, *_ in columns:
            self._rows[f"{name}_length"] = self._rows.dtype[name].itemsize
        self.fields = {column[0]: self._rows[column[0]] for column in columns}

    def data(self) -> bytes:
        """Return the rows as bytes; the first ones begin with the header."""
        return (b"" if self.slice.start else _COPY_HEADER) + self._rows.tobytes()


async def text_vectors() -> NDArray[np.float32]:
    """Return vectors (_TEXTS, DIMENSIONS) of texts, to mix those of entries from."""
    texts = dialogues.population(tenants=1, entries=_TEXTS, questions=0, seed=1).tenants[0]
    async with LocalEmbedder.load() as embedder:
        return np.concatenate([await embedder.embed(texts[start : start + 256]) for start in range(0, _TEXTS, 256)])


def _vectors(source: np.random.Generator, count: int, texts: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return vectors (count, DIMENSIONS) of unit length."""
    noise = source.standard_normal((count, DIMENSIONS), dtype=np.float32)
    if texts is None:
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        return noise
    first, second = source.integers(0, len(texts), (2, count))
    share = source.uniform(0.5, 1, (count, 1)).astype(np.float32)
    mixed = share * texts[first] + (1 - share) * texts[second]
    mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
    mixed += noise * np.float32(_NOISE / np.sqrt(DIMENSIONS))
    result: NDArray[np.float32] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return result


_TABLES = ("memory.memories", "recall.documents", "recall.postings", "recall.embeddings_all_minilm_l6_v2")
_STAGE = "CREATE UNLOGGED TABLE IF NOT EXISTS bench_items (item_id uuid, type text, words text); TRUNCATE bench_items"
_INSERTS = (
    """
    INSERT INTO memory.memories (tenant_id, memory_id, type, content, scope, level, confidence, importance,
                                 content_hash, create_time, update_time, created_by, updated_by, decay_time)
    SELECT $1::uuid, i.item_id, rtrim(i.type), rtrim(i.words), 'global', 'operational', 0.5, 0.5,
           uuid_send(i.item_id), now(), now(), 'bench', 'bench', NULL
    FROM bench_items AS i
    """,
    """
    INSERT INTO recall.documents (tenant_id, item_id, kind, type, scope, importance, length, revision, pending,
                                  is_counted)
    SELECT $1::uuid, i.item_id, 'memory', rtrim(i.type), 'global', 0.5, 5, 1, false, true
    FROM bench_items AS i
    """,
    """
    INSERT INTO recall.postings (tenant_id, term, kind, item_id, frequency, length)
    SELECT $1::uuid, word.term, 'memory', i.item_id, count(*), 5
    FROM bench_items AS i
    CROSS JOIN LATERAL unnest(string_to_array(rtrim(i.words), ' ')) AS word (term)
    GROUP BY word.term, i.item_id
    """,
    """
    INSERT INTO recall.frequencies (tenant_id, term, kind, documents)
    SELECT $1::uuid, p.term, 'memory', count(*)
    FROM recall.postings AS p
    WHERE p.tenant_id = $1::uuid
    GROUP BY p.term
    HAVING count(*) > 1000
    """,
    """
    INSERT INTO recall.corpora (tenant_id, kind, documents, length)
    SELECT $1::uuid, 'memory', count(*), 5 * count(*) FROM bench_items
    """,
)
