"""The words and forms of dates in each language, and the questions that ask for one: data, and nothing else.

A form is a regular expression. A name in braces stands for the words of its kind: {day}, {month}, {year}, {weekday},
{count}, {unit}. Its kind says how it is read (`dates.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# Kinds of forms, the most complete ones first: each removes its matches from the text.
FORM_KINDS: Final = ("date", "month", "year", "span", "ago", "near_day", "weekday", "unit")


@dataclass(frozen=True, kw_only=True, slots=True)
class DateLanguage:
    """One language. Words are in lower case."""

    months: Mapping[str, int]
    # From Monday, 0.
    weekdays: Mapping[str, int]
    # In days.
    units: Mapping[str, int]
    counts: Mapping[str, int]
    # Days before today.
    near_days: Mapping[str, int]
    # The kind of each form, and the form.
    forms: tuple[tuple[str, str], ...]
    # A form of one of these begins at the date and lasts until today.
    since: str
    asks_for_time: str
    # What has changed since is no better answer.
    asks_for_former: str


def _numbers(words: str, start: int = 1) -> dict[str, int]:
    """Number words from `start`; those that are joined by / have one number."""
    return {word: number for number, group in enumerate(words.split(), start) for word in group.split("/")}


def _days(**units: str) -> dict[str, int]:
    days = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
    return {word: days[unit] for unit, words in units.items() for word in words.split()}


ENGLISH: Final = DateLanguage(
    months=_numbers(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep october/oct "
        "november/nov december/dec"
    ),
    weekdays=_numbers("monday tuesday wednesday thursday friday saturday sunday", 0),
    units=_days(day="day days", week="week weeks", weekend="weekend", month="month months", year="year years"),
    counts=_numbers("a/an/one two three four five six seven eight nine ten eleven twelve"),
    near_days={"today": 0, "yesterday": 1},
    forms=(
        ("date", r"\b{day}(?:st|nd|rd|th)?\s+(?:of\s+)?{month}\b\.?,?\s+{year}\b"),
        ("date", r"\b{month}\b\.?\s+{day}(?:st|nd|rd|th)?\b,?\s+{year}\b"),
        ("date", r"\b{month}\b\.?,?\s+(?:of\s+)?{year}\b"),
        ("date", r"\b{day}(?:st|nd|rd|th)?\s+(?:of\s+)?{month}\b"),
        ("date", r"\b{month}\b\.?\s+{day}(?:st|nd|rd|th)?\b"),
        # A month without a day or year needs a preposition: "May" and "March" are words too.
        ("month", r"\b(?:in|on|during|since|of|by|until|early|late)\s+{month}\b"),
        ("near_day", r"\bthe\s+day\s+before\s+(?P<before>yesterday)\b"),
        ("near_day", r"\b{near_day}\b"),
        ("span", r"\b(?:past|last)\s+{count}\s+{unit}\b"),
        ("ago", r"\b{count}\s+{unit}\s+ago\b"),
        ("unit", r"\b(?:(?P<last>last)|this)\s+{unit}\b"),
        ("weekday", r"\b(?:on|last|since)\s+{weekday}\b"),
    ),
    since=r"\bsince(?:\s+(?:the|about|early|late))?",
    asks_for_time=(
        r"^\W*(?:since |until |and |so )?when\b|\bhow long\b|\b(?:what|which) (?:year|month|week|day|date|time)\b|"
        r"\bhow many (?:days|weeks|months|years)\b"
    ),
    asks_for_former=(
        r"\b(?:before|previous|previously|former|formerly|earlier|original|originally|initial|initially|used to|first|"
        r"old|history)\b"
    ),
)
GERMAN: Final = DateLanguage(
    months=_numbers(
        "januar/jan/jänner februar/feb märz/mär april/apr mai juni/jun juli/jul august/aug september/sept/sep "
        "oktober/okt november/nov dezember/dez"
    ),
    weekdays=_numbers("montag dienstag mittwoch donnerstag freitag samstag/sonnabend sonntag", 0),
    units=_days(
        day="tag tage tagen",
        week="woche wochen",
        weekend="wochenende",
        month="monat monate monaten",
        year="jahr jahre jahren",
    ),
    counts=_numbers("ein/einen/einem/einer/eine zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"),
    near_days={"heute": 0, "gestern": 1, "vorgestern": 2},
    forms=(
        ("date", r"\b{day}\.?\s*{month}\b\.?\s+{year}\b"),
        ("date", r"\b{month}\b\.?\s+{year}\b"),
        ("date", r"\b{day}\.\s*{month}\b"),
        ("month", r"\b(?:im|seit|ende|anfang|mitte|bis|ab)\s+{month}\b"),
        ("near_day", r"\b{near_day}\b"),
        ("span", r"\b(?:seit|letzten|vergangenen)\s+{count}\s+{unit}\b"),
        ("ago", r"\bvor\s+{count}\s+{unit}\b"),
        ("unit", r"\b(?:(?P<last>letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?)|diese[nrsm]?)\s+{unit}\b"),
        ("weekday", r"\b(?:am|letzten|vorigen|vergangenen|seit)\s+{weekday}\b"),
    ),
    since=r"\b(?:seit|ab)(?:\s+(?:dem|der|anfang|mitte|ende))?",
    asks_for_time=(
        r"\bwann\b|\bwie lange\b|\bwelche[mnrs]? (?:jahr|monat|woche|tag|datum|uhrzeit)\b|\bwie sp[äa]t\b|"
        r"\bwie viel uhr\b|\bwie viele (?:tage|wochen|monate|jahre)\b"
    ),
    asks_for_former=r"\b(?:früher\w*|vorher\w*|zuvor|ehemal\w+|ursprünglich\w*|damals|alte[nmrs]?|zuerst|bevor)\b",
)
SPANISH: Final = DateLanguage(
    months=_numbers(
        "enero/ene febrero/feb marzo abril mayo junio julio agosto septiembre/setiembre/sept octubre/oct "
        "noviembre/nov diciembre/dic"
    ),
    weekdays=_numbers("lunes martes miércoles/miercoles jueves viernes sábado/sabado domingo", 0),
    units=_days(
        day="día días dia dias",
        week="semana semanas",
        month="mes meses",
        year="año años",
        weekend="finde",
    ),
    counts=_numbers("un/una dos tres cuatro cinco seis siete ocho nueve diez once doce"),
    near_days={"hoy": 0, "ayer": 1, "anteayer": 2, "antier": 2},
    forms=(
        ("date", r"\b{day}\s+de\s+{month}\b\.?,?\s+(?:del?\s+)?{year}\b"),
        ("date", r"\b{month}\b\.?,?\s+(?:del?\s+)?{year}\b"),
        ("date", r"\b{day}\s+de\s+{month}\b"),
        ("month", r"\b(?:en|desde|hasta|durante|finales\s+de|principios\s+de|mes\s+de)\s+{month}\b"),
        ("near_day", r"\b{near_day}\b"),
        ("span", r"\b(?:desde\s+hace|últim[oa]s|ultim[oa]s)\s+{count}\s+{unit}\b"),
        ("ago", r"\bhace\s+{count}\s+{unit}\b"),
        ("unit", r"\b{unit}\s+(?P<last>pasad[oa])\b"),
        ("unit", r"\best[ea]\s+{unit}\b"),
        ("weekday", r"\b(?:el|desde\s+el)\s+{weekday}\b(?:\s+pasado\b)?"),
    ),
    since=r"\bdesde(?:\s+(?:el|la|finales\s+de|principios\s+de))?",
    asks_for_time=(
        r"\bcuándo\b|^\W*(?:desde |hasta |y )?cuando\b|\bcu[áa]nto tiempo\b|"
        r"\bqu[ée] (?:año|mes|semana|día|dia|fecha|hora)\b|\bcu[áa]nt[oa]s (?:días|dias|semanas|meses|años)\b"
    ),
    asks_for_former=r"\b(?:antes|anterior(?:es|mente)?|antigu\w+|original(?:es|mente)?|solía|al principio)\b",
)
FRENCH: Final = DateLanguage(
    months=_numbers(
        "janvier/janv février/fevrier/févr mars avril/avr mai juin juillet/juil août/aout septembre/sept octobre/oct "
        "novembre/nov décembre/decembre/déc"
    ),
    weekdays=_numbers("lundi mardi mercredi jeudi vendredi samedi dimanche", 0),
    units=_days(
        day="jour jours", week="semaine semaines", month="mois", year="an ans année années", weekend="week-end"
    ),
    counts=_numbers("un/une deux trois quatre cinq six sept huit neuf dix onze douze"),
    near_days={"aujourd'hui": 0, "aujourd’hui": 0, "hier": 1, "avant-hier": 2},
    forms=(
        ("date", r"\b{day}(?:er)?\s+{month}\b\.?,?\s+{year}\b"),
        ("date", r"\b{month}\b\.?\s+{year}\b"),
        ("date", r"\b{day}(?:er)?\s+{month}\b"),
        ("month", r"\b(?:en|depuis|fin|début|jusqu'en|mois\s+de)\s+{month}\b"),
        ("near_day", r"\b{near_day}\b"),
        ("span", r"\b(?:depuis|derniers|dernières)\s+{count}\s+{unit}\b"),
        ("ago", r"\bil\s+y\s+a\s+{count}\s+{unit}\b"),
        ("unit", r"\b{unit}\s+(?P<last>derni(?:er|ère)|passée?)\b"),
        ("unit", r"\b(?:ce|cette|cet)\s+{unit}\b"),
        ("weekday", r"\b(?:depuis\s+)?{weekday}\s+(?:dernier|passé)\b"),
    ),
    since=r"\bdepuis(?:\s+(?:le|la|début|fin))?",
    asks_for_time=(
        r"^\W*(?:depuis |et |c'était )?quand\b|\bcombien de temps\b|"
        r"\bquel(?:le)? (?:année|mois|semaine|jour|date|heure)\b|\bcombien de (?:jours|semaines|mois|années)\b"
    ),
    asks_for_former=r"\b(?:avant|ancien(?:ne)?s?|précédent\w*|autrefois|à l'origine|au début)\b",
)
# Japanese writes most of them with the same signs. Words have no spaces between them, so nothing bounds them.
CHINESE: Final = DateLanguage(
    months=_numbers("一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 十二月"),
    weekdays=_numbers("一/月 二/火 三/水 四/木 五/金 六/土 日/天", 0),
    units=_days(day="天 日", week="周 週 星期 礼拜 周间 週間", month="月 个月 個月 か月 ヶ月", year="年"),
    counts=_numbers("一 二/两/兩 三 四 五 六 七 八 九 十 十一 十二"),
    near_days={"今天": 0, "今日": 0, "昨天": 1, "昨日": 1, "前天": 2, "一昨日": 2},
    forms=(
        ("date", r"{year}\s*年\s*(?P<number>\d{1,2})\s*月\s*{day}\s*[日号號]?"),
        ("date", r"{year}\s*年\s*(?P<number>\d{1,2})\s*月"),
        ("date", r"(?<!\d)(?P<number>\d{1,2})\s*月\s*{day}\s*[日号號]"),
        ("month", r"(?<![\d个個])(?P<number>\d{1,2})\s*月(?!\d)"),
        ("month", r"(?:在|从|自|去年|今年){month}"),
        ("year", r"{year}\s*年"),
        ("near_day", r"{near_day}"),
        ("span", r"(?:最近|过去|過去|近)(?:这|這)?\s*{count}\s*[个個]?{unit}(?!前)"),
        ("ago", r"{count}\s*[个個]?{unit}[之以]?前"),
        ("weekday", r"(?P<last_week>先週)の?{weekday}曜日?"),
        ("weekday", r"(?P<last_week>上(?:个|個)?|先)(?:周|週|星期|礼拜){weekday}"),
        ("weekday", r"(?:这|這|本)?(?:周|星期|礼拜){weekday}"),
        ("weekday", r"{weekday}曜日?"),
        ("unit", r"(?P<last>上(?:个|個)?|先|去|昨){unit}"),
        ("unit", r"(?:这(?:个)?|這(?:個)?|本|今){unit}"),
    ),
    since=r"(?:自从|自|从|從)",
    asks_for_time=(
        r"什么时候|什麼時候|何时|何時|哪一?天|哪一?年|哪个月|哪個月|几月|幾月|几号|幾號|几点|幾點|多久|多长时间|星期几|いつ|何年|何月|何日"
    ),
    asks_for_former=r"以前|之前|原来|原來|曾经|曾經|最初|当初|當初|从前|從前",
)
LANGUAGES: Final = (ENGLISH, GERMAN, SPANISH, FRENCH, CHINESE)
