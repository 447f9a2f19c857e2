"""What the index has of an item: whether it is found by its words, and by which models' vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorOrigin:
    """Where the vectors come from that a caller brought."""

    provider: str
    create_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVectors:
    """The vectors that an item has of one model, one for each chunk of its text."""

    model: EmbeddingModel
    count: int
    # None: this cluster made them.
    provenance: VectorOrigin | None
    # Of unit length; empty unless they are asked for.
    vectors: Sequence[NDArray[np.float32]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexState:
    """What the index has of one item."""

    item_id: UUID
    kind: str
    # The item's revision whose words are found.
    revision: int
    # Vectors of the model in force are still to be made.
    is_pending: bool
    models: Sequence[ModelVectors]
