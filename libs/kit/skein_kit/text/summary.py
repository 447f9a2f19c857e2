"""Extractive summaries: sentences of the conversation itself, the same ones for the same conversation. Pure.

The choice is SumBasic (Nenkova and Vanderwende, "The impact of frequency on summarization", 2005), with weight for
position after Edmundson ("New methods in automatic extracting", 1969):

1. p(w) = occurrences of the word w / occurrences of all words, without stop words;
2. weight of a sentence = the mean of p(w) over its words, × 1.5 for the first sentence of the conversation, × 1.25 for
   the first sentence of a message, × 1.25 for sentences of the user;
3. take the sentence with the highest weight, the earlier of equals, if it fits into the remaining length;
4. for each word in it p(w) becomes p(w)², so that the next sentence differs; repeat from 2 until no sentence fits.

The sentences are returned in their original order, with the speakers.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skein_kit.text.quoted_text import one_line

DEFAULT_CHARACTERS = 1000
MAX_CHARACTERS = 20_000
# Limits of the part of a conversation that is read, the newest messages first.
MAX_READ_MESSAGES = 1000
MAX_READ_CHARACTERS = 200_000
# Most sentences of a summary.
_MAX_SENTENCES = 100
_MIN_WORDS = 2
# Sentences with fewer words weigh less: "Yes, please." is frequent and has little content.
_FULL_WORDS = 5
_FIRST_OF_ALL, _FIRST_OF_MESSAGE, _OF_USER = 1.5, 1.25, 1.25
_USER = "user"
_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\n+")
_WORD = re.compile(r"[^\W\d_]{2,}|\d+")
_STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does
    doing done for from get go going got had has have having he hello her here hers him his hi how if in into is
    it its just let like may me might more most much my no nor not now of off ok okay on only or other our out
    over own please really same she should so some such than thank thanks that the their them then there these
    they this those through to too under until up us very want was we well were what when where which while who
    whom why will with would yes you your
    """.split()  # noqa: SIM905 - words read best as a text.
)


@dataclass(frozen=True, slots=True)
class SpeakerTurn:
    """The text of one message and its speaker: "user", "assistant", a name, or "" for none."""

    speaker: str
    text: str
    is_user: bool = False


@dataclass(frozen=True, slots=True)
class _Sentence:
    position: int
    turn: int
    text: str
    words: frozenset[str]
    factor: float


def summarize(turns: Sequence[SpeakerTurn], *, max_characters: int = DEFAULT_CHARACTERS) -> str:
    """Return a summary of at most `max_characters` characters; "" when no sentence fits or there is none."""
    sentences = list(_sentences(turns))
    counts = Counter(word for turn in turns for word in _words(turn.text))
    total = counts.total() or 1
    weights = {word: count / total for word, count in counts.items()}
    # Weights only fall, so an old weight is an upper bound: a sentence that is best by its new weight is the best.
    queue = [(-_weight(sentence, weights), sentence.position) for sentence in sentences]
    heapq.heapify(queue)
    selected: list[_Sentence] = []
    selected_texts: set[str] = set()
    length = 0
    while queue and len(selected) < _MAX_SENTENCES:
        best = sentences[queue[0][1]]
        weight = -_weight(best, weights)
        if weight > queue[0][0]:
            heapq.heapreplace(queue, (weight, best.position))
            continue
        heapq.heappop(queue)
        # A sentence that is too long by itself needs no join with the others.
        if length + len(best.text) > max_characters or best.text.casefold() in selected_texts:
            continue
        if (new_length := len(_format(turns, [*selected, best]))) > max_characters:
            continue
        length = new_length
        selected.append(best)
        selected_texts.add(best.text.casefold())
        for word in best.words:
            weights[word] **= 2
    return _format(turns, selected)


def _weight(sentence: _Sentence, weights: dict[str, float]) -> float:
    mean = sum(weights[word] for word in sentence.words) / len(sentence.words)
    return mean * sentence.factor * min(1.0, len(sentence.words) / _FULL_WORDS)


def _sentences(turns: Sequence[SpeakerTurn]) -> Iterable[_Sentence]:
    position = 0
    for number, turn in enumerate(turns):
        is_first = True
        for text in _END.split(turn.text):
            sentence = " ".join(text.split())
            words = frozenset(_words(sentence))
            if len(words) < _MIN_WORDS:
                continue
            factor = _OF_USER if turn.is_user else 1.0
            if is_first:
                factor *= _FIRST_OF_MESSAGE if position else _FIRST_OF_ALL
            yield _Sentence(position, number, sentence, words, factor)
            position += 1
            is_first = False


def _words(text: str) -> Iterable[str]:
    return (word for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS)


def _format(turns: Sequence[SpeakerTurn], sentences: Iterable[_Sentence]) -> str:
    """Return the sentences in their original order, one line for consecutive ones of a speaker."""
    lines: list[str] = []
    speaker = None
    for sentence in sorted(sentences, key=lambda sentence: sentence.position):
        if turns[sentence.turn].speaker == speaker:
            lines[-1] += f" {sentence.text}"
        else:
            speaker = turns[sentence.turn].speaker
            lines.append(f"{one_line(speaker)}: {sentence.text}" if speaker else sentence.text)
    return "\n".join(lines)
