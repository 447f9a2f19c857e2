"""Chains of sources and the trust along them. No I/O, no clock.

The trust of a chain is that of its weakest link. Chains with separate weakest links confirm each other: their belief
above the neutral trust is combined as in certainty factors (Shortliffe and Buchanan, "A Model of Inexact Reasoning in
Medicine", 1975), 1 - (1 - a)(1 - b), which is the noisy-or of Pearl ("Probabilistic Reasoning in Intelligent Systems",
1988). A memory with one distrusted part is worth no more than that part, because its text contains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import UUID

from skein_kit.text.source_keys import source_key
from skein_memory.scoring.model import NEUTRAL_TRUST

# Confirmation alone raises no trust above this.
MAX_CONFIRMED_TRUST = 0.98
# Sources of one memory that a caller or an import names, and all of them, with those of merges and consolidations.
MAX_DECLARED_SOURCES = 50
MAX_STORED_SOURCES = 200
# Steps that a chain is followed, and nodes that one call reads.
MAX_DEPTH = 32
MAX_NODES = 2000

Kind: TypeAlias = Literal[
    "message", "memory", "document", "import", "agent", "person", "tool", "writer", "editor", "declarer"
]
# The principals of a memory beside the one that created it: no sources.
PRINCIPAL_KINDS: AbstractSet[Kind] = frozenset({"writer", "editor", "declarer"})
Role: TypeAlias = Literal["part", "repeat", "replaced"]
# A message or memory by its id, any other source by its key.
NodeKey: TypeAlias = tuple[str, UUID | str]
# The chains of a node: the trust of each, by its weakest link.
_Chains: TypeAlias = dict[NodeKey, float]
# The end of all chains that were not followed to their origin.
_CUT: NodeKey = ("cut", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One source of a memory: a message or memory has an id, any other one a name."""

    kind: Kind
    source_id: UUID | None = None
    name: str | None = None
    role: Role = "part"
    # Its trust when it was erased; None: it was not.
    erased_trust: float | None = None
    # A caller named it; else Skein did, which callers cannot undo.
    is_declared: bool = False
    # The characters of a message that say it: the first, and the one behind the last. None: the whole source.
    characters: tuple[int, int] | None = None

    @property
    def name_key(self) -> str | None:
        """The name in the form in which sources are compared."""
        return None if self.name is None else source_key(self.name)

    @property
    def node(self) -> NodeKey:
        """Its node in a graph."""
        return self.kind, self.source_id if self.source_id is not None else source_key(self.name)

    @property
    def is_principal(self) -> bool:
        """Whether it is no source, but a principal that wrote a part of the memory."""
        return self.kind in PRINCIPAL_KINDS

    @property
    def is_erased(self) -> bool:
        """Whether it was purged."""
        return self.erased_trust is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What is known of a memory, a message or a named source: the keys that may be rated, and the sources."""

    keys: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    # Those of the keys that are principals: they vouch for the names that the memory gives.
    principals: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """Memories with everything that they derive from, as far as it was followed."""

    nodes: Mapping[NodeKey, Node]
    # Trust by source key.
    ratings: Mapping[str, float]
    # Stored trust of memories whose own sources were not followed any more.
    cut: Mapping[NodeKey, float] = field(default_factory=dict)


def node_keys(*names: str | None) -> tuple[str, ...]:
    """Return the source keys of names that may be rated, each once."""
    return tuple(dict.fromkeys(key for name in names if (key := source_key(name))))


def principals_of(sources: Sequence[Source], created_by: str | None) -> list[str]:
    """Return the principals that a memory's trust depends on: the one that wrote its text comes first."""
    names = {source.kind: source.name for source in sources if source.is_principal}
    editors = [source.name for source in sources if source.kind == "editor"]
    return list(
        dict.fromkeys(name for name in (names.get("writer", created_by), *editors, names.get("declarer")) if name)
    )


class TrustCalculator:
    """Computes the trust of nodes of one graph; each node is computed once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._chains: dict[NodeKey, _Chains] = {}

    def trust(self, key: NodeKey) -> float:
        """Return the trust of a node, 0 to 1."""
        return combine(self._chains_of(key).values())

    def _chains_of(self, key: NodeKey) -> _Chains:
        """Compute a node after its sources. A chain may be longer than the stack of Python is deep."""
        pending, opened = [key], set[NodeKey]()
        while pending:
            current = pending[-1]
            if current in self._chains:
                pending.pop()
                continue
            if current not in opened:
                opened.add(current)
                pending += [
                    source
                    for source in self._needed_nodes(current)
                    if source not in self._chains and source not in opened
                ]
            if pending[-1] is current:
                self._chains[current] = self._compute(current)
        return self._chains[key]

    def _needed_nodes(self, key: NodeKey) -> list[NodeKey]:
        node = None if key in self._graph.cut else self._graph.nodes.get(key)
        return [
            source.node
            for source in (() if node is None else node.sources)
            if not source.is_principal and source.role != "replaced" and not source.is_erased
        ]

    def _compute(self, key: NodeKey) -> _Chains:
        if key in self._graph.cut:
            # Ends that were not followed may all have one origin.
            return {_CUT: self._graph.cut[key]}
        node = self._graph.nodes.get(key)
        if node is None:
            return {key: NEUTRAL_TRUST}
        weakest = min(
            ((self._graph.ratings[name], name) for name in node.keys if name in self._graph.ratings), default=None
        )
        # A name can be invented: without a rating of each principal behind it, it raises no trust.
        limit = 1.0 if self._graph.ratings.keys() >= set(node.principals) else NEUTRAL_TRUST
        parts = [source for source in node.sources if source.role == "part" and not source.is_principal]
        if parts:
            chains = _weakest(
                self._chains_of_source(source)
                if source.name is None
                else _limited(self._chains_of_source(source), limit)
                for source in parts
            )
        elif weakest is None:
            chains = {key: NEUTRAL_TRUST}
        else:
            chains = {("key", weakest[1]): min(weakest[0], limit)}
        if parts and weakest is not None:
            rating, name = weakest
            limited = [(("key", name), rating) if trust > rating else (end, trust) for end, trust in chains.items()]
            chains = _weakest({end: trust} for end, trust in limited)
        repeats = [self._chains_of_source(source) for source in node.sources if source.role == "repeat"]
        return _confirmed([chains, *repeats])

    def _chains_of_source(self, source: Source) -> _Chains:
        if source.erased_trust is not None:
            return {source.node: min(NEUTRAL_TRUST, source.erased_trust)}
        # A cycle cannot be written. If there were one, it would end here as an unknown origin.
        return self._chains.get(source.node, {source.node: NEUTRAL_TRUST})


class ImpactFinder:
    """Finds which memories of a graph derive from sources; a named one may also have written or be named by them."""

    def __init__(self, graph: Graph, sources: AbstractSet[NodeKey]) -> None:
        derived: dict[NodeKey, list[NodeKey]] = {}
        for key, node in graph.nodes.items():
            for source in node.sources:
                if not source.is_principal:
                    derived.setdefault(source.node, []).append(key)
        names = {name for _, name in sources if isinstance(name, str)}
        pending = [*sources, *(key for key, node in graph.nodes.items() if not names.isdisjoint(node.keys))]
        self._impacted = set(pending)
        while pending:
            for key in derived.get(pending.pop(), ()):
                if key not in self._impacted:
                    self._impacted.add(key)
                    pending.append(key)

    def is_impacted(self, key: NodeKey) -> bool:
        """Return whether a node is one of the sources, or derives from one."""
        return key in self._impacted


def combine(trusts: Iterable[float]) -> float:
    """Return the trust of a text that has some independent chains."""
    values = sorted(trusts)
    if not values:
        return NEUTRAL_TRUST
    if values[0] < NEUTRAL_TRUST:
        return values[0]
    doubt = math.prod((1 - value) / (1 - NEUTRAL_TRUST) for value in values)
    return max(values[-1], min(MAX_CONFIRMED_TRUST, 1 - (1 - NEUTRAL_TRUST) * doubt))


def _limited(chains: Mapping[NodeKey, float], limit: float) -> _Chains:
    return {end: min(trust, limit) for end, trust in chains.items()}


def _weakest(parts: Iterable[Mapping[NodeKey, float]]) -> _Chains:
    """Join the chains of parts: of chains with one weakest link the weaker counts, so repetition confirms nothing."""
    chains: _Chains = {}
    for part in parts:
        for end, trust in part.items():
            chains[end] = min(trust, chains.get(end, trust))
    return chains


def _confirmed(repeats: list[_Chains]) -> _Chains:
    """Join the chains of equal texts: a distrusted copy takes nothing from a text that others confirm."""
    if len(repeats) == 1:
        return repeats[0]
    best = max(repeats, key=lambda chains: combine(chains.values()))
    accepted = [chains for chains in repeats if combine(chains.values()) >= NEUTRAL_TRUST]
    if not accepted:
        return best
    joined: _Chains = {}
    for chains in accepted:
        for end, trust in chains.items():
            joined[end] = max(trust, joined.get(end, trust))
    return joined
