"""Vectors that a caller brings for an item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.search_text.vector_columns import CALLER, normalize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skein_recall.models.model import EmbeddingModel


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerVectors:
    """The vectors of one item, named by its id or, with its kind, by the id that another system gave it."""

    item_id: UUID | None
    external_id: str
    kind: str
    # The revision whose text they were made of; 0 when the caller does not say.
    revision: int
    vectors: list[NDArray[np.float32]]
    # Who made them.
    provider: str = CALLER

    @classmethod
    def of(cls, request: pb.PutEmbeddingRequest, model: EmbeddingModel) -> Self:
        """Read a request; refuse vectors of another length than the model's, and those that point nowhere."""
        for embedding in request.embeddings:
            model.must_take(len(embedding.values))
        return cls(
            item_id=UUID(request.item_id) if request.item_id else None,
            external_id=request.external_id,
            kind="message" if request.kind == pb.ITEM_KIND_MESSAGE else "memory",
            revision=request.revision,
            vectors=[
                normalize(embedding.values, field=f"embeddings[{place}].values")
                for place, embedding in enumerate(request.embeddings)
            ],
            provider=request.provider.strip() or CALLER,
        )
