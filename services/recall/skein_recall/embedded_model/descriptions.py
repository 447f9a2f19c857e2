"""The embedded models: what each is, and what it needs. No session, no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tokenizers import Tokenizer

from skein_recall.embedded_model.packed_model import MULTILINGUAL_FILE, PackedWeights
from skein_recall.embedded_model.scripts import LATIN, OF_HUNDRED_LANGUAGES
from skein_recall.embedded_model.tokenization import unigram_tokenizer, wordpiece_tokenizer
from skein_recall.embedded_model.weights import (
    E5_FILE,
    MINILM_FILE,
    OnnxWeights,
    SafetensorsWeights,
    Weights,
    WheelFile,
)
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale

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
    read_tokenizer: Callable[[], Tokenizer] = wordpiece_tokenizer
    # A letter of the scripts that the model was trained on.
    letters: re.Pattern[str] = LATIN
    # Its tokenizer splits at spaces alone, where some languages have none.
    has_joined_words: bool = False
    # Whose graph it has; empty: one of its own.
    graph_name: str = ""
    # Texts put before each query and each stored text.
    query_prefix: str = ""
    passage_prefix: str = ""
    similarity_scale: SimilarityScale = COSINE_SCALE
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
    similarity_scale=SimilarityScale(0.733, 0.900),
)
# Wang et al., "Multilingual E5 Text Embeddings", 2024.
MULTILINGUAL: Final = EncoderDescription(
    name="multilingual-e5-small",
    layers=12,
    weights_file=MULTILINGUAL_FILE,
    read_weights=PackedWeights.of_multilingual,
    read_tokenizer=unigram_tokenizer,
    letters=OF_HUNDRED_LANGUAGES,
    has_joined_words=True,
    graph_name=E5_SMALL.name,
    query_prefix="query: ",
    passage_prefix="passage: ",
    # Measured as for a model behind an endpoint.
    similarity_scale=SimilarityScale(0.728, 0.884),
)
EMBEDDED_MODELS: Final = {description.name: description for description in (MINILM, E5_SMALL, MULTILINGUAL)}
