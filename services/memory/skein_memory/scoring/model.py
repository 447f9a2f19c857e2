"""Scores of memories: versioned formulas over their own scores and further inputs. No I/O; the clock is passed in.

Two formulas for importance: "memoryvault-dynamic", the default, and "agentmem-weighted", which a tenant's policy may
choose. Confidence follows the first in both cases, because the second defines none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import NamedTuple

from skein_kit.filters.fields import priority_of
from skein_kit.text.source_keys import source_key
from skein_memory.memories.model import Draft, Memory, MemoryScores, Scores

DYNAMIC = "memoryvault-dynamic"
WEIGHTED = "agentmem-weighted"
VERSION = 2
CONTRADICTS = "contradicts"
# By their names in a policy.
FORMULAS: Mapping[str, str] = {"dynamic": DYNAMIC, "weighted": WEIGHTED}
# Trust in a source without a SourceTrust.
NEUTRAL_TRUST = 0.5
# All terms of links are saturated below this number.
MAX_LINKS_COUNTED = 25

CERTAINTY_WORDS = ("verified", "confirmed", "exact", "measured", "token", "id", "official", "passed")
HEDGING_WORDS = ("maybe", "might", "perhaps", "guess", "probably", "vague", "unsure", "i think")
IMPORTANCE_WORDS = (
    "goal", "strategy", "deadline", "todo", "must", "critical", "priority", "plan", "task", "decision", "launch",
    "ship",
)  # fmt: skip
GOOD_SOURCES = ("api", "system", "log", "metric", "official", "doc", "test", "monitor")
POOR_SOURCES = ("rumor", "guess", "hearsay", "vibe", "idea")
TYPE_CONFIDENCE: Mapping[str, float] = {"fact": 0.08, "journal": -0.06}
TYPE_IMPORTANCE: Mapping[str, float] = {"note": 0.04, "fact": 0.02, "journal": 0.01}

_DAY_SECONDS = 86400.0
_HOUR_SECONDS = 3600.0
_YEAR_DAYS = 365.0
# Rates of decay by the least priority, from 0 to 10.
_DECAY_RATES = ((9, 0.01), (7, 0.02), (4, 0.05), (0, 0.1))
# The weighted formula uses this for numbers that the metadata does not have.
_NEUTRAL = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreInputs:
    """Inputs of the formulas besides the memory itself.

    Links are counted by relation, each up to MAX_LINKS_COUNTED: `incoming` lead to the memory, `outgoing` from it.
    `links` counts all but contradictions, so that these never raise a score.
    """

    incoming: Mapping[str, int] = field(default_factory=dict)
    outgoing: Mapping[str, int] = field(default_factory=dict)
    links: int = 0
    # None: its source has no SourceTrust.
    trust: float | None = None
    access_count: int = 0
    last_access_time: datetime | None = None


class Component(NamedTuple):
    """One term: its name, its value, and its inputs."""

    name: str
    value: float
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Scores and the terms that they are the sums of."""

    scores: Scores
    confidence: Sequence[Component]
    importance: Sequence[Component]


def scores_of(memory: Memory, inputs: ScoreInputs, *, formula: str, at: datetime) -> Scores:
    """Return the scores of a memory at the time `at`; `formula` is the policy's name for it."""
    return explain(memory, inputs, formula=formula, at=at).scores


def score_memory(memory: Memory, inputs: ScoreInputs, formula: str, at: datetime) -> Memory:
    """Return the memory with its scores at the time `at`, and its use; `formula` is the policy's name for it."""
    return replace(
        memory,
        memory_scores=MemoryScores(
            scores=scores_of(memory, inputs, formula=formula, at=at),
            access_count=inputs.access_count,
            last_access_time=inputs.last_access_time,
        ),
    )


def explain(memory: Memory, inputs: ScoreInputs, *, formula: str, at: datetime) -> Explanation:
    """Return the scores with every term."""
    name = FORMULAS.get(formula, DYNAMIC)
    terms = _Terms.of(memory, inputs, at)
    confidence = _with_bounds(terms.confidence())
    importance = _with_bounds(terms.importance() if name == DYNAMIC else weighted(memory, inputs, at))
    return Explanation(
        scores=Scores(confidence=_sum(confidence), importance=_sum(importance), formula=name, version=VERSION),
        confidence=confidence,
        importance=importance,
    )


def last_used(memory: Memory, inputs: ScoreInputs) -> datetime:
    """Return when a memory was last changed or read."""
    access_time = inputs.last_access_time
    return memory.update_time if access_time is None else max(memory.update_time, access_time)


def days_between(earlier: datetime, later: datetime) -> float:
    """Return days; 0 when the clocks disagree."""
    return max(0.0, (later - earlier).total_seconds() / _DAY_SECONDS)


def count_terms(text: str, terms: tuple[str, ...]) -> int:
    """Count the terms that a text holds as whole words, each once."""
    return TextWords(text).count(terms)


class TextWords:
    """The words of a text, letters and digits in lower case.

    Every read of a memory looks for some dozens of terms, so the text is split only when it may hold one of them.
    """

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._words: frozenset[str] | None = None

    def count(self, terms: tuple[str, ...]) -> int:
        """Count the terms that the text holds as whole words, each once."""
        text, count = self._text, 0
        for longest, words, pattern in _patterns(terms):
            # Most terms end here, so nothing else is done for them.
            if longest in text and self._holds(words, pattern):
                count += 1
        return count

    def _holds(self, words: tuple[str, ...], pattern: re.Pattern[str]) -> bool:
        if self._words is None:
            self._words = frozenset(_WORD.findall(self._text))
        return self._words.issuperset(words) and (len(words) == 1 or pattern.search(self._text) is not None)


_WORD = re.compile(r"[^\W_]+")


@cache
def _patterns(terms: tuple[str, ...]) -> list[tuple[str, tuple[str, ...], re.Pattern[str]]]:
    """Return for each term its longest word, its words, and what finds them one after another as whole words."""
    words = [tuple(term.split()) for term in terms]
    patterns = [r"[\W_]+".join(map(re.escape, one)) for one in words]
    return [
        (max(one, key=len), one, re.compile(rf"(?<![^\W_]){pattern}(?![^\W_])"))
        for one, pattern in zip(words, patterns, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Terms:
    """The terms of "memoryvault-dynamic"."""

    draft: Draft
    inputs: ScoreInputs
    # Days since it was changed or read; since it was read.
    age: float
    days_unread: float | None
    words: TextWords
    source: TextWords
    has_source: bool

    @classmethod
    def of(cls, memory: Memory, inputs: ScoreInputs, at: datetime) -> _Terms:
        draft, access_time = memory.draft, inputs.last_access_time
        return cls(
            draft=draft,
            inputs=inputs,
            age=days_between(last_used(memory, inputs), at),
            days_unread=None if access_time is None else days_between(access_time, at),
            words=TextWords("\n".join([draft.text, *draft.tags])),
            source=TextWords(source_key(draft.source)),
            has_source=bool(source_key(draft.source)),
        )

    def confidence(self) -> list[Component]:
        certainty_count, hedging_count = self.words.count(CERTAINTY_WORDS), self.words.count(HEDGING_WORDS)
        supports, contradicts = self._incoming("supports"), self._both(CONTRADICTS)
        return [
            Component(name="base", value=self.draft.confidence, detail="as given"),
            self._source_bonus(),
            Component(name="source_trust", value=(self._trust - NEUTRAL_TRUST) * 0.4, detail=self._trust_detail),
            Component(name="certainty", value=min(0.2, 0.04 * certainty_count), detail=f"words: {certainty_count}"),
            Component(name="type", value=TYPE_CONFIDENCE.get(self.draft.type, 0.0), detail=self.draft.type),
            Component(name="supports", value=min(0.22, 0.05 * supports), detail=f"links: {supports}"),
            self._usage("usage", 0.25),
            self._link("link", 0.35),
            self._example("example", 0.25),
            Component(name="contradicts", value=-min(0.28, 0.09 * contradicts), detail=f"links: {contradicts}"),
            Component(name="hedge", value=-min(0.2, 0.055 * hedging_count), detail=f"words: {hedging_count}"),
            self._source_penalty(),
            Component(name="stale", value=-min(0.2, self.age / _YEAR_DAYS * 0.16), detail=f"days: {self.age:.3f}"),
        ]

    def importance(self) -> list[Component]:
        keyword_count, causes, supersedes = (
            self.words.count(IMPORTANCE_WORDS),
            self._outgoing("causes"),
            self._outgoing("supersedes"),
        )
        contradicts = self._both(CONTRADICTS)
        characters = len(self.draft.content or self.draft.data_text or "")
        depth = min(0.08, max(0.0, (characters - 80) / 420) * 0.08)
        return [
            Component(name="base", value=self.draft.importance, detail="as given"),
            Component(name="keywords", value=min(0.24, 0.045 * keyword_count), detail=f"words: {keyword_count}"),
            Component(name="source_trust", value=(self._trust - NEUTRAL_TRUST) * 0.14, detail=self._trust_detail),
            Component(name="depth", value=depth, detail=f"characters: {characters}"),
            Component(name="type", value=TYPE_IMPORTANCE.get(self.draft.type, 0.0), detail=self.draft.type),
            self._link("link", 1.0),
            Component(name="causes", value=min(0.14, 0.04 * causes), detail=f"links: {causes}"),
            self._example("example", 1.0),
            Component(name="supersede", value=min(0.08, 0.02 * supersedes), detail=f"links: {supersedes}"),
            self._usage("usage", 1.0),
            Component(name="recall", value=self._recall(), detail=_days(self.days_unread)),
            Component(name="recency", value=self._recency(), detail=_days(self.age)),
            Component(name="contradicts", value=-0.25 * min(0.28, 0.09 * contradicts), detail=f"links: {contradicts}"),
        ]

    @property
    def _trust(self) -> float:
        return NEUTRAL_TRUST if self.inputs.trust is None else self.inputs.trust

    @property
    def _trust_detail(self) -> str:
        return "no trust" if self.inputs.trust is None else f"trust: {self.inputs.trust:g}"

    def _incoming(self, relation: str) -> int:
        return self.inputs.incoming.get(relation, 0)

    def _outgoing(self, relation: str) -> int:
        return self.inputs.outgoing.get(relation, 0)

    def _both(self, relation: str) -> int:
        return self._incoming(relation) + self._outgoing(relation)

    def _source_bonus(self) -> Component:
        is_good = self.source.count(GOOD_SOURCES) > 0
        value = 0.09 if is_good else 0.04 if self.has_source else 0.0
        return Component(
            name="source_bonus", value=value, detail="" if not self.has_source else "named" if is_good else "any"
        )

    def _source_penalty(self) -> Component:
        is_poor = self.source.count(POOR_SOURCES) > 0
        return Component(name="source_penalty", value=-0.07 if is_poor else 0.0, detail="named" if is_poor else "")

    def _link(self, name: str, share: float) -> Component:
        count = self.inputs.links
        return Component(name=name, value=share * min(0.18, math.log1p(count) * 0.06), detail=f"links: {count}")

    def _example(self, name: str, share: float) -> Component:
        count = self._incoming("example_of")
        return Component(name=name, value=share * min(0.08, 0.02 * count), detail=f"links: {count}")

    def _usage(self, name: str, share: float) -> Component:
        count = self.inputs.access_count
        return Component(name=name, value=share * min(0.16, math.log1p(count) * 0.05), detail=f"accesses: {count}")

    def _recall(self) -> float:
        if self.days_unread is None:
            return 0.0
        return next((value for days, value in ((2, 0.08), (14, 0.04), (60, 0.015)) if self.days_unread < days), 0.0)

    def _recency(self) -> float:
        for days, value in ((3, 0.12), (14, 0.07), (60, 0.03)):
            if self.age < days:
                return value
        return -min(0.18, (self.age - 60) / _YEAR_DAYS * 0.18)


def weighted(memory: Memory, inputs: ScoreInputs, at: datetime) -> list[Component]:
    """Return the terms of "agentmem-weighted".

    Relevance, emotional weight, context and interaction are numbers of 0 to 1 in the memory's metadata under these
    names. The default of relevance is the memory's importance; that of the others is 0.5. The priority determines how
    fast recency fades: critical from 9 of ten on, high from 7, medium from 4.
    """
    draft = memory.draft
    rate = next(rate for min_priority, rate in _DECAY_RATES if priority_of(draft.importance) >= min_priority)
    hours = max(0.0, (at - last_used(memory, inputs)).total_seconds() / _HOUR_SECONDS)
    days = max(1.0, days_between(draft.create_time, at))
    accesses_per_day = inputs.access_count / days
    numbers = _numbers(draft.metadata)
    parts = (
        ("recency", 0.25, math.exp(-rate * hours), f"hours: {hours:.3f}, rate: {rate:g}"),
        (
            "frequency",
            0.20,
            min(1.0, math.log1p(accesses_per_day) / math.log(101)),
            f"accesses per day: {accesses_per_day:.3f}",
        ),
        (
            "relevance",
            0.25,
            numbers.get("relevance", draft.importance),
            _detail("relevance", numbers, "own importance"),
        ),
        ("emotional", 0.15, numbers.get("emotional", _NEUTRAL), _detail("emotional", numbers, "neutral")),
        ("context", 0.10, numbers.get("context", _NEUTRAL), _detail("context", numbers, "neutral")),
        ("interaction", 0.05, numbers.get("interaction", _NEUTRAL), _detail("interaction", numbers, "neutral")),
    )
    return [Component(name=name, value=weight * value, detail=detail) for name, weight, value, detail in parts]


def _numbers(metadata: str | None) -> dict[str, float]:
    if metadata is None:
        return {}
    values = json.loads(metadata)
    return {
        name: float(value)
        for name in ("relevance", "emotional", "context", "interaction")
        if isinstance(value := values.get(name), (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    }


def _detail(name: str, numbers: Mapping[str, float], default: str) -> str:
    return "metadata" if name in numbers else default


def _days(days: float | None) -> str:
    return "never" if days is None else f"days: {days:.3f}"


def _with_bounds(components: list[Component]) -> list[Component]:
    total = math.fsum(component.value for component in components)
    correction = min(1.0, max(0.0, total)) - total
    return [*components, Component(name="bounds", value=correction, detail="0 to 1")] if correction else components


def _sum(components: Sequence[Component]) -> float:
    return round(min(1.0, max(0.0, math.fsum(component.value for component in components))), 3)
