"""One trace as a tree of services, methods and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.semconv.attributes import db_attributes
from opentelemetry.trace import SpanKind
from rich.text import Text
from rich.tree import Tree

_NANOS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class SpanNode:
    """A span and its children, in order of time."""

    span: ReadableSpan
    children: tuple[SpanNode, ...]


def find_trace(spans: Iterable[ReadableSpan], name: str) -> SpanNode | None:
    """Return the newest trace whose root has this name; None when there is none."""
    finished = [span for span in spans if span.context is not None]
    roots = [span for span in finished if span.parent is None and span.name == name]
    if not roots:
        return None
    root = max(roots, key=lambda span: span.start_time or 0)
    return _node(root, [span for span in finished if span.context.trace_id == root.context.trace_id])


def render_tree(root: SpanNode) -> Tree:
    """Return the trace as a tree to print."""
    tree = Tree(_label(root.span))
    _grow(tree, root)
    return tree


def _node(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> SpanNode:
    children = [child for child in spans if child.parent is not None and child.parent.span_id == span.context.span_id]
    children.sort(key=lambda child: child.start_time or 0)
    return SpanNode(span, tuple(_node(child, spans) for child in children))


def _grow(tree: Tree, node: SpanNode) -> None:
    for child in node.children:
        _grow(tree.add(_label(child.span)), child)


def _label(span: ReadableSpan) -> Text:
    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / _NANOS_PER_MS
    attributes = span.attributes or {}
    operation = attributes.get(db_attributes.DB_OPERATION_NAME)
    if operation is not None:
        name, style = f"SQL {operation} {span.name}", "cyan"
    elif span.kind is SpanKind.CLIENT:
        name, style = f"→ {_short(span.name)}", "dim"
    else:
        name, style = _short(span.name), "bold"
    return Text.assemble((name, style), (f"  {milliseconds:.2f} ms", "green"))


def _short(name: str) -> str:
    """Shorten "skein.recall.v1.RecallService/Recall" to "recall RecallService/Recall"."""
    parts = name.split(".")
    return f"{parts[1]} {parts[-1]}" if len(parts) > 1 and parts[0] == "skein" else name
