"""Embeddings in an import: stored when they fit the current model, else counted by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skein_kit.errors import DimensionsMismatch, FieldInvalid
from skein_kit.search_text import vector_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.database.transactions import Transaction

_EXISTS = "MEMORY_EXISTS"


@dataclass(kw_only=True, slots=True)
class EmbeddingImport:
    """How many embeddings were kept, and how many were not, by reason."""

    kept: int = 0
    recomputed: Counter[str] = field(default_factory=Counter)

    def accept(self, values: Sequence[float], dimensions: int) -> NDArray[np.float32] | None:
        """Count a memory's vector and return it as it is stored; None where it is computed again."""
        try:
            vector_columns.require_dimensions(dimensions, values)
            vector = vector_columns.normalize(values)
        except (DimensionsMismatch, FieldInvalid) as refusal:
            self.recomputed[refusal.reason] += 1
            return None
        self.kept += 1
        return vector

    def skip(self, values: Sequence[float]) -> None:
        """Count the embedding, if there is one, of a memory that already exists."""
        if values:
            self.recomputed[_EXISTS] += 1


async def dimensions(tx: Transaction) -> int:
    """Return the dimensions of the current model, 0 when there is none."""
    space = await vector_columns.active_model(tx)
    return 0 if space is None else space.dimensions
