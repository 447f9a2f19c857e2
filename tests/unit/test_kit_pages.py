from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

import pytest
from fix_catalogue import over
from fix_pages import TENANT, call
from google.protobuf.struct_pb2 import Value

from skein.memory.v1 import memory_pb2 as pb
from skein.tenancy.v1 import subjects_pb2
from skein_kit.calls.call import Call, as_current_call
from skein_kit.errors import PageTokenInvalid, ServiceUnavailable
from skein_kit.json_values import fields
from skein_kit.rpc.pagination import fit_rows, read_token, write_token

REQUEST = pb.ListMemoriesRequest()


@pytest.fixture(autouse=True)
def usual_call() -> Iterator[None]:
    with as_current_call(call()):
        yield


def test_a_token_leads_back_to_its_place() -> None:
    request = pb.ListMemoriesRequest(page_size=2, filter=pb.MemoryFilter(types=["fact"]))
    token = write_token(["a", "é"], TENANT, request)

    again = pb.ListMemoriesRequest(page_size=5, page_token=token, filter=pb.MemoryFilter(types=["fact"]))

    assert read_token(token, TENANT, again) == ["a", "é"]


@over(("row_count", "next_place"), [(2, None), (3, ["b"])])
def test_the_next_page_begins_after_the_last_row_of_this_one(row_count: int, next_place: list[str] | None) -> None:
    rows = ["a", "b", "c"][:row_count]

    page, token = fit_rows(rows, lambda row: pb.Memory(content=row), lambda row: [row], REQUEST, TENANT, size=2)

    assert [memory.content for memory in page] == ["a", "b"]
    assert read_token(token, TENANT, REQUEST) == next_place


def test_no_token_means_the_first_page() -> None:
    assert read_token("", TENANT, REQUEST) is None


def test_a_token_is_bound_to_the_question() -> None:
    token = write_token(["a"], TENANT, REQUEST)

    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, pb.ListMemoriesRequest(filter=pb.MemoryFilter(types=["fact"])))


def test_a_token_is_good_for_the_same_free_json_in_every_form() -> None:
    as_message, another = (
        subjects_pb2.ListSubjectsRequest(properties=[{"path": "profile.age", "value": Value(number_value=age)}])
        for age in (30, 31)
    )
    as_text = subjects_pb2.ListSubjectsRequest()
    fields.from_values({"properties": [{"path": "profile.age", "value": 30}]}, as_text)
    token = write_token(["a"], TENANT, as_text)

    assert as_text.properties[0].value_json
    assert read_token(token, TENANT, as_message) == ["a"]
    assert read_token(write_token(["b"], TENANT, as_message), TENANT, as_text) == ["b"]
    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, another)


def test_a_token_tells_numbers_apart_that_doubles_do_not() -> None:
    requests = [
        subjects_pb2.ListSubjectsRequest(properties=[{"path": "profile.number", "value_json": str(number)}])
        for number in (2**53, 2**53 + 1)
    ]
    for request in requests:
        fields.complete_json_fields(request)

    token = write_token(["a"], TENANT, requests[0])

    assert read_token(token, TENANT, requests[0]) == ["a"]
    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, requests[1])


def test_a_token_is_bound_to_the_tenant() -> None:
    token = write_token(["a"], TENANT, REQUEST)

    with pytest.raises(PageTokenInvalid):
        read_token(token, uuid.uuid4(), REQUEST)


@pytest.mark.parametrize(
    "other",
    [call(path="/s/Export"), call(principal="api_key:2"), call(key=b"j" * 32)],
    ids=["method", "principal", "cluster"],
)
def test_a_token_is_bound_to_the_call(other: Call) -> None:
    token = write_token(["a"], TENANT, REQUEST)

    with as_current_call(other), pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, REQUEST)


def test_a_token_with_another_place_is_refused() -> None:
    signed = base64.urlsafe_b64decode(write_token(["2020-01-01"], TENANT, REQUEST))
    forged = base64.urlsafe_b64encode(signed.replace(b"2020", b"0001")).decode()

    with pytest.raises(PageTokenInvalid):
        read_token(forged, TENANT, REQUEST)


def test_without_the_cluster_s_key_no_token_is_made_or_read() -> None:
    token = write_token(["a"], TENANT, REQUEST)

    with as_current_call(call(key=b"")):
        with pytest.raises(ServiceUnavailable):
            write_token(["a"], TENANT, REQUEST)
        with pytest.raises(ServiceUnavailable):
            read_token(token, TENANT, REQUEST)


@over(
    "token",
    [
        "x", "é", "AAAA", "A" * 4000,
        *(base64.urlsafe_b64encode(bytes(16) + text).decode() for text in (b"{}", b"[]", b"[" * 1500, b"")),
        base64.urlsafe_b64encode(json.dumps(["0123456789abcdef", "a"]).encode()).decode(),
    ],
)  # fmt: skip
def test_a_damaged_or_forged_token_is_refused(token: str) -> None:
    with pytest.raises(PageTokenInvalid):
        read_token(token, TENANT, REQUEST)
