"""Values of the search index: caller vectors, the state of an item, the backlog. No SQL, no protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from skein_recall.models.model import EmbeddingModel


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerVectors:
    """The vectors of one item, named by its id or, with its kind, by its external id."""

    item_id: UUID | None
    external_id: str
    kind: str
    # The revision of the text that was embedded; 0 when the caller does not say.
    revision: int
    # One per chunk: float32 of the model's dimensions, of unit length.
    vectors: list[NDArray[np.float32]]
    # What computed them, in the caller's words.
    provider: str


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorOrigin:
    """Where the vectors come from that a caller brought."""

    provider: str
    create_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVectors:
    """The vectors that an item has of one model, one per chunk of its text."""

    model: EmbeddingModel
    count: int
    # None: this cluster computed them.
    origin: VectorOrigin | None
    # Float32 of the model's dimensions, of unit length; empty unless requested.
    vectors: Sequence[NDArray[np.float32]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexState:
    """The document and the vectors of one item."""

    item_id: UUID
    kind: str
    # The item's revision whose words are found.
    revision: int
    # Vectors of the active model follow.
    is_pending: bool
    models: Sequence[ModelVectors]


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """A tenant's backlog after a call of the worker."""

    indexed_count: int
    # There is more to do at once.
    has_more: bool
    # The tenant writes, so the worker should return soon.
    is_active: bool
    # Items without vectors, at most MAX_COUNTED, and the oldest one's id.
    pending_count: int
    oldest_id: UUID | None
