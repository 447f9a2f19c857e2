from __future__ import annotations

import base64
import uuid

import pytest

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import PageTokenInvalid
from skein_kit.pages import read_token, write_token

TENANT = uuid.UUID("01a1fc01-2863-7de6-a629-acfec7e060bc")


def test_a_token_leads_back_to_its_place() -> None:
    request = pb.ListMemoriesRequest(page_size=2, filter=pb.MemoryFilter(types=["fact"]))
    token = write_token(["a", "b"], TENANT, request)

    again = pb.ListMemoriesRequest(page_size=5, page_token=token, filter=pb.MemoryFilter(types=["fact"]))

    assert read_token(token, TENANT, again) == ["a", "b"]


def test_no_token_means_the_first_page() -> None:
    assert read_token("", TENANT, pb.ListMemoriesRequest()) is None


def test_a_token_is_bound_to_the_question() -> None:
    token = write_token(["a"], TENANT, pb.ListMemoriesRequest())

    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, pb.ListMemoriesRequest(filter=pb.MemoryFilter(types=["fact"])))


def test_a_token_is_bound_to_the_tenant() -> None:
    token = write_token(["a"], TENANT, pb.ListMemoriesRequest())

    with pytest.raises(PageTokenInvalid):
        read_token(token, uuid.uuid4(), pb.ListMemoriesRequest())


@pytest.mark.parametrize(
    "token",
    ["x", "é", "AAAA", *(base64.urlsafe_b64encode(text).decode() for text in (b"{}", b"[]", b"[" * 1500))],
)
def test_a_damaged_token_is_refused(token: str) -> None:
    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, pb.ListMemoriesRequest())
