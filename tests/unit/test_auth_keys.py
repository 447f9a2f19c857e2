from __future__ import annotations

import string
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skein_auth.api_keys.model import PREFIX, ApiKeyToken
from skein_kit.database.transactions import NO_TENANT

TENANT = uuid.UUID("01a1fc11-c5a3-7be6-ab82-eb8af43be1c4")
KEY_ID = uuid.UUID("01a1fc11-c5aa-7fac-9c12-d766ff7582c6")

keys = st.builds(ApiKeyToken, st.just(PREFIX), st.uuids(), st.uuids(), st.binary(min_size=32, max_size=32))


@pytest.mark.system
@given(keys)
def test_a_key_is_read_as_it_was_written(key: ApiKeyToken) -> None:
    assert ApiKeyToken.parse(key.encode()) == key


@pytest.mark.system
@given(keys, st.data())
def test_no_single_wrong_character_is_accepted(key: ApiKeyToken, data: st.DataObject) -> None:
    text = key.encode()
    place = data.draw(st.integers(0, len(text) - 1))
    wrong = data.draw(st.one_of(st.sampled_from(string.printable), st.characters()).filter(lambda c: c != text[place]))

    assert ApiKeyToken.parse(text[:place] + wrong + text[place + 1 :]) is None


@pytest.mark.system
@given(keys, st.data())
def test_no_swapped_neighbours_are_accepted(key: ApiKeyToken, data: st.DataObject) -> None:
    text = key.encode()
    place = data.draw(st.integers(0, len(text) - 2))
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]

    assert swapped == text or ApiKeyToken.parse(swapped) is None


@pytest.mark.system
@given(keys, st.integers(0, 114))
def test_a_key_that_was_cut_off_is_not_accepted(key: ApiKeyToken, length: int) -> None:
    assert ApiKeyToken.parse(key.encode()[:length]) is None


@pytest.mark.system
@given(st.text())
def test_other_texts_are_no_keys(text: str) -> None:
    assert ApiKeyToken.parse(text) is None
    assert ApiKeyToken.parse("skein_" + text) is None


def test_upper_case_is_another_text() -> None:
    text = ApiKeyToken.new(TENANT, KEY_ID).encode()

    assert ApiKeyToken.parse(text.upper()) is None
    assert ApiKeyToken.parse("skein_" + text.removeprefix("skein_").upper()) is None


def test_a_key_proves_itself_to_its_own_hash_alone() -> None:
    key, other = ApiKeyToken.new(TENANT, KEY_ID), ApiKeyToken.new(TENANT, KEY_ID)

    assert key.matches_hash(key.secret_hash())
    assert not other.matches_hash(key.secret_hash())


def test_a_key_of_no_tenant_is_the_operators() -> None:
    assert ApiKeyToken.new(NO_TENANT, KEY_ID).is_operator_key
    assert not ApiKeyToken.new(TENANT, KEY_ID).is_operator_key


def test_a_key_that_is_shown_by_accident_shows_no_secret() -> None:
    key = ApiKeyToken.new(TENANT, KEY_ID)

    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)


checked_keys = st.builds(ApiKeyToken.new, st.uuids(), st.uuids(), st.binary(min_size=32, max_size=32))


@given(checked_keys)
def test_a_key_with_check_digits_is_read_as_it_was_written(key: ApiKeyToken) -> None:
    assert ApiKeyToken.parse(key.encode()) == key


@pytest.mark.system
@given(checked_keys, st.data())
def test_no_single_wrong_character_is_accepted_with_check_digits(key: ApiKeyToken, data: st.DataObject) -> None:
    text = key.encode()
    place = data.draw(st.integers(0, len(text) - 1))
    wrong = data.draw(st.one_of(st.sampled_from(string.printable), st.characters()).filter(lambda c: c != text[place]))

    assert ApiKeyToken.parse(text[:place] + wrong + text[place + 1 :]) is None


@given(checked_keys, st.integers(0, 133))
def test_a_key_with_check_digits_that_was_cut_off_is_not_accepted(key: ApiKeyToken, length: int) -> None:
    assert ApiKeyToken.parse(key.encode()[:length]) is None


def test_check_digits_are_of_one_key_one_kind_and_one_secret() -> None:
    ours, other = b"o" * 32, b"t" * 32
    key = ApiKeyToken.new(TENANT, KEY_ID, ours)

    assert key.has_valid_mac([other, ours])
    assert not key.has_valid_mac([other])
    assert not key.has_valid_mac([])
    assert not ApiKeyToken.new(TENANT, KEY_ID).has_valid_mac([ours])
    assert not replace(key, secret=bytes(32)).has_valid_mac([ours])
    assert not replace(key, tenant_id=KEY_ID).has_valid_mac([ours])
    assert not replace(key, token_id=TENANT).has_valid_mac([ours])
    assert not replace(key, prefix="skein_once_").has_valid_mac([ours])
