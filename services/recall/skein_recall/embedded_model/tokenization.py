"""The tokenizers of the embedded models, without padding and truncation."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from skein_recall.embedded_model.packed_model import multilingual_vocabulary
from skein_recall.embedded_model.weights import TOKENIZER_FILE


def wordpiece_tokenizer() -> Tokenizer:
    """Load that of BERT: lower-case English. Raises WeightsUnavailable."""
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE.find()))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def unigram_tokenizer() -> Tokenizer:
    """Build that of XLM-RoBERTa: pieces of a hundred languages, in one form of Unicode. Raises WeightsUnavailable."""
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
