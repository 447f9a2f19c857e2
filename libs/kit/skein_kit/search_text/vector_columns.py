"""Vectors as the tables of the index hold them: which model is in force, and how its vectors become columns.

Vectors are of unit length, in half precision. A B-tree tuple holds 1,280 dimensions: those stand in `embedding`, which
an index covers, the others in `rest`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID
from weakref import WeakKeyDictionary

import numpy as np
from pgvector import HalfVector

from skein_kit.database import batch_insert
from skein_kit.database.batch_insert import InsertRows
from skein_kit.database.named_queries import Queries
from skein_kit.errors import DimensionsMismatch, FieldInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg
    from numpy.typing import NDArray

    from skein_kit.database.named_queries import Query
    from skein_kit.database.transactions import Database, Transaction

COVERED_DIMENSIONS = 1280
# The provider of vectors whose caller does not say who made them.
CALLER = "caller"
# How long the registry is believed: a model that is switched to is written to by everybody after so many seconds.
CACHE_SECONDS = 5.0
_QUERIES = Queries.load("skein_kit")
_EVERY_TENANT = UUID(int=0)
_TABLE_NAME = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveModel:
    """The model in force, as far as whoever stores its vectors must know it."""

    model: str
    dimensions: int
    table_name: str
    # Tenants in which another model gets vectors of what is written as well; the nil tenant stands for all.
    followed: tuple[UUID, ...]

    def is_followed(self, tenant_id: UUID) -> bool:
        """Say whether another model gets vectors of what this tenant writes."""
        return tenant_id in self.followed or _EVERY_TENANT in self.followed


_cached_models: WeakKeyDictionary[Database, tuple[ActiveModel, float]] = WeakKeyDictionary()


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Teach a new connection to send and read vectors in binary."""
    await connection.set_type_codec(
        "halfvec", schema="public", encoder=HalfVector.to_binary, decoder=HalfVector.from_binary, format="binary"
    )


async def active_model(tx: Transaction) -> ActiveModel | None:
    """Return the model in force; a round trip at most every five seconds. None when there is none."""
    known, until = _cached_models.get(tx.database, (None, 0.0))
    if known is not None and time.monotonic() < until:
        return known
    row = await tx.row(_QUERIES["space_in_force"])
    if row is None:
        return None
    space = ActiveModel(**{**row, "followed": tuple(row["followed"])})
    _cached_models[tx.database] = (space, time.monotonic() + CACHE_SECONDS)
    return space


def normalize(values: Sequence[float], *, field: str = "embedding") -> NDArray[np.float32]:
    """A caller's vector, made of unit length so that it fits half precision; refused when it points nowhere."""
    vector = np.array(values, dtype=np.float64)
    length = np.linalg.norm(vector)
    if not length or not np.isfinite(length):
        raise FieldInvalid(violations=[(field, "is zero in every dimension, or not finite in one")])
    return (vector / length).astype(np.float32)


def require_dimensions(dimensions: int, vector: Sequence[float] | NDArray[np.float32]) -> None:
    """Refuse a vector of another length than the model's."""
    if len(vector) != dimensions:
        raise DimensionsMismatch(expected=dimensions, given=len(vector))


def vector_columns(vector: NDArray[np.float32]) -> dict[str, Any]:
    """The columns that hold a vector."""
    rest = vector[COVERED_DIMENSIONS:]
    return {
        "embedding": HalfVector(vector[:COVERED_DIMENSIONS]),
        "rest": HalfVector(rest) if len(rest) else None,
    }


def read_vector(embedding: HalfVector, rest: HalfVector | None) -> NDArray[np.float32]:
    """Return the vector that columns hold."""
    parts = [embedding.to_numpy()] if rest is None else [embedding.to_numpy(), rest.to_numpy()]
    return np.concatenate(parts).astype(np.float32)


async def insert_vectors(
    tx: Transaction, tenant_id: UUID, table_name: str, items: Sequence[tuple[UUID, str, Sequence[NDArray[np.float32]]]]
) -> None:
    """Store the vectors of items, each given with its kind: one row for each chunk of its text."""
    await batch_insert.insert_batch(tx, tenant_id, [vector_rows(table_name, items)])


def vector_rows(table_name: str, items: Sequence[tuple[UUID, str, Sequence[NDArray[np.float32]]]]) -> InsertRows:
    """Return what stores the vectors of items likewise."""
    return InsertRows(
        for_table(_QUERIES["insert_vectors"], table_name),
        [
            {"item_id": item_id, "chunk": chunk, "kind": kind, **vector_columns(vector)}
            for item_id, kind, vectors in items
            for chunk, vector in enumerate(vectors)
        ],
    )


def origin_rows(model: str, item_ids: Sequence[UUID]) -> InsertRows:
    """Return what notes that a caller brought the vectors of items."""
    return InsertRows(
        _QUERIES["insert_vector_origins"],
        [{"item_id": item_id, "model": model, "provider": CALLER} for item_id in item_ids],
    )


@cache
def for_table(query: Query, table_name: str) -> Query:
    """The statement for one model's table of vectors."""
    if not _TABLE_NAME.fullmatch(table_name):
        message = f"{table_name!r} cannot be the name of a table of vectors"
        raise ValueError(message)
    return replace(query, text=query.text.replace("{table}", table_name))
