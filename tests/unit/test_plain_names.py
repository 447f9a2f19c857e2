"""Names have one form of Unicode: the rule itself, and where the contract applies it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2
from skein.options.v1.options_pb2 import TEXT_KIND_NAME
from skein_client.plain_names import plain_name
from skein_kit.rpc.declarations import paths, text_kind
from skein_kit.rpc.plain_names import make_names_plain
from skein_kit.text.unicode_form import compared_form, contains, plain_form, same_text

# Full width, decomposed, a soft hyphen, a ligature.
ODD, PLAIN = "\uff21nne\u0301 \u00ado\ufb01", "Anné ofi"
DEPTH = 4


@over(
    ("text", "plain"),
    [
        ("plain", "plain"),
        (unicodedata.normalize("NFD", "Zürich"), "Zürich"),
        ("\uff21\uff22\uff11", "AB1"),
        ("\uff76\uff8c\uff6a", "カフェ"),
        ("o\ufb03ce", "office"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\ufeffzero\u200bwidth\u2060", "zerowidth"),
        ("\u202eright\u202c", "right"),
        ("a\u200db", "ab"),
        # They change how the letters look.
        ("\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0645\u06cc\u200c\u0631\u0648\u0645"),
        ("👩\u200d💻", "👩\u200d💻"),
        # Case, accents, and letters that only look alike.
        ("Muller", "Muller"),
        ("\u0410nna", "\u0410nna"),
    ],
)
def test_a_name_has_one_form(text: str, plain: str) -> None:
    assert plain_form(text) == plain


@given(text=st.text())
def test_a_form_stays_as_it_is(text: str) -> None:
    for form in (plain_form, compared_form):
        assert form(form(text)) == form(text)


@over(
    ("text", "literal", "is_contained"),
    [
        ("Bäckerei", unicodedata.normalize("NFD", "bäck"), True),
        ("o\ufb03ce", "OFFICE", True),
        ("pass\u200bword", "password", True),
        ("tea", "coffee", False),
        # It would be in every text.
        ("tea", "\u200b", False),
        ("te\u200ba", "\u200b", True),
    ],
)
def test_a_literal_is_found_in_every_form(text: str, literal: str, *, is_contained: bool) -> None:
    assert contains(text, literal) is is_contained


@over("mark", ["\u0300", "\u0f73", "\uff9e", "\u302a"])
def test_a_letter_with_64_marks_has_one_form_and_one_with_more_stays(mark: str) -> None:
    assert plain_form(f"\uff45{mark * 64}").startswith(unicodedata.normalize("NFKC", f"e{mark}")[0])
    assert plain_form(f"\uff45{mark * 65}") == f"\uff45{mark * 65}"


@pytest.mark.system
def test_marks_without_end_are_read_in_one_pass() -> None:
    text = "a" + "\u0300" * 1_000_000 + "\u0316" * 1_000_000

    assert plain_form(text) == compared_form(text) == same_text(text) == text


def test_names_are_made_plain_and_content_stays() -> None:
    memory = memory_pb2.Memory(content=ODD, title=ODD, key=ODD, subject_id=ODD, tags=[ODD, "x"])

    make_names_plain(memory)

    assert memory == memory_pb2.Memory(content=ODD, title=ODD, key=PLAIN, subject_id=PLAIN, tags=[PLAIN, "x"])


@over("unseen", ["\u200b", "\u00ad\u2060", "\u00a0\u200b"])
def test_a_name_that_nobody_sees_is_not_made_empty(unseen: str) -> None:
    """An empty subject_id selects the items of all subjects."""
    filter_ = memory_pb2.MemoryFilter(subject_id=unseen)

    make_names_plain(filter_)

    assert filter_.subject_id == unseen


def test_a_text_that_is_too_long_for_a_name_is_left_to_validation() -> None:
    request = memory_pb2.GetMemoryRequest(memory_id="\ufdfa" * 5000)

    make_names_plain(request)

    assert request.memory_id == "\ufdfa" * 5000


def test_every_name_of_every_request_is_made_plain_and_no_other_text() -> None:
    wrong = []
    for path in paths():
        service, _, name = path.removeprefix("/").partition("/")
        method = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
        request = message_factory.GetMessageClass(method.input_type)()
        _fill(request, DEPTH)
        make_names_plain(request)
        wrong += [
            f"{path}: {field.full_name}"
            for field, text in _texts(request)
            if text != (PLAIN if text_kind(field) == TEXT_KIND_NAME and not field.name.endswith("token") else ODD)
        ]
    assert wrong == []


def _fill(message: Message, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                getattr(message, field.name).append(ODD)
            else:
                setattr(message, field.name, ODD)
        elif (
            depth
            and field.message_type is not None
            and field.message_type.full_name.startswith("skein.")
            and not field.message_type.GetOptions().map_entry
        ):
            _fill(getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name), depth - 1)


def _texts(message: Message) -> Iterator[tuple[FieldDescriptor, str]]:
    for field, value in message.ListFields():
        values: Any = value if field.is_repeated else [value]
        for one in values:
            if field.type == FieldDescriptor.TYPE_STRING:
                yield field, one
            elif field.message_type is not None and field.message_type.full_name.startswith("skein."):
                yield from _texts(one)


@given(
    st.text(
        st.sampled_from("aZ\u00fc\u0308\u0301\u00ad\u200b\u200d\u200c\ufb01\uff21\ufe0f\u0628\u0915\u2764. "),
        max_size=12,
    )
)
def test_the_client_makes_names_plain_as_the_services_do(text: str) -> None:
    plain = plain_form(text)

    assert plain_name(text) == (plain if plain.strip() else text)
