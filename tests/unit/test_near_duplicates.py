"""Which texts say the same, and which memories say all that another one would."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over

from skein.memory.v1 import memory_pb2 as pb
from skein_memory.memories import convert, near_duplicates
from skein_memory.memories.near_duplicates import ComparedDraft
from skein_memory.memories.near_text import near_text, rough_beginning, rough_text

AT = datetime(2026, 1, 2, tzinfo=UTC)
SAME = (
    ("The user's dog is called Rex.", "the user's dog is called Rex"),
    ("user\u2019s dog  is\ncalled Rex", "user's dog is called Rex"),
    ("It doesn't bite.", "it does not bite"),
    ("I can't come", "I cannot come"),
    ("We won't go; they're late", "we will not go; they are late"),
    ("caf\u00e9", "cafe\u0301"),
    ("\uff2dilk is o\ufb00ered", "Milk is offered"),
    ("pass\u200bport in the draw\u00ader", "passport in the drawer"),
    ("\u201ctea\u201d at five", '"tea" at five'),
    ("if a:\n    b()\n", "if a:\n    b()"),
)
DIFFERENT = (
    ("user's dog is called Rex", "user's cat is called Rex"),
    ("user's dog is called Rex", "user's dog is called Max"),
    ("user's dog is called Rex", "user's dog is not called Rex"),
    ("it does bite", "it doesn't bite"),
    ("the fee is 3.5 euros", "the fee is 35 euros"),
    ("it is 5 degrees", "it is -5 degrees"),
    ("born on 2 May 1990", "born on 3 May 1990"),
    ("meets at 5:30", "meets at 530"),
    ("runs 5 km", "runs 5 miles"),
    ("Anna owes Bob", "Bob owes Anna"),
    ("works in IT", "works in it"),
    ("the plan is good", "the plan is good?"),
    ("x != y", "x = y"),
    ("2² is four", "22 is four"),
    ("takes vitamin A", "takes vitamin"),
    ("Pedro llama a Ana", "Pedro llama Ana"),
    ("he is a friend", 'he is a "friend"'),
    ("", "the"),
    ("token is abC9", "token is abc9"),
    ("token is abc9!", "token is abc9"),
    ("logs in /A/b", "logs in /a/b"),
    ("if a:\n    b()\n    c()", "if a:\n    b()\nc()"),
    ("x = 1\ny = 2", "x = 1 y = 2"),
    ("The Who play", "Who play"),
    ("Sunshine came", "sunshine came"),
    ("user's dog is called Rex", "user's dog is called rex"),
    ("let's eat, Anna", "let's eat Anna"),
    ("learns C", "learns C++"),
)
TEA: dict[str, Any] = {
    "content": "Anna drinks tea.", "type": "preference", "title": "Tea", "tags": ["a", "b"], "source": "chat",
    "metadata_json": '{"m": 1, "n": [1, 2]}', "data_json": '{"d": 1}',
}  # fmt: skip
CONTAINED: tuple[dict[str, Any], ...] = (
    {},
    {"content": "Anna  drinks tea"},
    {"tags": ["b"]},
    {"source": ""},
    {"metadata_json": '{"n":[1,2]}'},
    {"metadata_json": ""},
    {"importance": 1.0},
    {"session_id": "s"},
)
MORE: tuple[dict[str, Any], ...] = (
    {"content": "Anna drinks coffee."},
    {"title": "Drinks"},
    {"title": ""},
    {"type": "fact"},
    {"tags": ["a", "c"]},
    {"source": "mail"},
    {"metadata_json": '{"m": 2}'},
    {"metadata_json": '{"z": 1}'},
    {"data_json": '{"d": 2}'},
    {"data_json": ""},
    {"external_id": "x"},
    {"subject_id": "anna"},
    {"scope": pb.SCOPE_AGENT, "agent_id": "a"},
    {"source_agent": "a"},
)


def draft(**fields: Any) -> Any:
    return convert.draft(
        pb.Memory(**{name: value for name, value in fields.items() if value != ""}), at=AT, max_content=1000
    )


def says_all(stored: Any, new: Any) -> bool:
    return near_duplicates.says_all(ComparedDraft.of(stored), ComparedDraft.of(new))


@over("pair", SAME)
def test_texts_with_the_same_words_have_one_form(pair: tuple[str, str]) -> None:
    assert near_text(pair[0]) == near_text(pair[1])


@over("pair", DIFFERENT)
def test_texts_that_differ_in_what_may_matter_have_two_forms(pair: tuple[str, str]) -> None:
    assert near_text(pair[0]) != near_text(pair[1])


@over("change", CONTAINED)
def test_a_memory_says_all_that_brings_nothing_new(change: dict[str, Any]) -> None:
    assert says_all(draft(**TEA), draft(**TEA | change))


@over("change", MORE)
def test_a_memory_that_brings_anything_new_is_none_of_these(change: dict[str, Any]) -> None:
    assert not says_all(draft(**TEA), draft(**TEA | change))


@over("name", ["expire_time", "valid_from_time", "valid_to_time", "archive_time"])
def test_another_time_says_something_else(name: str) -> None:
    first = draft(**TEA)

    assert not says_all(first, replace(first, **{name: AT + timedelta(days=1)}))
    assert not says_all(replace(first, **{name: AT}), first)


def test_a_secret_says_what_no_other_says() -> None:
    secret = draft(type="knowledge_vault", title="k", secret_value="s")

    assert not says_all(secret, secret)


@pytest.mark.system
def test_the_beginning_of_a_long_text_is_that_of_its_whole_rough_form() -> None:
    pieces = (
        *(
            "The ",
            "the ",
            "IT ",
            "isn't ",
            "WE'RE ",
            "I'm ",
            "cannot ",
            "can't ",
            "U.S. ",
            "end. ",
            "\u201cno\u201d ",
            "x,y ",
        ),
        *(
            "\n",
            "\n    ",
            "\u3000",
            "\u200b",
            "e\u0301",
            " ",
            "word" * 60,
            "3.5 ",
            "don't've ",
            "\u00b4 ",
            ") ",
            "\ufb00",
        ),
    )
    for seed in range(60):
        source = random.Random(seed)
        text = "".join(source.choice(pieces) for _ in range(source.choice((10, 500, 4_000))))
        assert rough_beginning(text, 160) == rough_text(text)[:160], seed
    assert rough_beginning("x" * 10_000, 160) == "x" * 160
    assert rough_beginning(" " * 5_000 + "Tea", 160) == "tea"
