"""The embedded models: what each is, needs and can read, and their tokenizers. No session."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from skein_recall.embedded_model.packed_model import MULTILINGUAL_FILE, PackedWeights, multilingual_vocabulary
from skein_recall.embedded_model.weights import (
    E5_FILE,
    MINILM_FILE,
    TOKENIZER_FILE,
    OnnxWeights,
    SafetensorsWeights,
    Weights,
    WheelFile,
)
from skein_recall.models.similarity_scale import COSINE_SCALE, SimilarityScale

# Basic Latin to Latin Extended-B, and Latin Extended Additional.
LATIN: Final = re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")
# Of the languages of XLM-RoBERTa (Conneau et al., 2020): Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic; the Indic
# scripts from Devanagari to Sinhala; Thai and Lao; Burmese and Georgian; Hangul; Ethiopic; Khmer; Latin and Greek with
# further marks; Kana; Chinese; Hangul; and forms of Latin, Hebrew, Arabic and full width.
OF_HUNDRED_LANGUAGES: Final = re.compile(
    "[A-Za-z\u00aa-\u06ff\u0750-\u077f\u0900-\u0eff\u1000-\u137f\u1780-\u17ff\u1e00-\u1fff\u3005-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufdff\ufe70-\uffdf\U00020000-\U0002fa1f]"
)
# Only so much of a text is counted.
_READ_CHARACTERS: Final = 8192


def readable_share(text: str, letters: re.Pattern[str] = LATIN) -> float:
    """Return the share of a text's letters, 0 to 1, that a model can read; 1 for a text without letters.

    A model's tokens of scripts that it was not trained on are single letters or unknown, and the cosines of such texts
    are high whatever they mean.
    """
    if text.isascii():
        return 1.0
    found = [character for character in text[:_READ_CHARACTERS] if character.isalpha()]
    return sum(map(bool, map(letters.match, found))) / len(found) if found else 1.0


def wordpiece_tokenizer() -> Tokenizer:
    """Load the tokenizer of BERT, without padding and truncation: lower-case English. Raises WeightsUnavailable."""
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE.find()))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def unigram_tokenizer() -> Tokenizer:
    """Build the tokenizer of XLM-RoBERTa: pieces of a hundred languages, in one form of Unicode.

    Raises WeightsUnavailable.
    """
    vocabulary = multilingual_vocabulary()
    tokenizer = Tokenizer(models.Unigram(vocabulary.pieces, vocabulary.unknown_id, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            # Control characters, but white space.
            normalizers.Replace(Regex("[\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f\\x8f\\x9f]"), ""),
            normalizers.Replace(Regex("\\s+"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", vocabulary.begin_id), ("</s>", vocabulary.end_id)]
    )
    return tokenizer


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
