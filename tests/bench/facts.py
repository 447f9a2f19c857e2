"""`python tests/bench/facts.py`: what the rules of extraction find in labelled messages, and what they get wrong.

The labels and their rules are in `extraction/`. Precision is the share of the extracted facts that are labelled; recall
is the share of the labelled facts that are extracted. Of the month, messages of people alone are read; duplicates are
facts that say once more what is known. With `--wrong NAME` it also prints what is wrong in a file; the files of the
kept half are not for reading while patterns are written.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from skein_worker.extraction.model import AnsweredMessage, Message
from skein_worker.extraction.rules import extract, takes_back_message_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skein_worker.extraction.model import Extraction, Fact

    Line = Mapping[str, Any]

FOLDER = Path(__file__).parent / "extraction"
HALVES = [*(f"{name}.{half}" for half in ("fit", "kept") for name in ("en", "de", "es", "zh", "month"))]
# What depends on the message before.
ANSWERS = "answers"
FILES = [*HALVES, ANSWERS]
_ARTICLE = re.compile(r"^(?:(?:a|an|the|der|die|das|den|dem|ein|eine|einen|el|la|los|las|un|una) )+", re.IGNORECASE)
_ROW = "{:12}{:>10}{:>10}{:>10}{:>8}{:>11}{:>9}{:>12}"


@dataclass(slots=True)
class Score:
    """The outcome of one file."""

    messages: int = 0
    labelled: int = 0
    extracted: int = 0
    right: int = 0
    # Facts that an earlier message of the file said too.
    repeated: int = 0
    seconds: float = 0.0
    refusals: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / self.extracted if self.extracted else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.labelled if self.labelled else 1.0


def read_lines(name: str) -> Iterator[Line]:
    """Read the labelled messages of a file."""
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def message_of(line: Line) -> Message:
    """Return the message of a line."""
    zone = ZoneInfo(line["zone"])
    said_at = datetime.fromisoformat(line["time"]).replace(tzinfo=zone)
    answered = AnsweredMessage(message_id="", text=line["before"], time=said_at) if line.get("before") else None
    return Message(text=line["text"], speaker=line["speaker"], time=said_at, zone=zone, answered=answered)


def score(name: str) -> Score:
    """Extract from every message of a file and compare with its labels."""
    result = Score()
    known: set[tuple[object, ...]] = set()
    for line in read_lines(name):
        if line.get("role", "user") != "user":
            continue
        result.messages += 1
        message = message_of(line)
        start = time.process_time()
        extraction = extract(message)
        result.seconds += time.process_time() - start
        _compare(result, line, extraction, known)
    return result


def _compare(result: Score, line: Line, extraction: Extraction, known: set[tuple[object, ...]]) -> None:
    missing = list(line["facts"])
    for fact in extraction.facts:
        label = next((label for label in missing if _agrees(fact, label)), None)
        if label is not None:
            missing.remove(label)
        if label is None or not label.get("is_repeat"):
            result.extracted += 1
            result.right += label is not None
        if label is None:
            result.wrong.append(f"{line['id']} extracted: {fact.about} {fact.predicate} {fact.value}")
        identity = (line["speaker"], fact.about, fact.predicate, _plain(fact.value), fact.is_negated, fact.event_time)
        result.repeated += identity in known and label is None
        known.add(identity)
    is_taken_back, is_labelled = takes_back_message_before(line["text"]), line.get("takes_back", False)
    result.labelled += is_labelled
    result.extracted += is_taken_back
    result.right += is_taken_back and is_labelled
    if is_taken_back != is_labelled:
        result.wrong.append(
            f"{line['id']} {'takes back' if is_taken_back else 'missed: takes back'} the message before"
        )
    new = [label for label in line["facts"] if not label.get("is_repeat")]
    result.labelled += len(new)
    result.refusals.update(refusal.reason.value for refusal in extraction.refusals)
    result.wrong += [
        f"{line['id']} missed: {label['about']} {label['predicate']} {label['value']}"
        for label in missing
        if not label.get("is_repeat")
    ]


def _agrees(fact: Fact, label: Line) -> bool:
    span = fact.statement or fact.span
    return (
        (fact.about, fact.predicate, _plain(fact.value), fact.is_negated, fact.event_time)
        == (label["about"], label["predicate"], _plain(label["value"]), label["is_negated"], label["event_time"])
        and (fact.type, fact.key) == (label["type"], label["key"])
        and span.start <= label["span"][0]
        and label["span"][1] <= span.end
    )


def _plain(value: str) -> str:
    parts = (_ARTICLE.sub("", part.strip()) for part in " ".join(value.casefold().split()).split(": "))
    return ": ".join(part.strip(" .,;:!?") for part in parts)


def main() -> None:
    """Print a line for each file, and the refusals by reason."""
    parser = argparse.ArgumentParser(description="Scores the rules of extraction against labelled messages.")
    parser.add_argument("--wrong", action="append", default=[], choices=FILES, help="Print what is wrong in a file.")
    arguments = parser.parse_args()
    print(_ROW.format("", "messages", "labelled", "extracted", "right", "precision", "recall", "ms/message"))
    refusals: Counter[str] = Counter()
    scores = {name: score(name) for name in FILES}
    for name, result in scores.items():
        refusals += result.refusals
        print(
            _ROW.format(
                name,
                result.messages,
                result.labelled,
                result.extracted,
                result.right,
                f"{result.precision:.3f}",
                f"{result.recall:.3f}",
                f"{1000 * result.seconds / result.messages:.2f}",
            )
        )
    for name in ("month.fit", "month.kept"):
        result = scores[name]
        total = max(1, result.extracted)
        junk, repeated = result.extracted - result.right, result.repeated
        print(f"{name}: junk {junk / total:.1%}, duplicates {repeated / total:.1%}, kept {result.recall:.2f}")
    print("Refused proposals: " + ", ".join(f"{reason} {count}" for reason, count in refusals.most_common()))
    for name in arguments.wrong:
        print("\n".join(scores[name].wrong))


if __name__ == "__main__":
    main()
