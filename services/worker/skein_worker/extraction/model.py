"""What was said, and the facts that are made of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from enum import StrEnum

# The author of facts that rules find. A change of patterns that finds other facts raises the number.
EXTRACTOR = "extractor:rules@4"
# The author of facts that a language model proposes. A change of the prompt raises the number.
MODEL_EXTRACTOR = "extractor:model@1"
# The memory types of facts.
MEMORY_TYPES = ("fact", "preference", "decision", "note")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredMessage:
    """What an assistant said to a person right before the person's message."""

    message_id: str
    text: str
    time: datetime
    revision: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a person."""

    text: str
    # The name of the speaker, empty where it is unknown.
    speaker: str
    # When it was said, with a time zone.
    time: datetime
    # The time zone in which the speaker names days and hours.
    zone: tzinfo
    # A statement of an assistant that the message may confirm.
    answered: AnsweredMessage | None = None

    @property
    def today(self) -> date:
        """The day on which it was said, where the speaker is."""
        return self.time.astimezone(self.zone).date()


@dataclass(frozen=True, slots=True)
class Span:
    """Characters of a message: from the first one to the one behind the last."""

    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """A proposed fact. Only `check` says whether the message supports it."""

    # A memory type.
    type: str
    # "self" for the speaker, else the English word of a relation or an animal.
    about: str
    predicate: str
    value: str
    # The fact key; None where several facts of this kind are true at once, or where nothing tells their subjects apart.
    key: str | None
    span: Span
    # The characters of the span as the extractor read them.
    quote: str
    # What the memory says.
    content: str
    # The fact has ended, or is denied.
    is_negated: bool = False
    # The speaker takes it back ("forget that I'm vegan"): it only ends what is stored.
    is_taken_back: bool = False
    # A day (2026-03-13) or a minute (2026-03-13T15:00) in the time zone of the speaker.
    event_time: str | None = None
    # The day from which it is true, where that is said.
    valid_from: date | None = None
    # The characters of the answered message that say it, where the span only confirms them.
    statement: Span | None = None


class Reason(StrEnum):
    """Why a proposed fact is refused; the value is a label of a metric."""

    SPAN_NOT_IN_MESSAGE = "span_not_in_message"
    NUMBER_NOT_SAID = "number_not_said"
    DATE_NOT_SAID = "date_not_said"
    ADDRESS_NOT_SAID = "address_not_said"
    NAME_NOT_SAID = "name_not_said"
    WORD_NOT_SAID = "word_not_said"
    NEGATION_DIFFERS = "negation_differs"
    OTHER_LANGUAGE = "other_language"
    QUESTION = "question"
    CONDITION = "condition"
    HEARSAY = "hearsay"
    ORDER = "order"
    JOKE = "joke"
    PAST = "past"
    OTHER_SPEAKER = "other_speaker"
    NOT_PROSE = "not_prose"
    AGENT_ORDER = "agent_order"
    # A quote of several sentences, or of more than people say in one.
    NOT_ONE_STATEMENT = "not_one_statement"
    # A quote that is a part of a clause.
    CUT_OFF = "cut_off"
    # A text that leaves out words of its quote, or changes their order.
    WORDS_DIFFER = "words_differ"
    # A quote about neither the speaker nor a person whom the speaker knows.
    NO_PERSON = "no_person"
    # What a later sentence of the message takes back ("forget that").
    TAKEN_BACK = "taken_back"
    # A statement of an assistant that the message does not plainly confirm.
    NOT_CONFIRMED = "not_confirmed"
    TYPE_NOT_ALLOWED = "type_not_allowed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposed fact that the message does not support."""

    fact: Fact
    reason: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """The facts of one message, and what was proposed and refused."""

    facts: tuple[Fact, ...]
    refusals: tuple[Refusal, ...]
