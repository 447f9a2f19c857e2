"""Scores as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import scores_pb2

if TYPE_CHECKING:
    from skein_memory.scoring.model import Component, Scores


def scores(value: Scores) -> scores_pb2.Scores:
    """Convert scores."""
    return scores_pb2.Scores(
        confidence=value.confidence, importance=value.importance, formula=value.formula, version=value.version
    )


def component(value: Component) -> scores_pb2.ScoreComponent:
    """Convert a term of a formula."""
    return scores_pb2.ScoreComponent(name=value.name, value=value.value, detail=value.detail)
