"""Overviews in the database: bounded reads, each from an index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest
from uuid import UUID

from skein_kit.calls.call import current_space_ids
from skein_kit.database.transactions import Database
from skein_kit.ids import id_time, min_id_at
from skein_kit.policies.store import PolicyCache
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import MAX_AHEAD, Memory
from skein_memory.memories.rows import with_scores
from skein_memory.overview import model as overview_model
from skein_memory.overview.model import end_of_unit, tag_counts, truncate_time
from skein_memory.queries import QUERIES
from skein_memory.scoring import model as scoring_model
from skein_memory.scoring.inputs import NO_INPUTS, read_score_inputs
from skein_memory.tenant_reader import TenantReader

# Candidates of each reason for a review; a response has at most so many memories.
_CANDIDATES = 100
# Memories that clusters and statistics count, links, tags of these memories, and aliases.
MAX_CLUSTERED = 10_000
MAX_SAMPLED = 5_000
_MAX_TAGS = 50_000
_MAX_ALIASES = 10_000
# Expired memories that are taken off the total; more stay in it until they are erased.
_MAX_EXPIRED = 10_000
_NAMED_IN_CLUSTER = 5
_NO_ID = UUID(int=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewItem:
    """A memory that needs a review, and why."""

    memory: Memory
    urgency: float
    stale_days: float
    links: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """The memories of one span of time."""

    start: datetime
    end: datetime
    count: int
    types: Mapping[str, int]
    memory_ids: Sequence[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """Counts of a tenant's memory; partial counts have the size of their sample."""

    totals: Mapping[str, int]
    aliases: int
    memories: int
    memories_truncated: bool
    types: Mapping[str, int]
    scopes: Mapping[str, int]
    levels: Mapping[str, int]
    tags: Sequence[tuple[str, int]]
    tag_pairs: Sequence[tuple[str, str, int]]
    links: int
    links_truncated: bool
    relations: Mapping[str, int]
    # Memories that lists would show, with how many of these links they have, the most first.
    most_linked: Sequence[tuple[UUID, int]]


class OverviewStore:
    """Reads overviews of a tenant's memory."""

    def __init__(self, database: Database, *, policies: PolicyCache) -> None:
        self._database = database
        self._policies = policies

    async def review(self, tenant_id: UUID, *, limit: int, at: datetime) -> list[ReviewItem]:
        """Return the most urgent of the candidates, most urgent first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["find_review_candidates"], tenant_id=tenant_id, count=_CANDIDATES)
            unscored = await memory_rows.read_memories(tx, tenant_id, [row["memory_id"] for row in rows])
            memories = [memory for memory in unscored.values() if memory.is_visible(at)]
            inputs = await read_score_inputs(tx, tenant_id, memories)
            scored = await with_scores(tx, tenant_id, self._policies, memories, at=at)
        items = []
        for memory in scored:
            memory_inputs = inputs.get(memory.memory_id, NO_INPUTS)
            stale_days = scoring_model.days_between(scoring_model.last_used(memory, memory_inputs), at)
            if memory.memory_scores is not None:
                urgency = overview_model.urgency(
                    memory.memory_scores.scores, stale_days=stale_days, links=memory_inputs.links
                )
                items.append(
                    ReviewItem(memory=memory, urgency=urgency, stale_days=stale_days, links=memory_inputs.links)
                )
        return nlargest(limit, items, key=lambda item: (item.urgency, item.memory.memory_id))

    async def clusters(
        self, tenant_id: UUID, unit: str, *, start: datetime, end: datetime, at: datetime, as_of_time: datetime | None
    ) -> tuple[list[Cluster], bool]:
        """Count memories from `start` to before `end` by their hour, day, week or month, as of a time, newest first.

        Return as well whether there were more than are counted.
        """
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            await reader.charge_scan()
            rows = await reader.rows(
                "list_kinds",
                from_id=min_id_at(start),
                before_id=min_id_at(end),
                at=reader.at,
                count=MAX_CLUSTERED + 1,
            )
        spans: defaultdict[datetime, list[tuple[float, UUID, str]]] = defaultdict(list)
        for row in rows[:MAX_CLUSTERED]:
            span_start = truncate_time(id_time(row["memory_id"]), unit)
            spans[span_start].append((row["importance"], row["memory_id"], row["type"]))
        clusters = [
            Cluster(
                start=span_start,
                end=end_of_unit(span_start, unit),
                count=len(members),
                types=Counter(kind for _, _, kind in members),
                memory_ids=[id_ for _, id_, _ in nlargest(_NAMED_IN_CLUSTER, members)],
            )
            for span_start, members in spans.items()
        ]
        return clusters, len(rows) > MAX_CLUSTERED

    async def statistics(self, tenant_id: UUID, *, top: int, at: datetime, as_of_time: datetime | None) -> Statistics:
        """Count a tenant's memory as of a time: its totals, and the rest over the newest memories."""
        async with TenantReader.open(self._database, tenant_id, at=at, as_of_time=as_of_time) as reader:
            await reader.charge_scan()
            totals = await _read_totals(reader)
            alias_row = await reader.row("count_aliases", most=_MAX_ALIASES)
            rows = await reader.rows(
                "list_kinds",
                from_id=_NO_ID,
                before_id=min_id_at(at + 2 * MAX_AHEAD),
                at=reader.at,
                count=MAX_SAMPLED + 1,
            )
            sample = rows[:MAX_SAMPLED]
            tags_by_memory: defaultdict[UUID, list[str]] = defaultdict(list)
            if sample:
                sample_ids = {row["memory_id"] for row in sample}
                for row in await reader.rows("list_tags_since", from_id=sample[-1]["memory_id"], count=_MAX_TAGS):
                    if row["memory_id"] in sample_ids:
                        tags_by_memory[row["memory_id"]].append(row["tag"])
            links = await reader.rows("list_newest_links", count=MAX_SAMPLED + 1)
            link_counts = Counter(
                row[end] for row in links[:MAX_SAMPLED] for end in ("from_memory_id", "to_memory_id")
            ).most_common(2 * top)
            rows_of_visible = await reader.rows(
                "find_visible_node", memory_ids=[memory_id for memory_id, _ in link_counts], at=reader.at
            )
        visible_ids = {row["memory_id"] for row in rows_of_visible}
        tags, pairs = tag_counts(tags_by_memory.values(), top)
        return Statistics(
            totals=totals,
            aliases=0 if alias_row is None else alias_row["count"],
            memories=len(sample),
            memories_truncated=len(rows) > MAX_SAMPLED,
            types=Counter(row["type"] for row in sample),
            scopes=Counter(row["scope"] for row in sample),
            levels=Counter(row["level"] for row in sample),
            tags=tags,
            tag_pairs=pairs,
            links=min(len(links), MAX_SAMPLED),
            links_truncated=len(links) > MAX_SAMPLED,
            relations=Counter(row["relation"] for row in links[:MAX_SAMPLED]),
            most_linked=[one for one in link_counts if one[0] in visible_ids][:top],
        )


async def _read_totals(reader: TenantReader) -> Mapping[str, int]:
    """Count memories and links: by stored counters, or one by one as of a time or in spaces, which have no counter."""
    if reader.as_of_time is not None or current_space_ids() is not None:
        row = await reader.row("count_memories_and_links", at=reader.at)
        return {} if row is None else dict(row)
    totals = {row["kind"]: row["amount"] for row in await reader.rows("read_totals")}
    if "memories" in totals:
        expired = await reader.tx.value(
            QUERIES["count_expired"], tenant_id=reader.tenant_id, at=reader.at, most=_MAX_EXPIRED
        )
        totals["memories"] = max(0, totals["memories"] - expired)
    return totals
