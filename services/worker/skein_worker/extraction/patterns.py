"""The rules' data, read from a file for each language and compiled once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

LANGUAGES: Final = ("en", "de", "es", "zh")
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_MAX_DEPTH: Final = 6
# What ends a decision or a note: the end of its sentence.
_SENTENCE_END: Final = (
    r"(?=\s*(?:[.!。！…]|$|,? (?:which|because|even though|so that|was|weil|obwohl|damit|porque|aunque)\b| [–—-] ))"
)
# The last sign of a form behind which its clause may go on.
_GOES_ON: Final = "…"
_NEVER: Final = re.compile("(?!)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """The forms in which one predicate is said."""

    predicate: str
    is_negated: bool
    forms: tuple[re.Pattern[str], ...]
    refused_values: re.Pattern[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Markers:
    """What turns a statement into something else; each matches in a sentence."""

    question: re.Pattern[str]
    condition: re.Pattern[str]
    # Right behind the statement.
    condition_after: re.Pattern[str]
    hearsay: re.Pattern[str]
    order: re.Pattern[str]
    agent_order: re.Pattern[str]
    joke: re.Pattern[str]
    past: re.Pattern[str]
    negation: re.Pattern[str]
    # Negations that say a diet, and those that say an intolerance.
    avoids: re.Pattern[str]
    lacks: re.Pattern[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageRules:
    """Patterns and words of one language."""

    name: str
    # A sentence without it has no statement that a form knows.
    hint: re.Pattern[str]
    # What may stand before a statement and leaves it one.
    opener: re.Pattern[str]
    boundary: re.Pattern[str]
    # Before a statement that its speaker takes back, and before one whose verb comes last ("vergiss, dass ich …").
    take_back: re.Pattern[str]
    take_back_verb_last: re.Pattern[str]
    # A sentence that takes back what its speaker said before it.
    take_back_all: re.Pattern[str]
    # A message that confirms a statement, and nothing else.
    confirmation: re.Pattern[str]
    # What makes a question of a statement at its end: "…, right?".
    tag: re.Pattern[str]
    # Words with which a speaker means themselves, and those with which others mean the speaker.
    own_person: re.Pattern[str]
    second_person: re.Pattern[str]
    # The words of the first person by those of the second, in small letters; fillers have an empty one.
    first_person: Mapping[str, str]
    articles: re.Pattern[str]
    joiner: re.Pattern[str]
    # Lists of one value: "baking bread and cakes".
    unsplit: re.Pattern[str]
    stop_values: re.Pattern[str]
    markers: Markers
    function_words: frozenset[str]
    # The English word of a relation or an animal, by the word of the language.
    relations: Mapping[str, re.Pattern[str]]
    animals: Mapping[str, re.Pattern[str]]
    # Values that stand for words of their kind: "vegetarisch" for "Vegetarierin".
    normal_values: Mapping[str, str]
    patterns: tuple[Pattern, ...]

    def relation_of(self, text: str) -> str:
        """Return the English word of a relation. Raises KeyError."""
        return _code_of(self.relations, text)

    def animal_of(self, text: str) -> str:
        """Return the English word of the animal that a text names last. Raises KeyError."""
        last = text.rsplit(maxsplit=1)[-1] if " " in text else text
        try:
            return _code_of(self.animals, last)
        except KeyError:
            return _code_of(self.animals, text)


@cache
def language_rules(language: str) -> LanguageRules:
    """Return the rules of one of LANGUAGES."""
    text = resources.files("skein_worker.extraction.languages").joinpath(f"{language}.toml").read_text("utf-8")
    return _compile(tomllib.loads(text))


@cache
def all_rules() -> tuple[LanguageRules, ...]:
    """Return the rules of every language."""
    return tuple(language_rules(language) for language in LANGUAGES)


def takes_all_back(sentence: str) -> bool:
    """Return whether a sentence takes back all that its speaker said before it ("forget that")."""
    # A picture before the full stop leaves a space there.
    words = sentence.rstrip(" .!。！")
    return any(rules.take_back_all.fullmatch(words) for rules in all_rules())


def _compile(data: Mapping[str, Any]) -> LanguageRules:
    relations = data["relations"] | data.get("relation_with_best", {})
    plural = "" if data["language"] == "zh" else "s?"
    animals = "|".join(sorted("|".join(data["animals"].values()).split("|"), key=len, reverse=True))
    fragments = {
        **data["fragments"],
        **data["words"],
        "relation": "|".join(sorted("|".join(relations.values()).split("|"), key=len, reverse=True)),
        "pet": f"(?P<pet>{animals})",
        "pet_word": f"(?:{animals}){plural}",
    }
    return LanguageRules(
        name=data["language"],
        hint=_regex(data["hint"]),
        opener=_regex(data["opener"]),
        boundary=_regex(data["boundary"]),
        take_back=_regex(data["take_back"]),
        take_back_verb_last=_regex(data.get("take_back_verb_last", _NEVER.pattern)),
        take_back_all=_regex(data["take_back_all"]),
        confirmation=_regex(rf"(?:{data['confirmation']})(?:[,，、 ]+(?:{data['confirmation']}))*(?:[.。]|[!！]+)?"),
        tag=_regex(data["tag"]),
        own_person=_regex(data["own_person"]),
        second_person=_words(data["first_person"], data["language"]),
        first_person=data["first_person"],
        articles=_regex(data["articles"]),
        joiner=_regex(data["joiner"]),
        unsplit=_regex(data["unsplit"]),
        stop_values=_regex(data["stop_value"]),
        markers=Markers(**{name: _regex(data[name]) for name in Markers.__dataclass_fields__}),
        function_words=frozenset(data["function_words"].split()),
        relations={code: re.compile(f"(?:{words})", re.IGNORECASE) for code, words in relations.items()},
        animals={code: re.compile(f"(?:{words}){plural}", re.IGNORECASE) for code, words in data["animals"].items()},
        normal_values=data["normal"],
        patterns=tuple(_pattern(item, data, fragments) for item in data["pattern"]),
    )


def _pattern(item: Mapping[str, Any], data: Mapping[str, Any], fragments: Mapping[str, str]) -> Pattern:
    clause_end = _SENTENCE_END if item.get("whole") else data["end"]
    return Pattern(
        predicate=item["predicate"],
        is_negated=item.get("negated", False),
        forms=tuple(
            re.compile(
                f"{data['opener']}(?P<clause>{_expand(form.removesuffix(_GOES_ON), fragments)})"
                f"{'' if form.endswith(_GOES_ON) else clause_end}",
                re.IGNORECASE,
            )
            for form in item["forms"]
        ),
        refused_values=_regex(item["refuse_value"]) if "refuse_value" in item else _NEVER,
    )


def _expand(form: str, fragments: Mapping[str, str]) -> str:
    for _ in range(_MAX_DEPTH):
        expanded = _PLACE.sub(lambda match: _fragment(fragments[match[1]]), form)
        if expanded == form:
            return form
        form = expanded
    raise ValueError(f"fragments refer to themselves: {form[:80]}")


def _fragment(text: str) -> str:
    return f"(?:{text})"


def _words(words: Iterable[str], language: str) -> re.Pattern[str]:
    """Return a pattern of words and phrases, the longest first; Chinese has no spaces between words."""
    listed = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return _regex(f"(?:{listed})" if language == "zh" else rf"(?<!\w)(?:{listed})(?:(?<=\W)|(?!\w))")


def _regex(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def _code_of(words: Mapping[str, re.Pattern[str]], text: str) -> str:
    for code, pattern in words.items():
        if pattern.fullmatch(text):
            return code
    raise KeyError(text)
