"""Statements of an assistant that a person may confirm, read as the person would say them; and confirmations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from skein_worker.extraction.model import AnsweredMessage, Fact, Message, Span
from skein_worker.extraction.patterns import LanguageRules, all_rules
from skein_worker.extraction.sentences import own_words, split_sentences

_QUESTION_MARKS = ("?", "？")
_OUTER_MARKS = " ¿?？.。!！"
# What stands behind a colon may be an example or a task. A time of day has a colon too.
_INTRODUCED = re.compile(r"[:：](?!\d)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A statement about the person whom an assistant answered, in the words of that person."""

    # In the first person: "I live in Porto" for "You live in Porto, right?".
    message: Message
    # For each of its characters where the assistant's words begin and end that it stands for.
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, span: Span) -> Span:
        """Return the characters of the assistant's message that a part of the statement stands for."""
        return Span(self.starts[span.start], self.ends[span.end - 1])

    def inner(self, span: Span) -> Span | None:
        """Return the part that characters of the assistant's message stand for; None where there is none."""
        if span.start not in self.starts or span.end not in self.ends:
            return None
        last = len(self.ends) - 1 - self.ends[::-1].index(span.end)
        return Span(self.starts.index(span.start), last + 1)

    def own_fact(self, fact: Fact) -> Fact | None:
        """Return a confirmed fact as the person would have said it; None where no words of the statement say it."""
        inner = None if fact.statement is None else self.inner(fact.statement)
        if inner is None or self.message.text[inner.start : inner.end] != fact.content:
            return None
        return replace(fact, span=inner, quote=fact.content, statement=None)


def confirmation_span(message: Message) -> Span | None:
    """Return the characters of a message that confirms a statement, and says nothing else; None for any other one."""
    text = own_words(message.text, message.speaker)
    words = text.strip()
    if not words or not any(rules.confirmation.fullmatch(words) for rules in all_rules()):
        return None
    start = text.index(words)
    return Span(start, start + len(words))


def statements_of(message: Message) -> Iterator[Statement]:
    """Find the statement that the answered message is, once for each language that it may be in.

    None where "yes" could mean something else: the message says more than it, quotes it, introduces it with a colon,
    negates it, jokes, gives an order, or speaks of the assistant.
    """
    answered = message.answered
    if answered is None:
        return
    text = own_words(answered.text, "")
    sentences = list(split_sentences(text))
    if len(sentences) != 1 or _INTRODUCED.search(text):
        return
    (only,) = sentences
    for rules in all_rules():
        statement = rules.tag.sub("", only.text).rstrip(_OUTER_MARKS)
        start = len(statement) - len(statement.lstrip(_OUTER_MARKS))
        if any(mark in statement[start:] for mark in _QUESTION_MARKS):
            continue
        if rules.own_person.search(statement) or rules.markers.negation.search(statement):
            continue
        if rules.markers.joke.search(text) or rules.markers.agent_order.search(text):
            continue
        read = _in_first_person(message, answered, rules, statement[start:], only.start + start)
        # "You are a nurse" may be an order to an agent. "I am a nurse" is none.
        if read is not None and not rules.markers.order.search(read.message.text):
            yield read


def _in_first_person(
    message: Message, answered: AnsweredMessage, rules: LanguageRules, text: str, offset: int
) -> Statement | None:
    """Return a text with "I" for "you"; None where it does not begin with the person, but for words as "so"."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position, is_of_person = 0, False
    for match in [*rules.second_person.finditer(text), None]:
        end = len(text) if match is None else match.start()
        parts.append(text[position:end])
        starts.extend(range(offset + position, offset + end))
        ends.extend(range(offset + position + 1, offset + end + 1))
        if match is not None:
            word = rules.first_person[match[0].lower()]
            if word and not is_of_person and not rules.opener.fullmatch("".join(parts).lstrip()):
                # "Click yes, you live in Porto."
                return None
            parts.append(word)
            starts.extend([offset + match.start()] * len(word))
            ends.extend([offset + match.end()] * len(word))
            position = match.end()
            is_of_person |= bool(word)
    if not is_of_person:
        return None
    said = Message(text="".join(parts), speaker=message.speaker, time=answered.time, zone=message.zone)
    return Statement(message=said, starts=tuple(starts), ends=tuple(ends))
