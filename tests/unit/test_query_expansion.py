"""What a query is read as: names of entities in a text, and the distance of a typo."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

from fix_catalogue import over

from skein_kit.ids import new_id, now
from skein_recall.search.expansion import (
    EntityName,
    Name,
    NameTable,
    NearRange,
    QueryExpansion,
    Reason,
    alias_expansions,
    distance,
    embedded_text,
    max_distance,
    near_terms,
    read_mentions,
    word_of_stem,
)

CI, CHINESE, PG = (new_id(now()) for _ in range(3))


def name(text: str, entity_id: object = CI, *, is_alias: bool = True) -> EntityName:
    return EntityName(entity_id=entity_id, memory_id=new_id(now()) if is_alias else entity_id, text=text)  # type: ignore[arg-type]


NAMES = [
    name("GitHub Actions", is_alias=False),
    name("GHA"),
    name("Actions"),
    name("小明", CHINESE, is_alias=False),
    name("Xiao", CHINESE),
    name("C++", PG, is_alias=False),
    name("cpp", PG),
    name("x", PG),
    name("42", PG),
    name("this is far too long to be the name of any thing", PG),
]


def written_names(text: str, visible: list[EntityName], hidden: Sequence[EntityName] = ()) -> list[str]:
    table = NameTable([*hidden, *visible])
    names = [(one, one.text.lower().split()) for one in table.names(text, table.candidates(text)) if one not in hidden]
    mentions = [read.mention for read in read_mentions(text, table.candidates(text), names)]
    return [text[mention.start : mention.end] for mention in mentions]


@over(
    ("text", "written"),
    [
        ("how slow is gha?", ["gha"]),
        ("GHA's runners", ["GHA"]),
        ("ghastly", []),
        ("the github  actions", ["github  actions"]),
        ("Github_Actions and GHA", ["Github_Actions", "GHA"]),
        ("actions on GitHub", ["actions"]),
        ("小明对什么过敏?", ["小明"]),
        ("a C++ library, not C", ["C++"]),
        ("x is 42", []),
        ("y " * 600 + "GHA", []),
        ("GHA " * 9, ["GHA"] * 5),
    ],
)
def test_names_are_whole_words_in_any_case_and_the_longest_counts(text: str, written: list[str]) -> None:
    assert written_names(text, NAMES) == written


def test_a_name_that_the_caller_may_not_see_hides_no_other_name() -> None:
    hidden = [name("GHA runners", new_id(now())), *(name("GHA", new_id(now())) for _ in range(5))]

    assert written_names("GHA runners", NAMES, hidden) == ["GHA"]


def test_a_name_that_was_stored_in_another_form_of_unicode_is_found() -> None:
    names = [name("\uff36\uff50\uff2e", is_alias=False), name("Zu\u0308ri-Tunnel")]

    assert written_names("Is the Züri-Tunnel or the VPN slow?", names) == ["Züri-Tunnel", "VPN"]


def test_of_many_names_those_that_decide_are_looked_up_first() -> None:
    entities = [new_id(now()) for _ in range(40)]
    names = [
        name(text, entity_id, is_alias=is_alias)
        for number, entity_id in enumerate(entities)
        for text, is_alias in [(f"Team {number}", False), *((f"alias{alias} of {number}", True) for alias in range(50))]
    ]
    text = " ".join(f"Team {number}" for number in range(40))
    table = NameTable(names)

    looked_up = table.names(text, table.candidates(text))

    assert [one.text for one in looked_up[:40]] == [f"Team {number}" for number in range(40)]
    assert len(looked_up) <= 500


def test_a_mention_is_read_as_the_other_names_of_its_entity() -> None:
    text = "How slow is GHA today?"
    visible = [(one, one.text.lower().split()) for one in NAMES]

    read = read_mentions(text, NameTable(NAMES).candidates(text), visible)

    assert read[0].stems == {"gha"}
    assert read[0].others == (
        Name(text="GitHub Actions", stems=("github", "actions")),
        Name(text="Actions", stems=("actions",)),
    )
    assert embedded_text(text, read) == "How slow is GHA (GitHub Actions, Actions) today?"
    assert alias_expansions(text, read)[0] == QueryExpansion("GHA", "GitHub Actions", Reason.ALIAS)


@over("hidden", ["GitHub Actions", "GHA"])
def test_a_name_counts_only_if_its_own_and_the_canonical_memory_are_visible(hidden: str) -> None:
    text = "How slow is GHA?"
    visible = [(one, ["stem"]) for one in NAMES if one.text != hidden]

    assert read_mentions(text, NameTable(NAMES).candidates(text), visible) == ()


def test_names_of_stop_words_are_none() -> None:
    names = [name("Information Technology", is_alias=False), name("IT")]
    stems = [["inform", "technolog"], []]

    assert read_mentions("is it late", NameTable(names).candidates("is it late"), zip(names, stems, strict=True)) == ()


@over(
    ("one", "other", "expected"),
    [
        ("typsecript", "typescript", 1),
        ("kubernt", "kubernet", 1),
        ("abcd", "abcd", 0),
        ("abcd", "acbd", 1),
        ("abcdefgh", "badcefgh", 2),
        ("abcdefgh", "abcdefgh12", 2),
        ("abcdefgh", "xxxxxxxx", 3),
        ("ab", "abcdef", 3),
        ("ca", "abc", 3),
    ],
)
def test_a_transposition_of_neighbours_is_one_edit(one: str, other: str, expected: int) -> None:
    assert distance(one, other, 2) == expected == distance(other, one, 2)


def table_distance(one: str, other: str) -> int:
    """Return the distance by the textbook's table."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row, letter in enumerate(one, start=1):
        for column, other_letter in enumerate(other, start=1):
            table[row, column] = min(
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (letter != other_letter),
            )
            if row > 1 and column > 1 and (letter, one[row - 2]) == (other[column - 2], other_letter):
                table[row, column] = min(table[row, column], table[row - 2, column - 2] + 1)
    return table[len(one), len(other)]


@over("limit", [1, 2])
def test_a_distance_is_that_of_the_table_up_to_the_limit(limit: int) -> None:
    random = Random(7)
    terms = ["".join(random.choices("abc", k=random.randrange(8))) for _ in range(4000)]

    for one, other in itertools.pairwise(terms):
        assert distance(one, other, limit) == min(table_distance(one, other), limit + 1), (one, other)


@over(
    ("term", "expected"),
    [
        ("cat", 0),
        ("cats", 1),
        ("kubernt", 1),
        ("kubernet", 2),
        ("größe", 1),
        ("москва", 1),
        ("python3", 0),
        ("小明对什么过敏呢", 0),
        ("수의사가", 0),
        ("wordжжж", 0),
        ("foo-bar", 0),
        ("a" * 41, 0),
    ],
)
def test_long_words_may_have_two_typos_and_numbers_none(term: str, expected: int) -> None:
    assert max_distance(term) == expected


def test_the_nearest_terms_begin_with_the_same_letter_and_a_known_term_has_none() -> None:
    assert near_terms("docker", ["docket", "dockers", "rocker", "docked1", "duck"]) == (1, ["dockers", "docket"])
    assert near_terms("kubernetis", ["kubernet", "kubernetes"]) == (1, ["kubernetes"])
    assert near_terms("docker", ["docker", "docket"]) == (0, [])
    assert near_terms("docker", []) == (0, [])


@over(
    "typo",
    ["tpescript", "tpyescript", "tzpescript", "txypescript", "tyescript", "tyepscript", "tyzescript", "tyxpescript"],
)
def test_a_term_with_one_typo_at_the_second_or_third_letter_is_guessed(typo: str) -> None:
    assert "typescript" in NearRange.of(typo).guesses


def test_the_ranges_have_the_terms_that_begin_alike() -> None:
    near = NearRange.of("typescript")

    assert [first <= "typo" < beyond for first, beyond in near.bounds] == [True, True]
    assert [first <= "tyrant" < beyond for first, beyond in near.bounds] == [False, True]
    assert (near.lengths, near.guesses.count("typescript")) == ((8, 12), 1)


def test_the_word_of_a_stem_begins_like_it() -> None:
    assert word_of_stem("typescript", "We write TypeScript, typed.") == "TypeScript"
    assert word_of_stem("happi", "so happy") == "happy"
    assert word_of_stem("kubernet", "nothing of it") == "kubernet"
    assert word_of_stem("typescript", "atypescript, type_TypeScript2") == "TypeScript2"
    assert word_of_stem("straßenbahn".casefold(), "Die Straßenbahn") == "strassenbahn"
    assert word_of_stem("happi", "HAPPY happiness happiest happi") == "happi"
