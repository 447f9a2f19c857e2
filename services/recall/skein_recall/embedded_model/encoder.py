"""An encoder: its weights, its tokenizer, and its session. No queue, no thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import onnxruntime  # type: ignore[import-untyped] # ships neither annotations nor stubs
from numpy.typing import NDArray
from tokenizers import Tokenizer

from skein_recall.embedded_model.descriptions import DIMENSIONS, EncoderDescription
from skein_recall.embedded_model.token_vectors import projection
from skein_recall.embedded_model.weights import LINEAR_LAYERS, Weights, WeightsUnavailable, WordEmbeddings

# Tokens of the window, with [CLS] and [SEP]: all-MiniLM-L6-v2's reference implementation has as many.
WINDOW = 256
SPECIAL_TOKENS = 2
# Columns between the two layers of a feed-forward network, and positions.
WIDE: Final = 4 * DIMENSIONS
POSITIONS: Final = 512

# The encoder's matrices are quantized to uint8, with one scale for so many weights of a row. It halves the time of a
# query, which reads a quarter of the memory. Vectors of sentences turn by two degrees (a cosine of 0.9994). 85.6 % of
# LoCoMo's evidence is among the first ten instead of 85.9 %, within the noise. Longer blocks are faster and less
# exact. It needs AVX2, or dot products on ARM; other processors convert the weights to float32 for each batch.
BLOCK = 64
_MAX_CODE, _ZERO = 127, 128


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A matrix quantized to uint8: a weight is (code - 128) times the scale of its block."""

    # uint8 (rows, blocks of a row, BLOCK).
    codes: NDArray[np.uint8]
    # float32 (rows * blocks of a row,).
    scales: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: NDArray[np.float32]) -> QuantizedMatrix:
        """Quantize a matrix (rows, columns); the largest weight of a block is 127 times its scale."""
        blocks = matrix.reshape(len(matrix), -1, BLOCK)
        scales = np.abs(blocks).max(axis=2) / np.float32(_MAX_CODE)
        # A block of zeros needs no scale, and a subnormal one would be inexact.
        scales[scales < np.finfo(np.float32).tiny] = 1
        codes = (np.rint(blocks / scales[..., np.newaxis]) + _ZERO).astype(np.uint8)
        return cls(codes, scales.reshape(-1))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (rows, columns) of the original matrix."""
        rows, blocks, _ = self.codes.shape
        return rows, blocks * BLOCK

    def initializers(self, layer: str) -> dict[str, NDArray[np.generic]]:
        """Return both arrays by their names in the graph."""
        return {f"{layer}.numbers": self.codes, f"{layer}.steps": self.scales}


def tensor_shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Return the tensors of an encoder but its word embeddings, with their shapes."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.position_embeddings.weight": (POSITIONS, DIMENSIONS),
        "embeddings.token_type_embeddings.weight": (2, DIMENSIONS),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        for part in LINEAR_LAYERS:
            rows = WIDE if part == "intermediate.dense" else DIMENSIONS
            columns = WIDE if part == "output.dense" else DIMENSIONS
            shapes |= {f"{layer}.{part}.weight": (rows, columns), f"{layer}.{part}.bias": (rows,)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    return shapes | {f"{norm}.{part}": (DIMENSIONS,) for norm in norms for part in ("weight", "bias")}


def is_quantized(name: str) -> bool:
    """Return whether a graph has a tensor as codes and scales: the matrix of a linear layer."""
    return name.startswith("encoder.") and name.endswith(".weight") and "LayerNorm" not in name


def initializers(weights: Weights, layers: int) -> dict[str, NDArray[np.generic]]:
    """Return all arrays by their names in the graph: quantized matrices are computed in 0.02 s for each layer.

    Raises WeightsUnavailable.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, shape in tensor_shapes(layers).items():
        tensor = weights.tensor(name)
        if tensor.shape != shape:
            message = f"The weights do not fit the graph: {name} is {tensor.shape}, not {shape}."
            raise WeightsUnavailable(message)
        if is_quantized(name):
            arrays |= QuantizedMatrix.of(tensor).initializers(name.removesuffix(".weight"))
        else:
            arrays[name] = tensor
    return arrays


@dataclass(frozen=True, slots=True)
class Encoder:
    """A loaded model. Its methods are thread-safe, and release the interpreter lock while they work."""

    description: EncoderDescription
    # Outside of the graph: onnxruntime would copy 47 MB that are mapped from a file.
    word_embeddings: WordEmbeddings
    session: onnxruntime.InferenceSession
    # The session reads these arrays as long as it lives.
    external_initializers: Mapping[str, NDArray[np.generic]]
    tokenizer: Tokenizer

    dimensions: ClassVar[int] = DIMENSIONS

    @classmethod
    def load(cls, description: EncoderDescription, *, threads: int) -> Encoder:
        """Load weights, graph and tokenizer, and check that they fit. Raises WeightsUnavailable."""
        weights = description.read_weights()
        arrays = initializers(weights, description.layers)
        return cls(
            description=description,
            word_embeddings=weights.word_embeddings,
            session=_session(graph_bytes(description), arrays, threads=threads),
            external_initializers=arrays,
            tokenizer=description.read_tokenizer(),
        )

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, with [CLS] and [SEP], cut to the window."""
        # `encode` would hold the GIL, for 30 ms with the longest text; the batch form releases it.
        rows = [encoded.ids for encoded in self.tokenizer.encode_batch_fast(texts)]
        return [row if len(row) <= WINDOW else [*row[: WINDOW - 1], row[-1]] for row in rows]

    def words(self, text: str) -> tuple[list[int | None], list[tuple[int, int]]]:
        """Return the word of each token of the whole text, and its start and end in characters.

        A model whose words are whole sentences in some languages has each token as a word.
        """
        (encoded,) = self.tokenizer.encode_batch([text], add_special_tokens=False)
        if not self.description.has_joined_words:
            return encoded.word_ids, encoded.offsets
        # A token begins with the space before it.
        offsets = [(start + text[start : start + 1].isspace(), end) for start, end in encoded.offsets]
        return [*range(len(offsets))], offsets

    def words_of_tokens(self, text: str) -> list[str]:
        """Return the word of each token of a text, in lower case, as far as the window goes."""
        word_ids, offsets = self.words(text)
        bounds: dict[int | None, tuple[int, int]] = {}
        for word_id, (start, end) in zip(word_ids, offsets, strict=True):
            bounds[word_id] = bounds.get(word_id, (start, end))[0], end
        words = {word_id: text[start:end].casefold() for word_id, (start, end) in bounds.items()}
        return [words[word_id] for word_id in word_ids[: WINDOW - SPECIAL_TOKENS]]

    def has_word(self, word: str) -> bool:
        """Return whether the vocabulary has a lower-case word as one piece: the frequent words of English."""
        return self.tokenizer.token_to_id(word) is not None

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Embed rows of token ids as one batch, padded to the longest; return float32 (rows, 384) of unit vectors."""
        vectors: NDArray[np.float32] = self.session.run(["embeddings"], self._inputs(rows))[0]
        return vectors

    def vectors_and_tokens(
        self, rows: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        """Embed rows as `vectors` does; return with them the vectors of each row's tokens without [CLS] and [SEP].

        These are (tokens, 32): `token_vectors` says what they are.
        """
        vectors, states = self.session.run(["embeddings", "tokens"], self._inputs(rows))
        return vectors, [projection().vectors(states[index, 1 : len(row) - 1]) for index, row in enumerate(rows)]

    def token_states(self, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Return the hidden states (tokens, 384) of each row's tokens without [CLS] and [SEP]."""
        (states,) = self.session.run(["tokens"], self._inputs(rows))
        return [states[index, 1 : len(row) - 1] for index, row in enumerate(rows)]

    def _inputs(self, rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.generic]]:
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        return {"words": self.word_embeddings.rows(ids), "attention_mask": mask}


def graph_path(description: EncoderDescription) -> Path:
    """Return the path of a model's graph, which `build_graph` writes."""
    return Path(__file__).with_name(f"{description.graph_name or description.name}.onnx")


def graph_bytes(description: EncoderDescription) -> bytes:
    """Read a model's graph."""
    return graph_path(description).read_bytes()


def _session(graph: bytes, arrays: Mapping[str, NDArray[np.generic]], *, threads: int) -> onnxruntime.InferenceSession:
    """Load the graph with its weights."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Batches differ in shape, so memory patterns would rarely fit and only accumulate.
    options.enable_mem_pattern = False
    # Idle threads sleep, to leave the core to other services.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_external_initializers(
        [*arrays], [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in arrays.values()]
    )
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
