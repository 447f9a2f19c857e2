"""The embedded models: what each is, and what it needs. No session, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skein_recall.embedded_model.weights import E5_FILE, MINILM_FILE, OnnxWeights, SafetensorsWeights

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein_recall.embedded_model.weights import Weights, WheelFile

# Of every embedded model.
DIMENSIONS: Final = 384


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderDescription:
    """One encoder of BERT's form: 12 heads, 384 dimensions, the mean over the tokens."""

    # As it is registered.
    name: str
    layers: int
    weights_file: WheelFile
    # Raises WeightsUnavailable.
    read_weights: Callable[[], Weights]
    # Texts put before each query and each stored text.
    query_prefix: str = ""
    passage_prefix: str = ""
    # Cosines that rank as 0 and as 1: see `skein_recall.models.similarity_scale`.
    similarity_floor: float = 0.0
    similarity_ceiling: float = 1.0
    # There is a projection of its token vectors: see `skein_recall.embedded_model.token_vectors`.
    has_tokens: bool = False


MINILM: Final = EncoderDescription(
    name="all-minilm-l6-v2",
    layers=6,
    weights_file=MINILM_FILE,
    read_weights=SafetensorsWeights.of_minilm,
    has_tokens=True,
)
# Wang et al., "Text Embeddings by Weakly-Supervised Contrastive Pre-training", 2022.
E5_SMALL: Final = EncoderDescription(
    name="e5-small-v2",
    layers=12,
    weights_file=E5_FILE,
    read_weights=OnnxWeights.of_e5,
    query_prefix="query: ",
    passage_prefix="passage: ",
    # Measured as for a model behind an endpoint.
    similarity_floor=0.733,
    similarity_ceiling=0.900,
)
EMBEDDED_MODELS: Final = {description.name: description for description in (MINILM, E5_SMALL)}
