"""A list that is known whole is paged like any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fix_catalogue import over
from fix_pages import call

from skein.auth.v1 import auth_pb2 as pb
from skein_kit.calls.call import as_current_call
from skein_kit.errors import PageTokenInvalid
from skein_kit.rpc.pagination import paginate, write_token


@pytest.fixture(autouse=True)
def usual_call() -> Iterator[None]:
    with as_current_call(call()):
        yield


def keys(*names: str) -> list[pb.SigningKey]:
    return [pb.SigningKey(key_id=name) for name in names]


def paged(signing_keys: list[pb.SigningKey], *, size: int, token: str = "") -> tuple[list[str], str]:
    request = pb.ListSigningKeysRequest(page_size=size, page_token=token)
    page, following = paginate(signing_keys, lambda key: key.key_id, request, None, size=size)
    return [key.key_id for key in page], following


@over("size", [1, 2, 3, 4, 5, 100])
def test_pages_hold_everything_once_in_order(size: int) -> None:
    found, token = paged(keys(*"abcde"), size=size)
    while token:
        page, token = paged(keys(*"abcde"), size=size, token=token)
        assert page
        found += page

    assert found == list("abcde")


def test_a_list_goes_on_where_its_last_item_is_gone() -> None:
    first, token = paged(keys(*"abcd"), size=2)

    assert first == ["a", "b"]
    assert paged(keys(*"acd"), size=2, token=token) == (["c", "d"], "")
    assert paged(keys(*"xabcd"), size=2, token=token) == (["c", "d"], "")
    assert paged([], size=2, token=token) == ([], "")


@over("place", [["a"], ["a", "-1"], ["a", "x"], ["a", "9" * 50], []])
def test_a_token_of_another_form_is_refused(place: list[str]) -> None:
    token = write_token(place, None, pb.ListSigningKeysRequest())

    with pytest.raises(PageTokenInvalid):
        paged(keys(*"ab"), size=1, token=token)
