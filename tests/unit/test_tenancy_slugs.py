from __future__ import annotations

import re

from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein_tenancy.directory.model import MAX_SLUG_CHARACTERS, slug_candidates, slug_from_name

# The rule of skein/tenancy/v1/tenancy.proto.
SLUG = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")


@given(st.text())
def test_every_name_gives_a_slug_that_the_contract_allows(name: str) -> None:
    slug = slug_from_name(name, default="tenant")

    assert SLUG.match(slug)
    assert len(slug) <= MAX_SLUG_CHARACTERS


@given(st.text(min_size=100))
def test_every_candidate_is_a_slug_that_the_contract_allows(name: str) -> None:
    for slug in slug_candidates(slug_from_name(name, default="tenant"), suffix=lambda: "a1b2c3"):
        assert SLUG.match(slug)
        assert len(slug) <= MAX_SLUG_CHARACTERS


@over(
    ("name", "slug"),
    [("The Home", "the-home"), ("  Café №7 ", "cafe-no7"), ("家", "tenant"), ("--", "tenant"), ("a" * 70, "a" * 63)],
)
def test_a_slug_says_the_name_in_plain_letters(name: str, slug: str) -> None:
    assert slug_from_name(name, default="tenant") == slug
