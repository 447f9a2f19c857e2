from __future__ import annotations

import re
from pathlib import Path

import pytest
from fix_command import CommandResult, skein

from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.demo.scenario import questions


@pytest.fixture(scope="module")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[CommandResult, Path]:
    """Run the demo where temporary files have a long path with spaces."""
    folder = tmp_path_factory.mktemp("demo") / "a long way down" / ("d" * 120)
    folder.mkdir(parents=True)
    return await skein("demo", TMPDIR=str(folder)), folder


@pytest.mark.essential
def test_it_succeeds_and_leaves_nothing_behind(demo: tuple[CommandResult, Path]) -> None:
    ended, folder = demo

    assert (ended.code, ended.err) == (ExitCode.OK, "")
    # The library that runs the model may leave a session file of its own, ".ses" or "….ses".
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".ses")] == []


def test_it_asks_at_least_eight_questions_and_finds_most_of_the_evidence(demo: tuple[CommandResult, Path]) -> None:
    ended, _ = demo
    items = re.search(r"(\d+) of (\d+) questions have their evidence", ended.out)

    assert items is not None
    assert int(items[2]) == len(questions()) >= 8
    assert int(items[1]) >= int(items[2]) - 2
    assert all(question.question in ended.out for question in questions())
    assert "lexical" in ended.out
    assert "dense" in ended.out


def test_a_message_begins_with_the_name_of_its_speaker_and_no_key(demo: tuple[CommandResult, Path]) -> None:
    ended, _ = demo

    assert re.search(r"^.* message .* (?:Nadia|Ivo|Juno|Tomas|Elsbeth): ", ended.out, flags=re.MULTILINE)
    assert "api_key:" not in ended.out


def test_it_shows_a_trace_from_the_gateway_to_the_statements(demo: tuple[CommandResult, Path]) -> None:
    ended, _ = demo
    tree = ended.out.partition("Trace of one recall")[2]

    assert re.search(r"^gateway GatewayService/Recall  [\d.]+ ms$", tree, flags=re.MULTILINE)
    assert re.search(r"── recall RecallService/Recall  [\d.]+ ms$", tree, flags=re.MULTILINE)
    assert re.search(r"── SQL \w+ \w+  [\d.]+ ms$", tree, flags=re.MULTILINE)


def test_it_shows_facts_with_their_quotes_and_that_a_correction_supersedes_one(
    demo: tuple[CommandResult, Path],
) -> None:
    ended, _ = demo
    facts = re.findall(r"^ *(\S+) +“(.+?)” +(current|superseded) *$", ended.out, flags=re.MULTILINE)

    assert facts == [
        ("allergy", "I'm allergic to peanuts", "current"),
        ("lives_in", "I live in Porto", "superseded"),
        ("birthday", "My birthday is on 3 May", "current"),
        ("lives_in", "I live in Lisbon", "current"),
    ]


def test_it_says_where_things_are_and_how_to_go_on(demo: tuple[CommandResult, Path]) -> None:
    ended, _ = demo

    assert all(word in ended.out for word in ("gRPC", "metrics", "credentials", "make up"))
