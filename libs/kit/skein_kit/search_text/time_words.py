"""Whether a text has an expression of time, in the languages whose questions for a time are known. Pure."""

from __future__ import annotations

import re
from typing import Final

# Left out are words that mean something else more often: "May" and "mayo", and "Tag", "an" and "mar" in English texts.
_ENGLISH: Final = """
yesterday today tomorrow tonight last next ago since recently weekend day days week weeks month months year years
monday tuesday wednesday thursday friday saturday sunday
january february march april june july august september october november december
"""
_GERMAN: Final = """
gestern vorgestern heute morgen letzte letzten letzter letztes nächste nächsten nächster nächstes seit kürzlich
wochenende tage tagen woche wochen monat monate monaten jahr jahre jahren
montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar februar märz mai juni juli oktober dezember
"""
_SPANISH: Final = """
ayer anteayer hoy mañana pasado pasada próximo próxima desde hace día días semana semanas mes meses año años
lunes martes miércoles jueves viernes sábado domingo
enero febrero marzo abril junio julio agosto septiembre octubre noviembre diciembre
"""
_FRENCH: Final = """
hier demain dernier dernière prochain prochaine depuis jours semaine semaines mois année années
lundi mardi mercredi jeudi vendredi samedi dimanche
janvier février avril juin juillet août septembre octobre novembre décembre
"""
_WORDS: Final = frozenset((_ENGLISH + _GERMAN + _SPANISH + _FRENCH).split())
_NUMBER: Final = re.compile(r"(?<!\w)(?:\d{4}|\d+(?:st|nd|rd|th)|\d{1,2}\.\d{1,2}\.(?:\d{4})?)(?!\w)", re.IGNORECASE)
# Chinese and Japanese have no spaces between words.
_SIGNS: Final = re.compile(
    "[昨今明前后後]天|[昨今明]日|[去今明前后後昨]年|星期|礼拜|[周週][一二三四五六日末]|"
    "[上下这這本先来來](?:个|個)?[周週月]|曜日|[0-9一二三四五六七八九十][年月日号號]|[天周週年月]前"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")
# Of the beginning.
_READ_CHARACTERS: Final = 10_000


def mentions_time(text: str) -> bool:
    """Return whether a text has an expression of time: a date, a weekday, "last week"."""
    text = text[:_READ_CHARACTERS]
    if _NUMBER.search(text) or (not text.isascii() and _SIGNS.search(text)):
        return True
    return not _WORDS.isdisjoint(_LETTERS.findall(text.casefold()))
