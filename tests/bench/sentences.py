"""Made-up sentences of a household: varied, repeatable, and no two alike. Knows no service."""

from __future__ import annotations

import random

_PEOPLE = (
    "Mira", "Jonas", "Aunt Edda", "Theo", "the neighbour", "Grandpa Emil", "Nadia", "the plumber", "Ines", "Oskar",
    "the babysitter", "Lena", "Dr. Hahn", "Samir", "the landlord", "Clara",
)  # fmt: skip
_DEEDS = (
    "bought", "lost", "repaired", "borrowed", "painted", "ordered", "returned", "hid", "cleaned", "packed", "sold",
    "promised", "cancelled", "planted", "measured", "forgot", "photographed", "stored", "lent", "replaced",
)  # fmt: skip
_KINDS = (
    "copper", "wooden", "blue", "broken", "second-hand", "heavy", "spare", "striped", "expensive", "tiny", "noisy",
    "green", "folding", "rusty", "woollen", "electric", "handmade", "borrowed", "leaking", "antique",
)  # fmt: skip
_THINGS = (
    "kettle", "bicycle", "umbrella", "bookshelf", "blanket", "ladder", "radio", "suitcase", "tent", "violin", "lamp",
    "carpet", "drill", "mirror", "telescope", "wheelbarrow", "teapot", "sledge", "passport", "key", "parcel",
    "aquarium", "camera", "mattress", "toaster", "thermostat", "hedge trimmer", "coat", "puzzle", "recipe",
)  # fmt: skip
_PLACES = (
    "in the cellar", "behind the shed", "at the market", "on the balcony", "under the stairs", "at the station",
    "in the guest room", "next to the boiler", "at the lake house", "in the attic", "by the garden gate",
    "in the hallway cupboard", "at the allotment", "on the kitchen shelf", "in the garage", "at the library",
)  # fmt: skip
_TIMES = (
    "on Monday morning", "last Tuesday", "before the holidays", "after dinner", "on the first of May", "at noon",
    "during the storm", "over the weekend", "just before the wedding", "on Thursday night", "in early autumn",
    "while everybody slept", "the day after the move", "at the end of the month",
)  # fmt: skip
_REASONS = (
    "because the old one was worn out", "and asked to be reminded in a week", "and nobody has noticed so far",
    "since the guests arrive on Friday", "to surprise the children", "because the insurance would not pay",
    "and wants the money back", "as it was half the price", "although the doctor had said not to",
    "so that the dog cannot reach it", "and wrote it down in the red notebook", "before the shop closed for good",
)  # fmt: skip
_QUESTIONS = (
    "where did {person} leave the {kind} {thing}",
    "what happened to the {thing} {place}",
    "who {deed} the {kind} {thing} {time}",
    "why has {person} {deed} a {thing}",
    "when was the {kind} {thing} {deed}",
)


class Sentences:
    """A stream of statements and questions; the same seed gives the same stream."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._count = 0

    def statement(self) -> str:
        """Return one or two sentences of 12 to 40 words, numbered so that none comes twice."""
        words = self._words()
        clause = (
            f"{words['person']} {words['deed']} the {words['kind']} {words['thing']} {words['place']} {words['time']}"
        )
        sentence = f"{clause} {words['reason']}."
        if self._random.random() < 0.4:
            other = self._words()
            sentence += f" {other['person']} knows of it, and of the {other['kind']} {other['thing']} {other['place']}."
        return f"{sentence} Note {self._number()}."

    def question(self) -> str:
        """Return a question that was never asked before, so that no cache knows its vector."""
        form = self._random.choice(_QUESTIONS)
        return f"{form.format_map(self._words())}, {self._number()}?"

    def _words(self) -> dict[str, str]:
        parts = {
            "person": _PEOPLE,
            "deed": _DEEDS,
            "kind": _KINDS,
            "thing": _THINGS,
            "place": _PLACES,
            "time": _TIMES,
            "reason": _REASONS,
        }
        return {name: self._random.choice(words) for name, words in parts.items()}

    def _number(self) -> str:
        self._count += 1
        return f"{self._seed}-{self._count}"
