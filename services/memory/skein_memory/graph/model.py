"""The graph of links: nodes, paths between memories, and links inferred from shared tags.

No gRPC, no SQL, no clock.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple
from uuid import UUID

DEFAULT_NODES = 80
SUBGRAPH_NODES = 120
DEFAULT_HOPS = 1
ACTIVATION_HOPS = 2
MAX_RADIUS = 4
MAX_PATH_HOPS = 8
DEFAULT_PATHS = 5
# Characters of a title in a response.
MAX_TITLE = 200
# Shared tags in a response for an inferred link, and how many give it the full strength.
MAX_TAGS = 10
_ENOUGH_TAGS = 3


class Step(NamedTuple):
    """A link in a traversal: from the current memory to the one at its other end."""

    near_id: UUID
    far_id: UUID
    link_id: UUID
    relation: str
    weight: float


def by_strength(step: Step) -> tuple[float, int]:
    """Order steps: the strongest first, of equal ones the newest."""
    return -step.weight, -step.link_id.int


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A memory of a traversal, and the link by which it was reached first; None for the start."""

    memory_id: UUID
    type: str
    title: str | None
    # Its title, else the beginning of its text, else its key.
    name: str
    hop: int
    via_link_id: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InferredLink:
    """Two memories that share tags; the first is the older."""

    from_memory_id: UUID
    to_memory_id: UUID
    shared_tags: tuple[str, ...]

    @property
    def weight(self) -> float:
        """Return the weight of the shared tags, up to 1."""
        return min(1.0, len(self.shared_tags) / _ENOUGH_TAGS)


def infer_links(
    tags: Mapping[UUID, Sequence[str]], linked: set[frozenset[UUID]], *, max_count: int
) -> tuple[list[InferredLink], bool]:
    """Return pairs with shared tags that are not `linked`, those with the most first; and whether there are more."""
    numbers = {
        tag: number for number, tag in enumerate(sorted({tag for memory_tags in tags.values() for tag in memory_tags}))
    }
    # A set of tags as the bits of one number, so that shared tags are counted at once.
    bits = {
        memory_id: sum(1 << numbers[tag] for tag in memory_tags)
        for memory_id, memory_tags in sorted(tags.items())
        if memory_tags
    }
    inferred = [
        (-shared.bit_count(), older, newer)
        for older, newer in combinations(bits, 2)
        if (shared := bits[older] & bits[newer]) and frozenset((older, newer)) not in linked
    ]
    inferred.sort()
    return [
        InferredLink(
            from_memory_id=older, to_memory_id=newer, shared_tags=tuple(sorted(set(tags[older]) & set(tags[newer])))
        )
        for _, older, newer in inferred[:max_count]
    ], len(inferred) > max_count


@dataclass(slots=True)
class StepGraph:
    """The known steps of a search for paths: of several from one memory to another, the strongest."""

    outgoing: dict[UUID, dict[UUID, Step]] = field(default_factory=dict)
    _sorted_steps: dict[UUID, list[Step]] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Add a step."""
        steps = self.outgoing.setdefault(step.near_id, {})
        if step.far_id not in steps or by_strength(step) < by_strength(steps[step.far_id]):
            steps[step.far_id] = step
            self._sorted_steps.pop(step.near_id, None)

    def of(self, node: UUID) -> list[Step]:
        """Return the steps from a node, the strongest first."""
        if node not in self._sorted_steps:
            self._sorted_steps[node] = sorted(self.outgoing.get(node, {}).values(), key=by_strength)
        return self._sorted_steps[node]

    def distances(self, goal: UUID, *, within: int) -> dict[UUID, int]:
        """Return the least number of steps from each node to the goal."""
        incoming: dict[UUID, list[UUID]] = {}
        for near, steps in self.outgoing.items():
            for far in steps:
                incoming.setdefault(far, []).append(near)
        hops, queue = {goal: 0}, deque([goal])
        while queue:
            node = queue.popleft()
            if hops[node] == within:
                continue
            for near in incoming.get(node, ()):
                if near not in hops:
                    hops[near] = hops[node] + 1
                    queue.append(near)
        return hops


@dataclass(slots=True)
class SearchBudget:
    """The remaining steps of a search."""

    remaining: int
    # A step was refused.
    is_spent: bool = False

    def take(self) -> bool:
        """Take one step; return False when none is left."""
        self.remaining -= 1
        self.is_spent = self.is_spent or self.remaining < 0
        return not self.is_spent


def shortest_paths(
    graph: StepGraph, start: UUID, goal: UUID, *, hops: int, count: int, budget: SearchBudget
) -> list[list[Step]]:
    """Return up to `count` paths without repeated nodes, shortest first; equally long ones in the order of their steps.

    The queue orders incomplete paths by their minimum length, so the shortest are complete first. An exhausted budget
    gives fewer paths.
    """
    remaining_hops = graph.distances(goal, within=hops)
    if start not in remaining_hops:
        return []
    paths: list[list[Step]] = []
    # Of two paths of one length, the one with the stronger steps from the start on is continued first.
    queue: list[tuple[int, tuple[int, ...], list[Step]]] = [(remaining_hops[start], (), [])]
    while queue and len(paths) < count:
        _, ranks, path = heappop(queue)
        node = path[-1].far_id if path else start
        if node == goal:
            paths.append(path)
            continue
        visited = {start, *(step.far_id for step in path)}
        for rank, step in enumerate(graph.of(node)):
            length = len(path) + 1 + remaining_hops.get(step.far_id, hops)
            if length > hops or step.far_id in visited:
                continue
            if not budget.take():
                return paths
            heappush(queue, (length, (*ranks, rank), [*path, step]))
    return paths


TAGS, WORDS, SOURCE, TIME, TYPE = 0.45, 0.35, 0.1, 0.05, 0.05
# More shared tags do not raise the score.
MAX_SHARED_TAGS = 3
# Memories created further apart get no score for their time.
MAX_TIME_APART = timedelta(days=30)
# Characters of content that are compared.
MAX_CHARACTERS_COMPARED = 2000
_WORD = re.compile(r"\w+")
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """The compared fields of a memory; `tags` may be limited to those that can be shared."""

    memory_id: UUID
    type: str
    title: str | None
    content: str
    source: str | None
    create_time: datetime
    tags: Sequence[str]

    @property
    def words(self) -> frozenset[str]:
        """Return the words of its title and of the beginning of its content, in lower case."""
        return frozenset(_WORD.findall(f"{self.title or ''}\n{self.content[:MAX_CHARACTERS_COMPARED]}".lower()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """A memory to link with; the score is the sum of its parts."""

    memory: Candidate
    shared_tags: tuple[str, ...]
    tag_score: float
    word_score: float
    source_score: float
    time_score: float
    type_score: float

    @property
    def score(self) -> float:
        """Return the similarity, 0 to 1."""
        parts = self.tag_score + self.word_score + self.source_score + self.time_score + self.type_score
        return round(min(1.0, parts), _DIGITS)


def compare(memory: Candidate, other: Candidate) -> Suggestion:
    """Return the similarity of two memories by its parts."""
    shared_tags = tuple(sorted(set(memory.tags) & set(other.tags)))
    words, other_words = memory.words, other.words
    union_size = len(words | other_words)
    time_distance = abs(memory.create_time - other.create_time)
    return Suggestion(
        memory=other,
        shared_tags=shared_tags,
        tag_score=TAGS * min(1.0, len(shared_tags) / MAX_SHARED_TAGS),
        word_score=WORDS * len(words & other_words) / union_size if union_size else 0.0,
        source_score=SOURCE if memory.source is not None and memory.source == other.source else 0.0,
        time_score=TIME * max(0.0, 1.0 - time_distance / MAX_TIME_APART),
        type_score=TYPE if memory.type == other.type else 0.0,
    )


def suggest(memory: Candidate, others: Iterable[Candidate], *, min_score: float, count: int) -> list[Suggestion]:
    """Return the most similar memories with a shared tag and at least `min_score`, best first; of equals the newest."""
    suggestions = [compare(memory, other) for other in others]
    matches = [suggestion for suggestion in suggestions if suggestion.shared_tags and suggestion.score >= min_score]
    matches.sort(key=lambda suggestion: (-suggestion.score, -suggestion.memory.memory_id.int))
    return matches[:count]
