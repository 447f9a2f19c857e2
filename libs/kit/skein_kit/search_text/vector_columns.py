"""Vectors in the tables of the search index: the model of a tenant, and the columns of a vector.

Stored vectors have unit length and half precision. A B-tree tuple holds 1,280 dimensions: these are in the column
`embedding`, which an index covers, the others in `rest`.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

import asyncpg
import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from skein_kit.database.named_queries import Queries, Query
from skein_kit.database.transactions import Database, Insert, Transaction
from skein_kit.errors import DimensionsMismatch, FieldInvalid

COVERED_DIMENSIONS = 1280
# The provider of caller vectors.
CALLER = "caller"
# Seconds after which every process writes vectors of a newly activated model at the latest.
CACHE_SECONDS = 5.0
_QUERIES = Queries.load("skein_kit")
# Tenants whose model is cached.
_MAX_CACHED = 10_000
_NO_TOKENS: Mapping[UUID, Sequence[bytes]] = MappingProxyType({})
_TABLE_NAME = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveModel:
    """The model that a tenant searches: what a writer of its vectors needs."""

    model: str
    dimensions: int
    table_name: str
    # New documents also get vectors of a followed model.
    is_followed: bool


# By tenant, the latest used last, with the end of its validity.
_TenantModels: TypeAlias = OrderedDict[UUID, tuple[ActiveModel, float]]
_cached_models: WeakKeyDictionary[Database, _TenantModels] = WeakKeyDictionary()


async def prepare_connection(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Make a new connection send and read vectors in binary form."""
    await connection.set_type_codec(
        "halfvec", schema="public", encoder=HalfVector.to_binary, decoder=HalfVector.from_binary, format="binary"
    )


async def active_model(tx: Transaction, tenant_id: UUID) -> ActiveModel | None:
    """Return the model that the transaction's tenant searches; None when there is none.

    One round trip at most every CACHE_SECONDS.
    """
    models = _cached_models.setdefault(tx.database, OrderedDict())
    cached, until = models.get(tenant_id, (None, 0.0))
    if cached is not None and time.monotonic() < until:
        return cached
    row = await tx.row(_QUERIES["active_model"], tenant_id=tenant_id)
    if row is None:
        return None
    model = ActiveModel(**row)
    models[tenant_id] = (model, time.monotonic() + CACHE_SECONDS)
    models.move_to_end(tenant_id)
    if len(models) > _MAX_CACHED:
        models.popitem(last=False)
    return model


def normalize(values: Sequence[float], *, field: str = "embedding") -> NDArray[np.float32]:
    """Return a caller's vector with unit length, float32 of shape (dimensions,), so that it fits half precision.

    Raises FieldInvalid, for `field`, when its length is zero or not finite.
    """
    vector = np.array(values, dtype=np.float64)
    length = np.linalg.norm(vector)
    if not length or not np.isfinite(length):
        raise FieldInvalid(violations=[(field, "is zero in every dimension, or not finite in one")])
    return (vector / length).astype(np.float32)


def require_dimensions(dimensions: int, vector: Sequence[float] | NDArray[np.float32]) -> None:
    """Raise DimensionsMismatch unless a vector has this number of dimensions."""
    if len(vector) != dimensions:
        raise DimensionsMismatch(expected=dimensions, actual=len(vector))


def vector_columns(vector: NDArray[np.float32]) -> dict[str, Any]:
    """Return the columns of a vector, float32 of shape (dimensions,)."""
    rest = vector[COVERED_DIMENSIONS:]
    return {
        "embedding": HalfVector(vector[:COVERED_DIMENSIONS]),
        "rest": HalfVector(rest) if len(rest) else None,
    }


def read_vector(embedding: HalfVector, rest: HalfVector | None) -> NDArray[np.float32]:
    """Return the vector of the columns, float32 of shape (dimensions,)."""
    parts = [embedding.to_numpy()] if rest is None else [embedding.to_numpy(), rest.to_numpy()]
    return np.concatenate(parts).astype(np.float32)


def new_vectors(
    table_name: str,
    items: Sequence[tuple[UUID, str, Sequence[NDArray[np.float32]]]],
    tokens: Mapping[UUID, Sequence[bytes]] = _NO_TOKENS,
) -> Insert:
    """Return the rows of vectors of items, each with its id, its kind and one vector for each chunk of its text.

    A vector is float32 of shape (dimensions,). `tokens` has the codes of the tokens of each chunk, by item.
    """
    rows = [
        {
            "item_id": item_id,
            "chunk": chunk,
            "kind": kind,
            "tokens": tokens[item_id][chunk] if item_id in tokens else None,
            **vector_columns(vector),
        }
        for item_id, kind, vectors in items
        for chunk, vector in enumerate(vectors)
    ]
    return for_table(_QUERIES["insert_vectors"], table_name), rows


def new_vector_origins(model: str, item_ids: Sequence[UUID]) -> Insert:
    """Return the rows that say that a caller brought the vectors of items for a model."""
    rows = [{"item_id": item_id, "model": model, "provider": CALLER} for item_id in item_ids]
    return _QUERIES["insert_vector_origins"], rows


@cache
def for_table(query: Query, table_name: str) -> Query:
    """Return a query for the vector table of a model. Raises ValueError for an unsafe name."""
    if not _TABLE_NAME.fullmatch(table_name):
        message = f"{table_name!r} cannot be the name of a table of vectors"
        raise ValueError(message)
    return replace(query, text=query.text.replace("{table}", table_name))
