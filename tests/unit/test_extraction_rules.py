from __future__ import annotations

import csv
from datetime import date, datetime
from zoneinfo import ZoneInfo

from bench import facts
from fix_catalogue import over

from skein_worker.extraction.days_ahead import find_days, find_event_times
from skein_worker.extraction.model import Message
from skein_worker.extraction.number_words import read_number
from skein_worker.extraction.rules import extract, takes_back_message_before

ZONE = ZoneInfo("Europe/Berlin")
# A Wednesday.
NOW = datetime(2026, 3, 11, 10, tzinfo=ZONE)


def found(text: str) -> list[tuple[str, str, str]]:
    message = Message(text=text, speaker="Mira", time=NOW, zone=ZONE)
    return [(fact.about, fact.predicate, fact.value) for fact in extract(message).facts]


@over("name", facts.FILES)
def test_precision_and_recall_are_at_least_95_percent_in_each_half(name: str) -> None:
    result = facts.score(name)

    assert result.precision >= 0.95
    assert result.recall >= 0.95


@over("name", ["month.fit", "month.kept"])
def test_a_month_leaves_at_most_one_percent_of_junk_and_of_duplicates(name: str) -> None:
    result = facts.score(name)

    assert result.extracted - result.right <= result.extracted / 100
    assert result.repeated <= result.extracted / 100


def test_halves_have_the_size_that_their_rules_say() -> None:
    counts = {name: sum(1 for _ in facts.read_lines(name)) for name in facts.HALVES}

    assert min(counts.values()) >= 150
    assert counts["month.fit"] + counts["month.kept"] == 1200


def test_a_relation_with_a_name_has_a_key_of_its_own() -> None:
    message = Message(text="My sister Eva lives in Graz.", speaker="Mira", time=NOW, zone=ZONE)

    keys = {fact.predicate: fact.key for fact in extract(message).facts}

    assert keys == {"name": "sister:eva.name", "lives_in": "sister:eva.lives_in"}


def test_a_relation_that_may_be_several_people_has_no_key() -> None:
    message = Message(text="My sister lives in Graz.", speaker="Mira", time=NOW, zone=ZONE)

    assert [fact.key for fact in extract(message).facts] == [None]


@over(
    "text",
    [
        "I've been living in Taipei since 2019.",
        "Ich wohne seit 2019 in Taipeh.",
        "Vivo en Taipéi desde 2019.",
        "我从2019年起住在台北。",
    ],
)
def test_a_fact_is_true_since_the_day_that_is_said(text: str) -> None:
    (fact,) = extract(Message(text=text, speaker="Mira", time=NOW, zone=ZONE)).facts

    assert fact.valid_from == date(2019, 1, 1)
    assert "2019" in fact.quote


@over(
    ("text", "days"),
    [
        ("on Friday", ["2026-03-13"]),
        ("next Friday", []),
        ("next Tuesday", ["2026-03-17"]),
        ("on Wednesday", []),
        ("nächsten Dienstag", ["2026-03-17"]),
        ("el lunes", ["2026-03-16"]),
        ("下周五", ["2026-03-20"]),
        ("上周五", []),
        ("the day after tomorrow", ["2026-03-13"]),
        ("pasado mañana", ["2026-03-13"]),
        ("on 4 March", ["2027-03-04"]),
        ("am 31. April", []),
        ("二月三十号", []),
    ],
)
def test_a_day_ahead_has_one_reading_or_none(text: str, days: list[str]) -> None:
    ahead = [mention for mention in find_days(text, NOW.date()) if mention.day >= NOW.date()]

    assert [str(mention.day) for mention in ahead] == days


@over(
    ("text", "event_time"),
    [
        ("tomorrow at 7:45", "2026-03-12T07:45"),
        ("tomorrow at 3 pm", "2026-03-12T15:00"),
        ("morgen um 15 Uhr", "2026-03-12T15:00"),
        ("mañana a las 9 de la noche", "2026-03-12T21:00"),
        ("明天下午三点半", "2026-03-12T15:30"),
        ("tomorrow at 12 am", "2026-03-12T00:00"),
    ],
)
def test_hours_are_read_with_their_half_of_the_day(text: str, event_time: str) -> None:
    assert event_time in find_event_times(text, NOW.date())


@over(
    ("text", "days"),
    [
        ("I have a dentist appointment on March 3, 2031.", ["2031-03-03"]),
        ("I have a dentist appointment on 3 March 2031.", ["2031-03-03"]),
        ("Ich habe am 3. März 2031 einen Termin beim Zahnarzt.", ["2031-03-03"]),
        ("Mein Zahnarzttermin ist am 3. März, 2031.", []),
        ("Tengo una cita con el dentista el 3 de marzo de 2031.", ["2031-03-03"]),
        ("I have a dentist appointment on March 3, 20 people come.", ["2027-03-03"]),
    ],
)
def test_the_year_of_an_appointment_is_that_which_was_said(text: str, days: list[str]) -> None:
    facts = extract(Message(text=text, speaker="Mira", time=NOW, zone=ZONE)).facts

    assert [fact.event_time for fact in facts if fact.event_time] == days
    assert all("2031" in fact.quote for fact in facts if fact.event_time == "2031-03-03")


def test_tomorrow_is_a_day_of_the_time_zone_of_the_speaker() -> None:
    late = datetime(2026, 3, 11, 23, 30, tzinfo=ZoneInfo("UTC"))
    message = Message(text="My exam is tomorrow at 9 am.", speaker="Mira", time=late, zone=ZONE)

    (fact,) = extract(message).facts

    assert fact.event_time == "2026-03-13T09:00"


@over(
    ("word", "number"),
    [("forty-one", 41), ("einundvierzig", 41), ("cuarenta y un", 41), ("四十一", 41), ("many", None)],
)
def test_number_words_are_read(word: str, number: int | None) -> None:
    assert read_number(word) == number


@over(
    "text",
    [
        "x" * 1_000_000,
        "I live in Porto. " * 200,
        "Dear tenants,\nI live in Porto.\n",
        "I live in [CITY].",
        "def greet():\n    return 'I live in Porto'",
        "",
    ],
)
def test_pasted_texts_and_code_have_no_facts(text: str) -> None:
    assert found(text) == []


def test_a_list_that_goes_on_with_another_clause_gives_its_first_part() -> None:
    assert found("I like jazz and my brother hates it.") == [("self", "likes", "jazz")]


@over(
    "text",
    [
        "I love books that make me think.",
        "I love evenings with a view of the sea.",
        "I enjoy sitting down with a good map.",
        "I like novels about the war and peace.",
        "My favorite soup is for lunch today, lentils!",
        "My favourite thing is swimming in the lake.",
        "I love seeing her smile.",
        "I like tea more than coffee.",
        "I bought a lot of apples.",
        "My boss, Ola and I are flying to Rome.",
        "我最喜欢那张你画的猫。",
        "I like a bunch others too.",
        "I like mine too!",
        "I love stories like that.",
        "I love taking naps between 5 and 7 pm",
        "I don't like too hot.",
        "I like to travel too!",
        "I'm FREEZING.",
        "My husband LOVES it.",
        "so I'm Filipino",
        "My favorite this semester is Greek Art.",
        "So I decided to log in and see how things were going.",
        "It was the time when we decided to do a prank.",
        "I'm studying right now.",
        "I don't like Utah for its winter.",
        "Me encantan todos estos lugares.",
    ],
)
def test_what_is_cut_or_refers_to_another_word_is_no_fact(text: str) -> None:
    assert found(text) == []


@over(
    ("text", "values"),
    [
        ("I'm allergic to most nuts and fruits with stones.", ["most nuts", "fruits with stones"]),
        ("I love jazz and soul music.", ["jazz and soul music"]),
        (
            "I enjoy cycling, playing board games, and cooking soups.",
            ["cycling", "playing board games", "cooking soups"],
        ),
        ("I love trains the most because they are quiet.", ["trains"]),
        ("I like to collect old maps.", ["collect old maps"]),
        ("I've always liked owls.", ["owls"]),
        ("We got another cat last week.", ["cat"]),
        ("I have a red kite, it's huge.", ["red kite"]),
        ("Goulash is one of my favorites.", ["Goulash"]),
        ("I enjoy studying and stuff.", ["studying"]),
        ("I like superhero movies a ton.", ["superhero movies"]),
        ("I hate chess honestly.", ["chess"]),
        ("I am not into games anymore.", ["games"]),
        ("My favorite smell is by far fresh bread.", ["smell: fresh bread"]),
        ("I work at the YMCA as a lifeguard.", ["YMCA"]),
        ("I love cookies and cream.", ["cookies and cream"]),
        ("I love a challenge and programming is hard.", ["challenge"]),
        ("No, I decided to try self study.", ["try self study"]),
        # Words that are joined.
        ("Ich habe eine Pollenallergie.", ["Pollen"]),
        ("Meine Lieblingsfarbe ist Dunkelgrün.", ["farbe: Dunkelgrün"]),
        ("我的邮箱是mira@halloran.example", ["mira@halloran.example"]),
        ("我最喜欢图书馆了。", ["图书馆"]),
        ("我喜欢游泳还有在河边钓鱼。", ["游泳", "在河边钓鱼"]),
        ("我有一个蓝色风筝。", ["蓝色风筝"]),
    ],
)
def test_lists_and_what_people_say_of_their_likes_and_things(text: str, values: list[str]) -> None:
    assert [value for _, _, value in found(text)] == values


@over(
    ("text", "keys"),
    [
        ("Please forget that I'm vegan.", ["diet"]),
        ("Forget that my sister Eva lives in Graz.", ["sister:eva.lives_in"]),
        ("Olvida que vivo en Porto.", ["lives_in"]),
        ("No olvida que vivo en Porto.", []),
        ("忘记我住在波尔图。", ["lives_in"]),
        ("Vergiss, dass ich in Porto wohne.", ["lives_in"]),
        ("Bitte vergiss, dass meine Schwester Eva in Graz wohnt!", ["sister:eva.lives_in"]),
        ("Vergiss, dass ich am 3. Mai Geburtstag habe.", ["birthday"]),
        ("Vergiss, dass ich in Porto wohne?", []),
        ("Vergiss, dass du in Porto wohnst.", []),
        ("Vergiss nicht, dass ich in Porto wohne.", []),
        ("Forget I live in Porto?", []),
        ("Forget it.", []),
        ("Don't forget that I live in Porto.", []),
    ],
)
def test_what_is_taken_back_ends_the_key_of_its_statement(text: str, keys: list[str]) -> None:
    message = Message(text=text, speaker="Mira", time=NOW, zone=ZONE)

    assert [fact.key for fact in extract(message).facts if fact.is_taken_back] == keys


@over(
    ("text", "is_taken_back"),
    [
        ("Forget that.", True),
        ("Sorry, forget what I said!", True),
        ("Vergiss das bitte wieder.", True),
        ("Olvídalo, por favor.", True),
        ("把这个忘了吧。", True),
        ("Forget that 🙏", True),
        ("No, forget that.", True),
        ("Nein, vergiss das.", True),
        ("No, olvida eso.", True),
        ("不，忘记这个吧。", True),
        ("不忘记这个", False),
        ("No olvida eso.", False),
        ("Nein vergiss das.", False),
        ("Forget that?", False),
        ("Don't forget that.", False),
        ("Forget that I live in Porto.", False),
        ("I said: forget that.", False),
        ("Vergiss das Brot nicht.", False),
    ],
)
def test_the_message_before_is_taken_back_by_whole_messages_alone(text: str, *, is_taken_back: bool) -> None:
    assert takes_back_message_before(text) is is_taken_back


def test_a_sentence_takes_back_those_before_it_in_its_message() -> None:
    assert found("I live in Porto. Forget that. I love jazz.") == [("self", "likes", "jazz")]


def test_judged_extractions_are_right_in_19_of_20_cases() -> None:
    with (facts.FOLDER / "judged.tsv").open(encoding="utf-8") as file:
        judged = list(csv.DictReader(file, delimiter="\t"))
    stored = [line["verdict"] for line in judged if line["outcome"] == "stored"]

    assert len(judged) >= 200
    assert stored.count("right") / len(stored) >= 0.95


@over(
    ("text", "values"),
    [
        ("🎉 I live in Porto 🎉", ["Porto"]),
        ("I love jazz 🎷", ["jazz"]),
        # Faces that take back what is said.
        ("I love jazz 🎷🙃", []),
        ("My name is 🦊.", []),
    ],
)
def test_pictures_beside_a_statement_change_nothing_but_faces_that_take_it_back(text: str, values: list[str]) -> None:
    assert [value for _, _, value in found(text)] == values
