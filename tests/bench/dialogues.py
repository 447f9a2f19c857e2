"""Made-up turns of conversations in many tenants, and questions about them. Pure; the same seed gives the same texts.

A turn has the form that LoCoMo's turns have as memories: a speaker and what the speaker says, from small talk to news.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

_SPEAKERS = (
    "Alva", "Bruno", "Carmen", "Dario", "Elif", "Farid", "Greta", "Hanno", "Ilse", "Joao", "Kaya", "Luis", "Malik",
    "Noor", "Olga", "Petra",
)  # fmt: skip
_HOBBIES = (
    "pottery", "climbing", "baking bread", "birdwatching", "chess", "choir practice", "woodcarving", "salsa dancing",
    "rowing", "astronomy", "beekeeping", "calligraphy", "fencing", "gardening", "improv theatre", "knitting",
)  # fmt: skip
_COMPANIONS = (
    "my sister", "an old classmate", "my boss", "the kids", "my grandmother", "a colleague", "our neighbour",
    "my coach", "a friend from Lisbon", "my cousin", "the whole team", "my partner",
)  # fmt: skip
_PLACES = (
    "in Bergen", "at the community centre", "near the old harbour", "in Kyoto", "on a farm", "at a festival",
    "in the mountains", "at the museum", "in a tiny café", "by the river", "in Oaxaca", "at the university",
)  # fmt: skip
_TIMES = (
    "last weekend", "yesterday", "two weeks ago", "in March", "on my birthday", "this morning", "over the summer",
    "the day before the exam", "last Friday", "after work",
)  # fmt: skip
_FEELINGS = (
    "so proud", "a bit nervous", "really relieved", "exhausted", "inspired", "homesick", "grateful", "surprised",
    "calmer than before", "torn about it",
)  # fmt: skip
_EVENTS = (
    "won a small prize for {hobby}", "signed up for a course in {hobby}", "gave up {hobby} for good",
    "taught {companion} the basics of {hobby}", "met {companion} again through {hobby}",
    "spent all my savings on {hobby}", "hurt my wrist during {hobby}", "started a group for {hobby}",
    "read a whole book about {hobby}", "missed the meeting because of {hobby}",
)  # fmt: skip
_REPLIES = (
    "That sounds wonderful! How did {companion} like it?", "I remember that you felt {feeling}.",
    "Have you ever tried it {place}?", "We should plan something like that {place}.", "What made you start?",
)  # fmt: skip
_QUESTIONS = (
    "When did {speaker} tell of {hobby} {place}?",
    "With whom did {speaker} go to {hobby} {time}?",
    "How did {speaker} feel about {hobby} with {companion}?",
    "What happened to {speaker} {place} {time}?",
    "Why was {speaker} {feeling} after {hobby}?",
)
# Share of the turns that answer another one instead of telling something.
_REPLY_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Question:
    """A question that is asked in one tenant."""

    tenant: int
    text: str


@dataclass(frozen=True, slots=True)
class Population:
    """The texts of each tenant, and questions whose tenants are drawn by size."""

    tenants: Sequence[Sequence[str]]
    questions: Sequence[Question]


def population(*, tenants: int, entries: int, questions: int, seed: int) -> Population:
    """Make a population; no text and no question comes twice."""
    source = random.Random(seed)
    sizes = zipf_sizes(tenants, entries)
    texts = [[_turn(source, f"{tenant}-{number}") for number in range(size)] for tenant, size in enumerate(sizes)]
    asked = source.choices(range(tenants), weights=sizes, k=questions)
    return Population(
        texts,
        [
            Question(tenant, source.choice(_QUESTIONS).format_map(_words(source)) + f" ({number})")
            for number, tenant in enumerate(asked)
        ],
    )


def zipf_sizes(tenants: int, entries: int) -> list[int]:
    """Split entries so that the n-th tenant has about 1/n of the first one's, and each has one at least."""
    whole = sum(1 / rank for rank in range(1, tenants + 1))
    sizes = [max(1, int(entries / whole / rank)) for rank in range(1, tenants + 1)]
    sizes[0] += max(0, entries - sum(sizes))
    return sizes


def _turn(source: random.Random, name: str) -> str:
    words = _words(source)
    if source.random() < _REPLY_SHARE:
        said = source.choice(_REPLIES).format_map(words)
    else:
        event = source.choice(_EVENTS).format_map(words)
        said = f"I {event} {words['place']} {words['time']}, and I was {words['feeling']}."
    return f'{words["speaker"]} said, "{said}" (turn {name})'


def _words(source: random.Random) -> dict[str, str]:
    choices = {
        "speaker": _SPEAKERS,
        "hobby": _HOBBIES,
        "companion": _COMPANIONS,
        "place": _PLACES,
        "time": _TIMES,
        "feeling": _FEELINGS,
    }
    return {name: source.choice(words) for name, words in choices.items()}
