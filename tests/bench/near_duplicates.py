"""`python tests/bench/near_duplicates.py [LOCOMO]`: what `on_similar` takes for the same, and what a cosine would.

Pairs of statements are made from a seed: pairs that say the same (Unicode, full stop, white space, contractions),
pairs of two facts (another animal, name, number, date, unit, time, negation, order of names), and paraphrases in other
words. With the path of LoCoMo's conversations it also counts the turns that would not be stored, and the evidence among
them.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skein_memory.memories.near_text import near_text
from skein_recall.embedded_model.embedder import LocalEmbedders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Pair = tuple[str, str]

SEED = 24
PAIRS = 1000
COSINES = (0.80, 0.85, 0.90, 0.95, 0.98, 0.99)
_BATCH = 64
_ROW = "{:20}{:>8}{:>10}{:>13}{:>11}"
_NAMES = ("Rex", "Max", "Luna", "Bella", "Anna", "Bob", "Mira", "Theo", "Nadia", "Oskar")
_ANIMALS = ("dog", "cat", "parrot", "hamster", "pony")
_MONTHS = ("January", "March", "May", "June", "August", "October")
_UNITS = ("kilograms", "pounds", "metres", "feet", "euros", "dollars")
_VERBS = (("likes", "does not like", "doesn't like"), ("eats", "does not eat", "doesn't eat"))
_FOODS = ("rice", "fish", "tomatoes", "bread", "cheese")


def _two(source: random.Random, values: Sequence[str]) -> tuple[str, str]:
    one, other = source.sample(values, 2)
    return one, other


def _fact(source: random.Random) -> str:
    """Return one statement."""
    (name, other), (verb, negated, _) = _two(source, _NAMES), source.choice(_VERBS)
    return source.choice(
        (
            f"The user's {source.choice(_ANIMALS)} is called {name}.",
            f"{name} {verb} {source.choice(_FOODS)}.",
            f"{name} {negated} {source.choice(_FOODS)}.",
            f"{name} was born on the {source.randint(2, 28)} of {source.choice(_MONTHS)} {source.randint(1950, 2020)}.",
            f"The parcel of {name} weighs {source.randint(2, 90)} {source.choice(_UNITS)}.",
            f"{name} gave {other} the key of the house.",
            f"{name} will call {other} at {source.randint(1, 12)}:{source.randint(10, 59)}.",
        )
    )


def same_pair(source: random.Random) -> Pair:
    """Return a statement in two spellings."""
    text = _fact(source)
    spellings: tuple[Callable[[str], str], ...] = (
        lambda value: f"the {value.removeprefix('The ')}" if value.startswith("The ") else value,
        lambda value: unicodedata.normalize("NFD", value),
        lambda value: value.removesuffix(".") if value[-2].isalpha() else value,
        lambda value: value.replace(" ", "  ").replace("  is", "\nis"),
        lambda value: value.replace("e", "\u00ade", 2),
        lambda value: value.replace("'", "’").replace("does not", "doesn't").replace("will not", "won't"),
    )
    other = text
    for spelling in source.sample(spellings, 3):
        other = spelling(other)
    return text, other


def distinct_pair(source: random.Random) -> Pair:
    """Return two facts that differ in one place."""
    (name, other), (animal, beast) = _two(source, _NAMES), _two(source, _ANIMALS)
    (month, later), (unit, measure) = _two(source, _MONTHS), _two(source, _UNITS)
    number, (food, meal), (verb, negated, contracted) = (
        source.randint(2, 28),
        _two(source, _FOODS),
        source.choice(_VERBS),
    )
    pairs: tuple[Pair, ...] = (
        (f"The user's {animal} is called {name}.", f"The user's {beast} is called {name}."),
        (f"The user's {animal} is called {name}.", f"The user's {animal} is called {other}."),
        (f"{name} {verb} {food}.", f"{name} {negated} {food}."),
        (f"{name} {verb} {food}.", f"{name} {contracted} {food}."),
        (f"{name} {verb} {food}.", f"{name} {verb} {meal}."),
        (f"{name} was born on {number} {month}.", f"{name} was born on {number} {later}."),
        (f"{name} was born on {number} {month}.", f"{name} was born on {number + 1} {month}."),
        (f"The parcel weighs {number} {unit}.", f"The parcel weighs {number} {measure}."),
        (f"The parcel weighs {number} {unit}.", f"The parcel weighs {number}.5 {unit}."),
        (f"It is {number} degrees in {month}.", f"It is -{number} degrees in {month}."),
        (f"{name} gave {other} the key.", f"{other} gave {name} the key."),
        (f"{name} will call at {number}:30.", f"{name} will call at {number}:45."),
        (f"{name} lives in {month} Street.", f"{name} lived in {month} Street."),
        (f"{name} has a {animal}.", f"{name} has a {animal}?"),
    )
    return source.choice(pairs)


def paraphrase(source: random.Random) -> Pair:
    """Return one fact in other words."""
    (name, other), animal, food = _two(source, _NAMES), source.choice(_ANIMALS), source.choice(_FOODS)
    pairs: tuple[Pair, ...] = (
        (f"The user's {animal} is called {name}.", f"{name} is the name of the user's {animal}."),
        (f"{name} likes {food}.", f"{name} is fond of {food}."),
        (f"{name} gave {other} the key.", f"{other} got the key from {name}."),
        (f"{name} has a {animal}.", f"{name} owns a {animal}."),
    )
    return source.choice(pairs)


def made(kind: Callable[[random.Random], Pair]) -> list[Pair]:
    """Return PAIRS pairs of one kind, the same in every run."""
    source = random.Random(f"{SEED} {kind.__name__}")
    return [kind(source) for _ in range(PAIRS)]


async def cosines(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the cosines of pairs by the embedded model."""
    async with LocalEmbedders() as embedders:
        embedder = await embedders.get("all-minilm-l6-v2")
        texts = [text for pair in pairs for text in pair]
        parts = [await embedder.embed(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
    vectors = np.concatenate(parts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    results: np.ndarray = np.einsum("ij,ij->i", vectors[::2], vectors[1::2])
    return results


def _print_row(name: str, counts: Sequence[int]) -> None:
    """Print how many pairs of each kind are taken for the same, and how many of these are the same."""
    same, distinct, reworded = counts
    taken = same + distinct + reworded
    print(_ROW.format(name, *counts, f"{(same + reworded) / taken:.1%}" if taken else "-"))


def locomo(path: Path) -> None:
    """Print which turns of LoCoMo would not be stored because an earlier one of the speaker says the same."""
    turns = left_out = evidence = other_words = 0
    for sample in json.loads(path.read_text("utf-8")):
        asked = {name for question in sample["qa"] for name in question.get("evidence", ())}
        said: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        sessions = [value for name, value in sample["conversation"].items() if isinstance(value, list)]
        for turn in (turn for session in sessions for turn in session):
            turns += 1
            key = (turn["speaker"], near_text(turn["text"]))
            if said[key]:
                left_out += 1
                evidence += turn["dia_id"] in asked
                other_words += sorted(turn["text"].lower().split()) != sorted(said[key]["text"].lower().split())
            else:
                said[key] = turn
    print(f"LoCoMo: {turns} turns; {left_out} say what an earlier turn of the speaker says ({other_words} in another")
    print(f"spelling), and {evidence} of these are evidence of a question")


async def main(arguments: Sequence[str]) -> None:
    """Print precision and shares."""
    kinds = (made(same_pair), made(distinct_pair), made(paraphrase))
    print(f"{PAIRS} pairs of each kind")
    print(_ROW.format("", "same", "distinct", "paraphrases", "precision"))
    _print_row("near text", [sum(near_text(a) == near_text(b) for a, b in pairs) for pairs in kinds])
    values = [await cosines(pairs) for pairs in kinds]
    for limit in COSINES:
        _print_row(f"cosine from {limit:.2f}", [int((kind >= limit).sum()) for kind in values])
    for argument in arguments:
        locomo(Path(argument))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
