"""Overviews as protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2 as pb
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.memories import convert as memories_convert

if TYPE_CHECKING:
    from skein_memory.overview.store import Cluster, ReviewItem, Statistics


def review_item(value: ReviewItem) -> pb.ReviewItem:
    """Convert an item of the review queue."""
    return pb.ReviewItem(
        memory=memories_convert.memory(value.memory),
        urgency=round(value.urgency, 3),
        stale_days=round(value.stale_days, 3),
        link_count=value.links,
    )


def cluster(value: Cluster) -> pb.TemporalCluster:
    """Convert the memories of one span of time."""
    return pb.TemporalCluster(
        start_time=to_timestamp(value.start),
        end_time=to_timestamp(value.end),
        count=value.count,
        type_counts=value.types,
        memory_ids=[str(id_) for id_ in value.memory_ids],
    )


def statistics(value: Statistics) -> pb.GetStatisticsResponse:
    """Convert statistics."""
    memories, links = value.totals.get("memories", 0), value.totals.get("links", 0)
    return pb.GetStatisticsResponse(
        memory_count=memories,
        link_count=links,
        alias_count=value.aliases,
        sampled_memory_count=value.memories,
        memories_truncated=value.memories_truncated,
        type_counts=value.types,
        scope_counts=value.scopes,
        level_counts=value.levels,
        tags=[pb.TagCount(tag=tag, count=count) for tag, count in value.tags],
        tag_pairs=[pb.TagPair(first=first, second=second, count=count) for first, second, count in value.tag_pairs],
        sampled_link_count=value.links,
        links_truncated=value.links_truncated,
        relation_counts=value.relations,
        mean_degree=round(2 * links / memories, 3) if memories else 0.0,
    )
