"""Curation between the domain and protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import scores_pb2
from skein_kit.rpc.well_known_types import to_timestamp
from skein_memory.curation import model as curation
from skein_memory.memories import convert as wire

if TYPE_CHECKING:
    from skein_memory.aliases.model import Alias
    from skein_memory.conflicts.model import Conflict, Resolution
    from skein_memory.curation.store import DuplicateGroup
    from skein_memory.memories.model import Memory
    from skein_memory.overview.store import Cluster, ReviewItem, Statistics
    from skein_memory.scoring.model import Component
    from skein_memory.source_trust.model import SourceTrust


def component(value: Component) -> scores_pb2.ScoreComponent:
    """Convert a term of a formula."""
    return scores_pb2.ScoreComponent(name=value.name, value=value.value, detail=value.detail)


def reinforced(value: Memory) -> scores_pb2.ReinforcedMemory:
    """Convert what reinforcing made of a memory."""
    return scores_pb2.ReinforcedMemory(
        memory_id=str(value.memory_id),
        confidence=value.draft.confidence,
        importance=value.draft.importance,
        revision=value.revision,
    )


def group(value: DuplicateGroup) -> scores_pb2.DuplicateGroup:
    """Convert a group of memories that say the same."""
    return scores_pb2.DuplicateGroup(
        kept_memory_id=str(value.kept_id), archived_memory_ids=[str(id_) for id_ in value.archived_ids]
    )


def source_trust(value: SourceTrust) -> pb.SourceTrust:
    """Convert what was said of a source."""
    return pb.SourceTrust(
        source_trust_id=value.source_trust_id,
        source_key=value.source_key,
        source=value.source_key,
        trust=value.trust,
        notes=value.notes or "",
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
    )


def alias(value: Alias) -> pb.Alias:
    """Convert an alias."""
    return pb.Alias(
        alias_memory_id=str(value.alias_memory_id),
        canonical_memory_id=str(value.canonical_memory_id),
        confidence=value.confidence,
        note=value.note or "",
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
    )


def resolution(value: Resolution) -> pb.ConflictResolution:
    """Convert what was said of a conflict."""
    canonical = value.canonical_memory_id
    return pb.ConflictResolution(
        resolution_id=str(value.resolution_id),
        pair_key=curation.pair_key(value.a_memory_id, value.b_memory_id),
        a_memory_id=str(value.a_memory_id),
        b_memory_id=str(value.b_memory_id),
        status=f"CONFLICT_STATUS_{value.status.upper()}",
        canonical_memory_id="" if canonical is None else str(canonical),
        note=value.note or "",
        revision=value.revision,
        create_time=to_timestamp(value.create_time),
        update_time=to_timestamp(value.update_time),
        created_by=value.created_by,
        updated_by=value.updated_by,
    )


def conflict(value: Conflict) -> pb.Conflict:
    """Convert a conflict, both memories complete."""
    return pb.Conflict(
        pair_key=curation.pair_key(value.a.memory_id, value.b.memory_id),
        reason=f"CONFLICT_REASON_{value.reason.upper()}",
        a=wire.memory(value.a),
        b=wire.memory(value.b),
        score=value.score,
        resolution=None if value.resolution is None else resolution(value.resolution),
    )


def review_item(value: ReviewItem) -> pb.ReviewItem:
    """Convert a memory that deserves a second look."""
    return pb.ReviewItem(
        memory=wire.memory(value.memory),
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
    """Convert how much there is."""
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
