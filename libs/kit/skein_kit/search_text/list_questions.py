"""Whether a question asks for all of something: a list, a count, what is true of each. No I/O, no clock."""

from __future__ import annotations

import re
from typing import Final

# Only the beginning of a long text is likely a question.
_READ_CHARACTERS: Final = 1000

# What ends as a plural does. Words that end alike are none.
_PLURAL = (
    r"(?:(?!(?:\w*(?:ss|us|is|ous)|was|does|has|its|this|always|news|yes|as|lens|gas)\b)\w{2,}s|people|children|men|women)"
    r"\b(?!')"
)
_AUXILIARY = (
    r"(?:do|does|did|has|have|had|are|were|is|was|can|could|should|will|would|must|may|of|in|on|at|for|from|with)\b"
)
# With words before it, a plural is one where a verb follows: "which song motivates her" has none.
_ENGLISH = (
    rf"\bwhich\s+(?:other\s+)?{_PLURAL}|\b(?:which|what)\s+(?:[\w'-]+\s+)??(?:(?!of\b)[\w'-]+\s+)?{_PLURAL}\s+{_AUXILIARY}|"
    r"\b(?:what|who|which(?: ones)?) (?:else )?(?:are|were)\b|\bhow many\b|\blist\b(?! price)|"
    r"\bname (?:all|every|some|the \w+s)\b|\benumerate\b|"
    r"\ball (?:the|of|my|our|your|his|her|their|its|those|these|that|\w+s)\b|"
    r"\bevery(?:thing|one|body)?\b|\beach\b|\b(?:what|who|where) (?:all|else)\b|\bin (?:which|what) order\b"
)
# "welche" stands before a plural, and before a feminine noun: those in -ung, -heit and -keit are told apart.
_GERMAN = (
    r"\bwelche\s+(?:\w+\s+)?(?!\w*(?:ung|heit|keit|schaft|ion)\b)\w+(?:en|er|e|s|n)\b|\bwie viele\b|\bwie oft\b|"
    r"\balle[nrs]?\b|\bsämtliche\w*|\bjede[nmrs]?\b|\b(?:was|wer|wo|wen) alles\b|\b(?:liste|auflist\w*|aufzähl\w*)\b|"
    r"\bzähl\w* .*\bauf\b|\bwer (?:sind|waren)\b|\bwas (?:sind|waren)\b|\bin welcher reihenfolge\b"
)
_SPANISH = (
    r"\bcu[áa]les\b|\bqu[ée]\s+(?:(?:otr[oa]s|tipos? de)\s+)?(?!mes\b)\w+[aeioué]s\b|\bcu[áa]nt[oa]s\b|\btod[oa]s?\b|"
    r"\bcada\b|\blista\w*\b|\benumera\w*\b|\bqui[ée]nes\b|\ben qu[ée] orden\b"
)
_FRENCH = (
    r"\bquel(?:le)?s\b|\bcombien de\b|\btous?\b|\btoutes?\b|\bchaque\b|\bliste[rz]?\b|\bénumère\w*|"
    r"\bqui (?:sont|étaient)\b|\bdans quel ordre\b"
)
# Japanese writes most of them with the same signs. Words have no spaces between them, so nothing bounds them.
_CHINESE = (
    r"哪些|哪几|哪幾|所有|全部|一共|总共|總共|每[一个個次天年]|多少[次个個本家人种種]|几[次个個本家种種]|幾[次個本家種]|列出|列举|列舉|"
    r"都有|都[去到做买買看读讀]过|顺序|順序|すべて|全て|何[回度人冊個]|いくつ|一覧|リスト|どんな順"
)
_ASKS_FOR_ALL: Final = re.compile(f"{_ENGLISH}|{_GERMAN}|{_SPANISH}|{_FRENCH}|{_CHINESE}", re.IGNORECASE)
# A length of time is one thing: "how many years".
_MEASURES: Final = re.compile(
    r"\bhow many (?:more )?(?:seconds|minutes|hours|days|weeks|months|years)\b|"
    r"\bwie viele (?:sekunden|minuten|stunden|tage|wochen|monate|jahre)\b|"
    r"\bcu[áa]nt[oa]s (?:segundos|minutos|horas|d[íi]as|semanas|meses|años)\b|"
    r"\bcombien de (?:temps|secondes|minutes|heures|jours|semaines|mois|années)\b",
    re.IGNORECASE,
)


def asks_for_all(text: str) -> bool:
    """Return whether a question asks for all of something, in English, German, Spanish, French, Chinese or Japanese."""
    return _ASKS_FOR_ALL.search(_MEASURES.sub(" ", text[:_READ_CHARACTERS])) is not None
