"""Suggested links as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_memory.graph.model import MAX_TAGS, MAX_TITLE
from skein_memory.links.model import DEFAULT_RELATION

if TYPE_CHECKING:
    from skein_memory.graph.suggestions import Suggestion


def suggestion(value: Suggestion) -> pb.LinkSuggestion:
    """Convert a suggestion of a link."""
    other = value.memory
    return pb.LinkSuggestion(
        memory_id=str(other.memory_id),
        type=other.type,
        title=(other.title or "")[:MAX_TITLE],
        relation=DEFAULT_RELATION,
        score=value.score,
        tag_score=value.tag_score,
        word_score=value.word_score,
        source_score=value.source_score,
        time_score=value.time_score,
        type_score=value.type_score,
        shared_tags=value.shared_tags[:MAX_TAGS],
    )
