"""Whether a message supports a proposed fact. It refuses what was not said, with a reason; it proposes nothing. Pure.

It judges every proposal alike, of rules as of a language model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from skein_kit.dates.dates import date_order, find_date_mentions
from skein_worker.extraction.confirmations import confirmation_span, statements_of
from skein_worker.extraction.days_ahead import find_days, find_event_times
from skein_worker.extraction.model import Fact, Message, Reason
from skein_worker.extraction.number_words import find_number_words
from skein_worker.extraction.patterns import LanguageRules, Markers, all_rules, takes_all_back
from skein_worker.extraction.sentences import MASK, MAX_SENTENCE_CHARACTERS, Sentence, own_words, split_sentences

# Predicates that are said with a negation.
_NEGATIVE: Final = frozenset({"dislikes"})
# Predicates whose values are clauses of their own, with verbs and negations of any kind.
_FREE: Final = frozenset({"decision", "note"})
# The predicate of a fact that says what its words say, negations included.
STATEMENT: Final = "statement"
# What only a person's own words say: a "yes" to them may be a slip, and names and addresses are who a person is.
UNCONFIRMED: Final = frozenset({"note", "decision", "email", "phone", "name", STATEMENT})


class Checker:
    """Judges the facts that are proposed for one message."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._own_words = own_words(message.text, message.speaker)
        self._order = date_order(message.zone)

    def check(self, fact: Fact) -> Reason | None:
        """Return why the message does not support a fact; None where it does."""
        if fact.statement is not None:
            return self._check_confirmed(fact)
        span = fact.span
        if not 0 <= span.start < span.end <= len(self._message.text):
            return Reason.SPAN_NOT_IN_MESSAGE
        if not fact.quote.strip() or self._message.text[span.start : span.end] != fact.quote:
            return Reason.SPAN_NOT_IN_MESSAGE
        return (
            self._check_place(fact)
            or self._check_taken_back(fact)
            or self._check_words(fact)
            or self._check_negation(fact)
            or self._check_rephrasing(fact)
        )

    def _check_confirmed(self, fact: Fact) -> Reason | None:
        """Check a fact that an assistant says: the whole message confirms it, and its own words would support it."""
        if fact.predicate in UNCONFIRMED or fact.is_negated or fact.is_taken_back:
            return Reason.NOT_CONFIRMED
        span = fact.span
        if span != confirmation_span(self._message) or self._message.text[span.start : span.end] != fact.quote:
            return Reason.NOT_CONFIRMED
        reasons: list[Reason | None] = []
        for statement in statements_of(self._message):
            own_fact = statement.own_fact(fact)
            reasons.append(Reason.NOT_CONFIRMED if own_fact is None else Checker(statement.message).check(own_fact))
        if None in reasons:
            return None
        return next((reason for reason in reasons if reason is not Reason.NOT_CONFIRMED), Reason.NOT_CONFIRMED)

    def _check_place(self, fact: Fact) -> Reason | None:
        """Check what the words around the span make of it."""
        own = self._own_words[fact.span.start : fact.span.end]
        if MASK in own:
            return self._masked_reason(fact)
        sentences = [
            sentence
            for sentence in split_sentences(self._own_words)
            if sentence.start < fact.span.end and fact.span.start < sentence.end
        ]
        if len(sentences) != 1 or len(fact.quote) > MAX_SENTENCE_CHARACTERS:
            return Reason.NOT_ONE_STATEMENT
        for sentence in sentences:
            for rules in _languages(sentence.text):
                reason = _sentence_reason(sentence, fact, rules.markers)
                if reason is not None:
                    return reason
        if any(rules.markers.agent_order.search(fact.content) for rules in all_rules()):
            return Reason.AGENT_ORDER
        if len(self._own_words) <= _SHORT_MESSAGE and any(
            rules.markers.joke.search(self._own_words) for rules in _languages(self._own_words)
        ):
            return Reason.JOKE
        return None

    def _check_taken_back(self, fact: Fact) -> Reason | None:
        """Check that no later sentence takes it back: "I live in Porto. Forget that."."""
        later = (each for each in split_sentences(self._own_words) if fact.span.end <= each.start)
        return Reason.TAKEN_BACK if any(takes_all_back(each.text) for each in later) else None

    def _masked_reason(self, fact: Fact) -> Reason:
        start = self._message.text.rfind("\n", 0, fact.span.start) + 1
        line = self._message.text[start : fact.span.start]
        return Reason.OTHER_SPEAKER if _QUOTING.search(line) else Reason.NOT_PROSE

    def _check_words(self, fact: Fact) -> Reason | None:
        """Check that the content and the value say no more than the span and what Skein knows of it."""
        quote, today = fact.quote, self._message.today
        event_times = find_event_times(quote, today, self._order)
        if fact.event_time is not None and fact.event_time not in event_times:
            return Reason.DATE_NOT_SAID
        days = list(find_days(quote, today, self._order))
        resolved = {str(mention.day) for mention in days} | event_times
        resolved |= {f"--{mention.day:%m-%d}" for mention in days if mention.is_yearly}
        resolved |= {str(mention.day.year) for mention in days if mention.is_year}
        begins = {str(mention.dates.first) for mention in find_date_mentions(quote, today, self._order)}
        if fact.valid_from is not None and str(fact.valid_from) not in begins:
            return Reason.DATE_NOT_SAID
        if fact.predicate == "birthday" and fact.value not in resolved:
            return Reason.DATE_NOT_SAID
        if fact.content != quote and any(text not in resolved for text in _ISO_TIME.findall(fact.content)):
            return Reason.DATE_NOT_SAID
        numbers = {int(digits) for digits in _DIGITS.findall(quote)} | find_number_words(quote)
        numbers |= {int(digits) for text in resolved for digits in _DIGITS.findall(text)}
        value = "" if fact.value in resolved else fact.value
        return self._check_texts(fact, value, numbers)

    def _check_texts(self, fact: Fact, value: str, numbers: set[int]) -> Reason | None:
        quote = _folded(fact.quote)
        for text in (fact.content, value):
            if any(int(digits) not in numbers for digits in _DIGITS.findall(text)):
                return Reason.NUMBER_NOT_SAID
            if any(_folded(address) not in quote for address in _ADDRESS.findall(text)):
                return Reason.ADDRESS_NOT_SAID
        if fact.content != fact.quote:
            reason = self._check_content(fact, quote)
            if reason is not None:
                return reason
        return self._check_value(fact, value, quote, numbers)

    def _check_content(self, fact: Fact, quote: str) -> Reason | None:
        # The name of the speaker may be in another script.
        unnamed = fact.content.replace(self._message.speaker, " ") if self._message.speaker else fact.content
        if _scripts(unnamed) - _scripts(fact.quote):
            return Reason.OTHER_LANGUAGE
        if _differ(fact.content, fact.quote):
            return Reason.OTHER_LANGUAGE
        words = [*_WORD.findall(quote), *_WORD.findall(_folded(self._message.speaker))]
        known = {*words, *(word.removesuffix("'s") for word in words)}
        for number, word in enumerate(_WORD.findall(fact.content)):
            folded = word.casefold().removesuffix("'s")
            if _UNITS.fullmatch(folded) and folded not in known:
                return Reason.NUMBER_NOT_SAID
            is_name = word[0].isupper() or any(letter.isupper() for letter in word)
            is_first = number == 0 and (folded in _function_words() or _has_stem(folded, fact.quote))
            if is_name and folded not in known and not is_first:
                return Reason.NAME_NOT_SAID
        return None

    def _check_value(self, fact: Fact, value: str, quote: str, numbers: set[int]) -> Reason | None:
        if value.isdecimal() and int(value) in numbers:
            return None
        # Chinese has no spaces around a foreign word.
        words = {*_WORD.findall(quote), *_WORD.findall(_CHINESE.sub(" ", quote))}
        normal = {
            word
            for rules in all_rules()
            for spoken, meaning in rules.normal_values.items()
            if spoken in quote
            for word in _WORD.findall(meaning.casefold())
        }
        for word in _WORD.findall(value):
            folded = word.casefold()
            # Chinese has no spaces between words.
            is_said = folded in words or (_CHINESE.search(word) is not None and folded in quote)
            # German joins words: "Pollenallergie", "Lieblingsfarbe".
            if fact.predicate in _COMPOUNDS:
                is_said |= any(other.startswith(folded) or other.endswith(folded) for other in words)
            if folded in normal or is_said or (folded.isdecimal() and int(folded) in numbers):
                continue
            return Reason.NAME_NOT_SAID if word[0].isupper() else Reason.WORD_NOT_SAID
        return None

    def _check_negation(self, fact: Fact) -> Reason | None:
        rules = list(_languages(fact.quote))
        markers = [item.markers for item in rules]
        is_negative = any(item.negation.search(fact.quote) for item in markers)
        if fact.content != fact.quote and is_negative != any(
            item.markers.negation.search(fact.content) for item in [*rules, *_languages(fact.content)]
        ):
            return Reason.NEGATION_DIFFERS
        if fact.predicate in _FREE | {STATEMENT} or fact.is_taken_back:
            return None
        if fact.is_negated or fact.predicate in _NEGATIVE:
            return None if is_negative else Reason.NEGATION_DIFFERS
        return Reason.NEGATION_DIFFERS if is_negative and not _says_by_negation(fact, markers) else None

    def _check_rephrasing(self, fact: Fact) -> Reason | None:
        """Check that the content has the words of the quote in their order.

        It may name the speaker for "I", with the verb behind it in the third person, and a day that Skein resolved.
        """
        if fact.content == fact.quote:
            return None
        mentions = find_days(fact.quote, self._message.today, self._order)
        places = [(mention.start, mention.end) for mention in mentions]
        said = [(word, any(start <= at < end for start, end in places)) for word, at in _speaker_words(fact.quote)]
        words = [word for word, _ in _speaker_words(self._named_speaker(_ISO_TIME.sub(" ", fact.content)))]
        if _is_same_statement(said, words):
            return None
        spoken = {word for word, _ in said} | {form for word, _ in said for form in third_person(word)}
        return Reason.WORDS_DIFFER if set(words) <= spoken | {_SPEAKER} else Reason.WORD_NOT_SAID

    def _named_speaker(self, content: str) -> str:
        """Return a content with one sign for each name of the speaker."""
        speaker = self._message.speaker
        names = [re.escape(name) for name in (speaker, speaker.partition(" ")[0]) if name]
        named = rf"(?<!\w)(?:{'|'.join([*names, _USER])})(?:['’]s)?(?!\w)|用户的?"
        return re.sub(named, _SPEAKER, content.replace(_SPEAKER, " "), flags=re.IGNORECASE)


def _is_same_statement(said: list[tuple[str, bool]], words: list[str]) -> bool:
    """Return whether words say what a quote says; its words come with whether they may be missing."""
    if words[:1] == [_SPEAKER] and said and said[0][0] != _SPEAKER:
        # "Vivo en Porto": the verb alone names the first person.
        if len(words) == 1 or words[1] not in third_person(said[0][0]):
            return False
        said = [(_SPEAKER, False), *said]
    position = 0
    for word, is_optional in said:
        if position < len(words) and (
            words[position] == word
            or (position and words[position - 1] == _SPEAKER and words[position] in third_person(word))
        ):
            position += 1
        elif not is_optional:
            return False
    return position == len(words)


def third_person(verb: str) -> frozenset[str]:
    """Return the forms that a verb of the first person may have in the third."""
    forms = {verb + "s", verb + "es"}
    if verb.endswith("y"):
        forms.add(verb[:-1] + "ies")
    if verb.endswith("e"):
        forms |= {verb[:-1] + "t", verb[:-1] + "et"}
    if verb.endswith("o"):
        forms |= {verb[:-1] + "e", verb[:-1] + "a"}
    return frozenset(forms | _THIRD_PERSONS.get(verb, frozenset()))


def _speaker_words(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a text and their places; _SPEAKER for each word that names the speaker."""
    for match in _TOKEN.finditer(text.replace("’", "'")):
        word = match[0].casefold()
        first, *rest = _FIRST_PERSON.get(word, (word,))
        yield first, match.start()
        yield from ((other, match.start()) for other in rest)


def _sentence_reason(sentence: Sentence, fact: Fact, markers: Markers) -> Reason | None:
    """Return what the sentence is instead of a statement of its speaker."""
    text = sentence.text
    start, end = max(0, fact.span.start - sentence.start), min(len(text), fact.span.end - sentence.start)
    before, said = text[:start], text[:end]
    # The value of a note may say anything; the words before it may not.
    is_free = fact.predicate in _FREE
    scope = before if is_free else said
    tests = (
        (Reason.AGENT_ORDER, markers.agent_order, text),
        (Reason.QUESTION, _QUESTION_MARK, text),
        (Reason.QUESTION, markers.question, text),
        (Reason.ORDER, markers.order, "" if is_free or fact.is_taken_back else text),
        (Reason.CONDITION, markers.condition, scope),
        (Reason.CONDITION, markers.condition_after, text[end:]),
        (Reason.HEARSAY, markers.hearsay, scope),
        (Reason.JOKE, markers.joke, text),
        (Reason.PAST, markers.past, scope),
        # A span that begins behind its negation: "not | allergic to cats".
        (Reason.NEGATION_DIFFERS, markers.negation, _CLAUSE_BREAK.split(before)[-1]),
    )
    return next((reason for reason, pattern, part in tests if pattern.search(part)), None)


def _says_by_negation(fact: Fact, markers: list[Markers]) -> bool:
    """Return whether the negation of the quote is how the fact is said: "I don't eat pork"."""
    if fact.predicate == "diet":
        return any(item.avoids.search(fact.quote) for item in markers)
    if fact.predicate == "allergy":
        return any(item.lacks.search(fact.quote) for item in markers)
    # "I like roses, but no carnations"
    return fact.predicate == "likes" and _BUT_NOT.search(fact.quote) is not None


def _languages(text: str) -> Iterator[LanguageRules]:
    """Yield the languages that a text may be in: Chinese by its signs, the others by their most frequent words."""
    if _CHINESE.search(text):
        yield from (rules for rules in all_rules() if rules.name == "zh")
        return
    words = set(_WORD.findall(_folded(text)))
    scores = {rules.name: len(words & rules.function_words) for rules in all_rules() if rules.name != "zh"}
    best = max(scores.values())
    yield from (rules for rules in all_rules() if rules.name != "zh" and scores[rules.name] == best)


def _differ(content: str, quote: str) -> bool:
    """Return whether two texts are in different languages, as far as their words tell."""
    ours, theirs = ({rules.name for rules in _languages(text)} for text in (content, quote))
    return not ours & theirs


def _scripts(text: str) -> set[str]:
    scripts = {"latin"} if _LATIN.search(text) else set()
    scripts |= {"chinese"} if _CHINESE.search(text) else set()
    return scripts | ({"other"} if _OTHER_SCRIPT.search(text) else set())


def _has_stem(word: str, quote: str) -> bool:
    """Return whether the quote has a word in lower case with the same beginning: "Lives" for "live"."""
    return any(
        spoken[:_STEM] == word[:_STEM] and abs(len(spoken) - len(word)) <= _SUFFIX
        for spoken in _WORD.findall(quote)
        if spoken.islower() and len(spoken) >= _STEM
    )


def _folded(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").split())


# Predicates whose word is joined with their value.
_COMPOUNDS: Final = frozenset({"allergy", "favourite"})
_CLAUSE_BREAK: Final = re.compile(r"[,;:–—，；：]|\b(?:and|und|y|but|aber|pero)\b")
_BUT_NOT: Final = re.compile(r"\b(?:aber keine|but no|but not|pero no)\b", re.IGNORECASE)
_QUESTION_MARK: Final = re.compile(r"[?？]\s*$")
_SHORT_MESSAGE: Final = 240
_STEM, _SUFFIX = 4, 3
_WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_DIGITS: Final = re.compile(r"\d+")
_ADDRESS: Final = re.compile(r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_LATIN: Final = re.compile(r"[A-Za-zÀ-ɏ]")
_CHINESE: Final = re.compile(r"[\u3400-\u9fff]")
_OTHER_SCRIPT: Final = re.compile(r"[\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]")
# A day, or a day with a time of day, as Skein resolves them.
_ISO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d)?")
# Stands for the speaker among the words of a text.
_SPEAKER: Final = "\ue000"
_USER: Final = r"the user|user|der nutzer|die nutzerin|el usuario|la usuaria"
_TOKEN: Final = re.compile(
    r"\ue000|我们|[\u3400-\u9fff]|(?:(?![\u3400-\u9fff\ue000])[^\W_])+(?:['-](?:(?![\u3400-\u9fff])[^\W_])+)*"
)
_FIRST_PERSON_WORDS: Final = (
    "i me my mine myself ich mein meine meinen meinem meiner meines mir mich yo mi mis mí me conmigo 我"
)
_FIRST_PERSON: Final = {
    **dict.fromkeys(_FIRST_PERSON_WORDS.split(), (_SPEAKER,)),
    "i'm": (_SPEAKER, "am"),
    "i've": (_SPEAKER, "have"),
}
_THIRD_PERSONS: Final = {
    verb: frozenset(forms.split())
    for verb, forms in (
        ("am", "is"), ("have", "has"), ("do", "does"), ("don't", "doesn't"), ("haven't", "hasn't"), ("bin", "ist"),
        ("habe", "hat"), ("mag", "mag"), ("werde", "wird"), ("soy", "es"), ("estoy", "está"), ("tengo", "tiene"),
        ("voy", "va"), ("he", "ha"), ("prefiero", "prefiere"), ("quiero", "quiere"), ("puedo", "puede"),
    )
}  # fmt: skip
_UNITS: Final = re.compile(
    r"kg|kilos?|kilograms?|grams?|gramm|pounds?|lbs?|tonnes?|metres?|meters?|km|kilomet(?:er|re)s?|miles?|feet|foot|inch(?:es)?"
    r"|cm|mm|lit(?:er|re)s?|euros?|dollars?|pesos?|yuan|pfund|meter|stunden?|hours?|minutes?|minuten?|horas?|minutos?"
    r"|seconds?|weeks?|months?|years?|days?|jahre?n?|monate?n?|wochen?|tagen?|años?|meses|semanas?|días?|percent|prozent"
)
_QUOTING: Final = re.compile(r"[\"“„«「『>]|[:：]\s*$|^\s*[^\W\d_][\w ]{0,20}[:：]")


@cache
def _function_words() -> frozenset[str]:
    """Return those of every language. The first call compiles the rules: a second of every start otherwise."""
    return frozenset(word for rules in all_rules() for word in rules.function_words)
