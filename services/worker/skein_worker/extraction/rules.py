"""Facts that the patterns find in a message. Precision comes first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from skein_kit.dates.dates import date_order, find_date_mentions
from skein_worker.extraction.checker import UNCONFIRMED, Checker
from skein_worker.extraction.confirmations import confirmation_span, statements_of
from skein_worker.extraction.days_ahead import SINCE, DayMention, find_days, find_event_time
from skein_worker.extraction.model import Extraction, Fact, Message, Refusal, Span
from skein_worker.extraction.number_words import read_number
from skein_worker.extraction.patterns import LanguageRules, Pattern, all_rules, takes_all_back
from skein_worker.extraction.sentences import (
    MASK,
    MAX_SENTENCE_CHARACTERS,
    Sentence,
    is_pasted,
    own_words,
    plain_text,
    split_sentences,
)

_TYPES: Final = {
    "likes": "preference", "dislikes": "preference", "favourite": "preference", "decision": "decision", "note": "note",
}  # fmt: skip
_SINGLE: Final = frozenset(
    {"name", "birthday", "age", "lives_in", "from", "works_at", "occupation", "studies", "email", "phone"}
)
# Relations of which a person has one at a time.
_UNIQUE: Final = frozenset(
    {
        "mother", "father", "wife", "husband", "partner", "girlfriend", "boyfriend", "boss", "parents", "landlord",
        "tax adviser", "fiance",
    }
)  # fmt: skip
_REGIME: Final = re.compile(
    r"vegan\w*|vegetari\w+|pes[ck]etari\w+|kosher|koscher|halal|gluten-?free|glutenfrei|sin gluten|sin lactosa|"
    r"plant-based|吃素|素食|全素|清真|无麸质|keto|low-carb|laktosefrei",
    re.IGNORECASE,
)
_MAX_AGE: Final = 120
_MAX_KEY_CHARACTERS: Final = 255
# A longer message says more than "forget that".
_MAX_TAKE_BACK_CHARACTERS: Final = 60
_OUTER: Final = " \t.,;:!?\"'()…。，！？、"


def extract(message: Message) -> Extraction:
    """Return the facts of a message that the rules propose and the checker accepts."""
    checker: Checker | None = None
    facts: list[Fact] = []
    refusals: list[Refusal] = []
    for fact in _propose(message):
        checker = checker or Checker(message)
        reason = checker.check(fact)
        if reason is None:
            facts.append(fact)
        else:
            refusals.append(Refusal(fact, reason))
    return Extraction(facts=tuple(facts), refusals=tuple(refusals))


def takes_back_message_before(text: str) -> bool:
    """Return whether a message only takes back what its speaker said in the message before ("forget that")."""
    return len(text) <= _MAX_TAKE_BACK_CHARACTERS and takes_all_back(plain_text(text).strip())


def _propose(message: Message) -> Iterator[Fact]:
    if is_pasted(message.text):
        return
    sentences = list(split_sentences(own_words(message.text, message.speaker)))
    last_taken = max((number for number, one in enumerate(sentences) if takes_all_back(one.text)), default=-1)
    # "I live in Porto. Forget that."
    for sentence in sentences[last_taken + 1 :]:
        if len(sentence.text) > MAX_SENTENCE_CHARACTERS:
            continue
        for rules in all_rules():
            if rules.hint.search(sentence.text):
                yield from _SentenceReader(message, sentence, rules).read()
    yield from _propose_confirmed(message)


def _propose_confirmed(message: Message) -> Iterator[Fact]:
    """Propose what an assistant said of the speaker, where the message is the speaker's "yes"."""
    span = confirmation_span(message) if message.answered else None
    if span is None:
        return
    seen: set[tuple[str, str, str]] = set()
    for statement in statements_of(message):
        for fact in _propose(statement.message):
            if fact.predicate in UNCONFIRMED or fact.is_negated or _identity(fact) in seen:
                continue
            seen.add(_identity(fact))
            quote = message.text[span.start : span.end]
            yield replace(fact, span=span, quote=quote, statement=statement.original(fact.span))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One predicate of a match, before the keys are known."""

    about: str
    predicate: str
    value: str
    is_negated: bool = False
    event_time: str | None = None


class _SentenceReader:
    """Reads one sentence by the patterns of one language."""

    def __init__(self, message: Message, sentence: Sentence, rules: LanguageRules) -> None:
        self._message = message
        self._sentence = sentence
        self._rules = rules

    def read(self) -> Iterator[Fact]:
        """Propose facts; each predicate of a clause once."""
        if clause := self._rules.take_back_verb_last.match(self._sentence.text):
            yield from self._read_verb_last(clause.end())
            return
        seen: set[tuple[str, str, str]] = set()
        taken_back = self._rules.take_back.match(self._sentence.text)
        starts = [0, *(match.end() for match in self._rules.boundary.finditer(self._sentence.text))]
        if taken_back:
            starts = [taken_back.end()]
        for pattern in self._rules.patterns:
            for start in starts:
                for form in pattern.forms:
                    match = form.match(self._sentence.text, start)
                    if match is None:
                        continue
                    facts = [fact for fact in self._facts(pattern, match) if _identity(fact) not in seen]
                    seen.update(map(_identity, facts))
                    if taken_back:
                        facts = [self._taken_back(fact) for fact in facts if _may_be_taken_back(fact)]
                    yield from facts
                    if facts:
                        break

    def _read_verb_last(self, start: int) -> Iterator[Fact]:
        """Propose what the clause takes back: "dass ich in Porto wohne" says "ich wohne in Porto"."""
        clause = _CLAUSE.match(self._sentence.text, start)
        if clause is None:
            return
        *words, verb = clause[0].split(" ")
        span = Span(self._sentence.start, self._sentence.start + clause.end())
        quote = self._message.text[span.start : span.end]
        # The verb stands behind the subject, which has several words, as in "meine Schwester Eva".
        for count in range(1, min(len(words), _MAX_SUBJECT_WORDS) + 1):
            text = " ".join([*words[:count], verb, *words[count:]])
            reader = _SentenceReader(replace(self._message, text=text, answered=None), Sentence(0, text), self._rules)
            facts = [fact for fact in reader.read() if fact.span == Span(0, len(text)) and _may_be_taken_back(fact)]
            for fact in facts:
                yield replace(
                    fact, span=span, quote=quote, content=quote, is_negated=True, is_taken_back=True, valid_from=None
                )
            if facts:
                return

    def _facts(self, pattern: Pattern, match: re.Match[str]) -> list[Fact]:
        groups = match.groupdict()
        year = self._year_behind(match)
        if year is not None:
            groups["when"] += year[0]
        readings = list(self._readings(pattern, groups))
        names = {item.about: item.value for item in readings if item.predicate == "name" and item.about != "self"}
        names |= self._known_names(match)
        begin = self._begin(match) if pattern.predicate in _LASTING else None
        end = year.end() if year else match.end("clause")
        if begin:
            end = begin.end
        span = Span(self._sentence.start + match.start("clause"), self._sentence.start + end)
        quote = self._message.text[span.start : span.end]
        return [
            Fact(
                type=_TYPES.get(reading.predicate, "fact"),
                about=reading.about,
                predicate=reading.predicate,
                value=reading.value,
                key=_key(reading, names),
                span=span,
                quote=quote,
                content=quote,
                is_negated=reading.is_negated,
                event_time=reading.event_time,
                valid_from=begin.day if begin else None,
            )
            for reading in readings
        ]

    def _taken_back(self, fact: Fact) -> Fact:
        """Return what ends a fact whose speaker takes it back; its quote is the sentence up to there."""
        span = Span(self._sentence.start, fact.span.end)
        quote = self._message.text[span.start : span.end]
        return replace(
            fact, span=span, quote=quote, content=quote, is_negated=True, is_taken_back=True, valid_from=None
        )

    def _begin(self, match: re.Match[str]) -> DayMention | None:
        """Return since when the fact is true, where the clause or the words behind it say that."""
        text, end = self._sentence.text, match.end("clause")
        behind = SINCE.match(text, end)
        since = behind or SINCE.search(text, match.start("clause"), end)
        if since is None:
            return None
        order = date_order(self._message.zone)
        for mention in find_date_mentions(since[0], self._message.today, order):
            return DayMention(since.start() + mention.start, max(end, since.start() + mention.end), mention.dates.first)
        return None

    def _year_behind(self, match: re.Match[str]) -> re.Match[str] | None:
        """Return the year that ends a day behind a comma, at which the clause ended."""
        is_last = match.groupdict().get("when") and match.end("when") == match.end("clause")
        return _YEAR.match(self._sentence.text, match.end("when")) if is_last else None

    def _known_names(self, match: re.Match[str]) -> dict[str, str]:
        """Return the name that stands beside a relation: "my sister Eva lives in Graz"."""
        relation = match.groupdict().get("relation")
        if not relation:
            return {}
        beside = _NAME_BESIDE.match(self._sentence.text, match.end("relation"))
        return {self._rules.relation_of(relation): beside["name"]} if beside else {}

    def _readings(self, pattern: Pattern, groups: dict[str, str | None]) -> Iterator[_Reading]:
        about = self._about(groups)
        for value in self._values(pattern, groups):
            event_time = self._event_time(groups)
            if groups.get("when") and event_time is None:
                return
            yield _Reading(about, pattern.predicate, value, pattern.is_negated, event_time)
        if disliked := groups.get("disliked"):
            yield _Reading(about, "dislikes", disliked)
        if (name := groups.get("name")) and pattern.predicate == "owns":
            yield _Reading(self._rules.animal_of(_singular(groups["value"] or "")), "name", name)

    def _about(self, groups: dict[str, str | None]) -> str:
        if relation := groups.get("relation"):
            return self._rules.relation_of(relation)
        if pet := groups.get("pet"):
            return self._rules.animal_of(pet)
        return "self"

    def _values(self, pattern: Pattern, groups: dict[str, str | None]) -> Iterator[str]:
        if date_text := groups.get("date"):
            yield from self._birthday(date_text)
        elif number_text := groups.get("number"):
            number = read_number(number_text)
            if number is not None and 0 < number <= _MAX_AGE:
                yield str(number)
        elif values := groups.get("values"):
            is_one = self._rules.unsplit.search(values)
            for text in [values] if is_one else self._rules.joiner.split(values):
                read = list(self._value(pattern, text))
                yield from read
                if not read:
                    # What stands behind is the rest of another clause.
                    return
        elif topic := groups.get("topic"):
            for value in self._value(pattern, groups["value"] or ""):
                yield f"{topic}: {value}"
        else:
            yield from self._value(pattern, groups.get("value") or "")

    def _value(self, pattern: Pattern, text: str) -> Iterator[str]:
        value = text.strip(_OUTER)
        if not value or MASK in value:
            return
        if pattern.predicate not in _FREE and self._rules.stop_values.search(value):
            return
        if pattern.refused_values.search(value):
            return
        if pattern.predicate not in _VERBATIM:
            value = self._rules.articles.sub("", value)
        if value:
            yield self._rules.normal_values.get(value.casefold(), value)

    def _birthday(self, text: str) -> Iterator[str]:
        order = date_order(self._message.zone)
        for mention in find_days(text, self._message.today, order):
            if mention.is_year:
                yield str(mention.day.year)
            elif mention.is_yearly:
                yield f"--{mention.day:%m-%d}"
            else:
                yield str(mention.day)
            return

    def _event_time(self, groups: dict[str, str | None]) -> str | None:
        when = groups.get("when")
        if not when:
            return None
        order = date_order(self._message.zone)
        return find_event_time(when, self._message.today, order)


_CLAUSE: Final = re.compile(r"(?:[^,;:.!?…]|(?<=\d)\.(?= ))+")
_MAX_SUBJECT_WORDS: Final = 4
_NAME_BESIDE: Final = re.compile(r",? (?P<name>[A-ZÀ-Þ][\w'-]+),?(?= [a-zà-ÿ])")
_YEAR: Final = re.compile(r",? (?:(?:of|de|del|im Jahr) )?(?:19|20|21)\d\d(?= *(?:$|[.,;!?)]))")
# Predicates that are true from a day on.
_LASTING: Final = frozenset({"lives_in", "works_at", "occupation", "diet", "studies"})
# Predicates whose values are sentences.
_FREE: Final = frozenset({"decision", "note", "appointment", "name", "lives_in", "works_at", "email", "phone"})
_VERBATIM: Final = frozenset({"note", "decision", "name", "email", "phone"})


def _may_be_taken_back(fact: Fact) -> bool:
    # In "forget that my sister Eva lives in Graz" her name stays.
    return bool(fact.key) and not fact.is_negated and (fact.predicate != "name" or fact.about == "self")


def _identity(fact: Fact) -> tuple[str, str, str]:
    return fact.predicate, fact.about, fact.value


def _singular(text: str) -> str:
    return text.removesuffix("s") if text.isascii() and text.endswith("s") else text


def _key(reading: _Reading, names: dict[str, str]) -> str | None:
    slot = _slot(reading)
    if slot is None:
        return None
    if reading.about == "self":
        key = slot
    elif reading.about in _UNIQUE:
        key = f"{reading.about}.{slot}"
    elif reading.about in names:
        key = f"{reading.about}:{_folded(names[reading.about])}.{slot}"
    else:
        return None
    return key if len(key) <= _MAX_KEY_CHARACTERS else None


def _slot(reading: _Reading) -> str | None:
    predicate, value = reading.predicate, _folded(reading.value)
    if predicate in _SINGLE:
        return predicate
    if predicate in {"likes", "dislikes"}:
        return f"taste:{value}"
    if predicate == "favourite":
        return f"favourite:{value.partition(': ')[0]}"
    if predicate == "diet":
        return "diet" if _REGIME.fullmatch(value) else f"diet:{value}"
    if predicate in {"allergy", "owns", "speaks"}:
        return f"{predicate}:{value}"
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
