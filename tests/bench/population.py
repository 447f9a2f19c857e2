"""Entries of many tenants with vectors, and questions to ask of them: seeded, in order of time. Knows no service.

**Tenants** have Zipf's sizes (the k-th largest has 1/k of the largest). Their entries come in a fixed disorder, as in a
cluster that has been up for months: a tenant's rows do not lie side by side.

**Vectors** are made to be as awkward as those of sentences, and no more. A vector is the sum of a direction that all
share (models of language fill a cone, not the sphere), of one of 400 topics, and of a part of its own, whose variance
falls off along a quarter of the dimensions as the spectra of real embeddings do, with a little of every dimension on
top. Topics belong to nobody: each tenant speaks of some thirty of them, some far more than others, as people in
different households speak of the same things. So the nearest neighbours of a question over all tenants are mostly
somebody else's, which is what an index shared by all tenants stumbles over; and within a topic there are no gaps
(cosine about 0.5 between entries of a topic, 0.1 across topics, and the 10th and the 30th neighbour of a question some
hundredths apart). Every value is one that half precision holds, so nobody's recall suffers from how they store vectors.

**Questions** lie beside a stored entry (cosine about 0.8), half of them in tenants drawn by size, half in tenants drawn
alike. Each value of a tag, type, agent or session is that of a 64th of a tenant's entries, and a question's stretch of
time is a 64th of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from bench.sentences import Sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

# Of each attribute; 1/64 is 1.6 %.
VALUES = 64
ATTRIBUTES = ("tag", "type", "agent", "session")
SPAN_MILLISECONDS = 90 * 24 * 3600 * 1000
BLOCK = 10_000
_TOPICS, _TOPICS_OF_TENANT = 400, 30
# Lengths of the parts of a vector.
_COMMON, _TOPIC, _OWN, _ANYWHERE = 0.3, 0.55, 0.6, 0.25
# Of what is added to a stored vector to make a question of it.
_QUESTION = 0.75


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Some entries, one after another in time. All arrays are of one length."""

    # Places of tenants among the sizes.
    tenants: Whole
    # UUIDv7, 16 bytes each.
    ids: NDArray[np.uint8]
    milliseconds: Whole
    vectors: NDArray[np.float16]
    # Each of the ATTRIBUTES: a number below VALUES.
    attributes: dict[str, Whole]
    texts: Sequence[str]

    def of(self, tenant: int) -> Block:
        """Return one tenant's."""
        mine = np.flatnonzero(self.tenants == tenant)
        return Block(
            tenants=self.tenants[mine],
            ids=self.ids[mine],
            milliseconds=self.milliseconds[mine],
            vectors=self.vectors[mine],
            attributes={name: values[mine] for name, values in self.attributes.items()},
            texts=[self.texts[place] for place in mine.tolist()],
        )

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Put several together."""
        return cls(
            tenants=np.concatenate([one.tenants for one in blocks]),
            ids=np.concatenate([one.ids for one in blocks]),
            milliseconds=np.concatenate([one.milliseconds for one in blocks]),
            vectors=np.concatenate([one.vectors for one in blocks]),
            attributes={name: np.concatenate([one.attributes[name] for one in blocks]) for name in ATTRIBUTES},
            texts=[text for one in blocks for text in one.texts],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked of one tenant."""

    tenant: int
    vector: NDArray[np.float32]
    text: str
    # What the entry has that the vector lies beside.
    attributes: dict[str, int]
    from_milliseconds: int
    to_milliseconds: int

    def passing(self, kept: Block, name: str) -> NDArray[np.bool_]:
        """Return which of the tenant's entries pass the filter of a name: one of the ATTRIBUTES, or "time"."""
        if name == "time":
            return (kept.milliseconds >= self.from_milliseconds) & (kept.milliseconds < self.to_milliseconds)
        same: NDArray[np.bool_] = kept.attributes[name] == self.attributes[name]
        return same


class Population:
    """The entries of all tenants. The same sizes, dimensions and seed give the same entries."""

    def __init__(self, sizes: Sequence[int], *, dimensions: int, seed: int, until_milliseconds: int) -> None:
        """Prepare to make entries for the 90 days until a time."""
        drawing = np.random.default_rng(seed)
        self.sizes = list(sizes)
        self._dimensions, self._seed = dimensions, seed
        count = sum(sizes)
        self._tenants = np.repeat(np.arange(len(sizes)), sizes)
        drawing.shuffle(self._tenants)
        first = until_milliseconds - SPAN_MILLISECONDS
        self._milliseconds = first + np.arange(count) * SPAN_MILLISECONDS // max(count, 1)
        self._attributes: dict[str, Whole] = {
            name: drawing.integers(0, VALUES, count) for name in ATTRIBUTES if name != "session"
        }
        # A session is what a tenant says in one stretch of time.
        places = np.empty(count, dtype=np.int64)
        places[np.argsort(self._tenants, kind="stable")] = np.concatenate([np.arange(size) for size in sizes])
        self._attributes["session"] = places * VALUES // np.array(sizes)[self._tenants]
        rank = max(dimensions // 4, 8)
        self._basis = np.linalg.qr(drawing.standard_normal((dimensions, rank)))[0].T.astype(np.float32)
        self._spectrum = _unit((1 / np.sqrt(np.arange(1, rank + 1))).astype(np.float32))
        self._common = _unit(drawing.standard_normal(dimensions).astype(np.float32))
        self._topics = _unit(self._latent(drawing, _TOPICS))
        weights = 1 / np.arange(1, _TOPICS_OF_TENANT + 1)
        self._topic_weights = weights / weights.sum()
        self._topics_of = np.array([drawing.permutation(_TOPICS)[:_TOPICS_OF_TENANT] for _ in sizes])

    def blocks(self) -> Iterator[Block]:
        """Make the entries in order of time, so many at once that a few fit into memory."""
        sentences = Sentences(self._seed)
        for start in range(0, len(self._tenants), BLOCK):
            drawing = np.random.default_rng([self._seed, start])
            here = slice(start, start + BLOCK)
            tenants = self._tenants[here]
            milliseconds = self._milliseconds[here]
            yield Block(
                tenants=tenants,
                ids=_ids(drawing, milliseconds),
                milliseconds=milliseconds,
                vectors=self._vectors(drawing, tenants),
                attributes={name: values[here] for name, values in self._attributes.items()},
                texts=[sentences.statement() for _ in range(len(tenants))],
            )

    def question_tenants(self, count: int) -> list[int]:
        """Draw the tenants of so many questions: half by size, half alike."""
        drawing = np.random.default_rng([self._seed, 1])
        shares = np.array(self.sizes) / sum(self.sizes)
        by_size = drawing.choice(len(self.sizes), size=count // 2, p=shares)
        alike = drawing.choice(len(self.sizes), size=count - count // 2)
        return [int(tenant) for tenant in drawing.permutation(np.concatenate([by_size, alike]))]

    def questions(self, tenants: Sequence[int], kept: dict[int, Block]) -> list[Question]:
        """Make a question for each of these tenants, whose entries are `kept`."""
        drawing = np.random.default_rng([self._seed, 2])
        sentences = Sentences(self._seed + 1)
        found: list[Question] = []
        for tenant in tenants:
            mine = kept[tenant]
            beside = int(drawing.integers(0, len(mine.tenants)))
            noise = _QUESTION * _unit(self._latent(drawing, 1))[0]
            half = SPAN_MILLISECONDS // VALUES // 2
            at = int(mine.milliseconds[beside])
            found.append(
                Question(
                    tenant=tenant,
                    vector=_half(_unit(mine.vectors[beside].astype(np.float32)) + noise).astype(np.float32),
                    text=sentences.question(),
                    attributes={name: int(mine.attributes[name][beside]) for name in ATTRIBUTES},
                    from_milliseconds=at - half,
                    to_milliseconds=at + half,
                )
            )
        return found

    def _vectors(self, drawing: np.random.Generator, tenants: Whole) -> NDArray[np.float16]:
        count = len(tenants)
        places = drawing.choice(_TOPICS_OF_TENANT, size=count, p=self._topic_weights)
        topics = self._topics[self._topics_of[tenants, places]]
        anywhere = drawing.standard_normal((count, self._dimensions), dtype=np.float32) / math.sqrt(self._dimensions)
        own = self._latent(drawing, count)
        return _half(_COMMON * self._common + _TOPIC * topics + _OWN * own + _ANYWHERE * anywhere)

    def _latent(self, drawing: np.random.Generator, count: int) -> NDArray[np.float32]:
        """Draw vectors whose variance falls off, of length 1 on average."""
        drawn = drawing.standard_normal((count, len(self._spectrum)), dtype=np.float32)
        found: NDArray[np.float32] = np.matmul(drawn * self._spectrum, self._basis)
        return found


def zipf_sizes(entries: int, tenants: int) -> list[int]:
    """Share entries out so that the k-th tenant gets in proportion to 1/k, the largest first, and nobody nothing."""
    if entries < tenants:
        message = f"{entries} entries are too few for {tenants} tenants"
        raise ValueError(message)
    weights = [1 / rank for rank in range(1, tenants + 1)]
    # One each, and the rest by rank: by the largest remainders, so that the sum is what was asked for.
    exact = [1 + (entries - tenants) * weight / sum(weights) for weight in weights]
    sizes = [math.floor(size) for size in exact]
    by_remainder = sorted(range(tenants), key=lambda place: (sizes[place] - exact[place], place))
    for place in by_remainder[: entries - sum(sizes)]:
        sizes[place] += 1
    return sizes


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return found


def _half(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    return _unit(vectors).astype(np.float16)


def _ids(drawing: np.random.Generator, milliseconds: Whole) -> NDArray[np.uint8]:
    """Return a UUIDv7 for each time: 48 bits of it, the version, the variant, and chance."""
    ids = drawing.integers(0, 256, (len(milliseconds), 16), dtype=np.uint8)
    ids[:, :6] = milliseconds.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    ids[:, 6] = ids[:, 6] & 0x0F | 0x70
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    return ids
