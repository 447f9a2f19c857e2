from __future__ import annotations

import json

import grpc
import pytest
from fix_catalogue import over
from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein_gateway.connect import codec
from skein_kit import errors


def test_a_message_is_read_by_either_spelling_of_its_fields() -> None:
    for name in ("requestId", "request_id"):
        message = codec.read_json(f'{{"{name}": "r"}}'.encode(), pb.CreateMemoryRequest)

        assert message == pb.CreateMemoryRequest(request_id="r")


def test_an_empty_body_is_an_empty_message() -> None:
    assert codec.read_json(b"", pb.CreateMemoryRequest) == pb.CreateMemoryRequest()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"memry": {}}',
        b'{"memory": "tea"}',
        b'{"memory": {"confidence": "much"}}',
        b"\xff",
        b'{"memory": {"data": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}}",
        b'{"memory": {"data": ' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"}}",
    ],
    ids=["cut", "array", "null", "unknown field", "wrong type", "no number", "no utf-8", "very deep", "deep"],
)
def test_json_that_is_not_the_message_is_refused(body: bytes) -> None:
    with pytest.raises(errors.FieldInvalid):
        codec.read_json(body, pb.CreateMemoryRequest)


def test_a_refusal_says_what_is_wrong_with_the_json() -> None:
    with pytest.raises(errors.FieldInvalid) as caught:
        codec.read_json(b'{"memory": {"contnt": "tea"}}', pb.CreateMemoryRequest)

    assert '"contnt"' in caught.value.violations[0][1]


@over(
    ("body", "field"),
    [
        ('{"memory": {"contnt": "tea"}}', "memory.contnt"),
        ('{"memory": {"content": 5}}', "memory.content"),
        ('{"memory": {"importance": "much"}}', "memory.importance"),
        ('{"memory": {"createTime": "yesterday"}}', "memory.create_time"),
        ('{"memory": {"tags": ["a", 3]}}', "memory.tags"),
        ('{"memory": {"scope": "SCOPE_X"}}', "memory.scope"),
        ('{"memory": {"confidence": NaN}}', "memory.confidence"),
        ('{"requestId": 7}', "request_id"),
        ('{"contnt": "tea"}', "contnt"),
        ("{", ""),
    ],
)
def test_a_refusal_names_the_field_that_cannot_be_read(body: str, field: str) -> None:
    with pytest.raises(errors.FieldInvalid) as caught:
        codec.read_json(body.encode(), pb.CreateMemoryRequest)

    assert caught.value.violations[0][0] == field


@over("value", ["[]", '""', "[1]", '["subjectId"]', "0", "false", '"tea"', "[{}]"])
def test_json_that_is_no_object_is_no_message(value: str) -> None:
    with pytest.raises(errors.FieldInvalid) as caught:
        codec.read_json(f'{{"filter": {value}}}'.encode(), pb.ListMemoriesRequest)

    assert caught.value.violations == (("filter", "must be a JSON object"),)


@over(
    ("body", "kind", "field"),
    [
        ('{"pageSize": 1, "page_size": 2}', pb.ListMemoriesRequest, "page_size"),
        ('{"page_size": 1, "pageSize": null}', pb.ListMemoriesRequest, "page_size"),
        ('{"pageSize": 1, "pageSize": 1}', pb.ListMemoriesRequest, "page_size"),
        ('{"filter": {"subjectId": "a", "subject_id": "a"}}', pb.ListMemoriesRequest, "filter.subject_id"),
        ('{"filter": {"type": "a", "type": "b"}}', pb.ListMemoriesRequest, "filter.type"),
        ('{"filter": {}, "filter": {}}', pb.ListMemoriesRequest, "filter"),
        (
            '{"memories": [{}, {"externalId": "a", "external_id": "b"}]}',
            pb.BatchCreateMemoriesRequest,
            "memories[1].external_id",
        ),
        ('{"memories": [[]]}', pb.BatchCreateMemoriesRequest, "memories[0]"),
        ('{"variables": {"a": "1", "a": "2"}}', blocks_pb2.CompileBlocksRequest, "variables.a"),
        ('{"variables": []}', blocks_pb2.CompileBlocksRequest, "variables"),
        ('{"memory": {"metadata": {"a": {"b": 1, "b": 2}}}}', pb.CreateMemoryRequest, "memory.metadata.a.b"),
        ('{"memory": {"metadata": {"a": [1, {"b": 1, "b": 2}]}}}', pb.CreateMemoryRequest, "memory.metadata.a[1].b"),
    ],
)
def test_a_field_that_is_there_more_than_once_is_refused_by_its_name(
    body: str, kind: type[Message], field: str
) -> None:
    with pytest.raises(errors.FieldInvalid) as caught:
        codec.read_json(body.encode(), kind)

    assert caught.value.violations[0][0] == field


def test_keys_of_free_form_values_are_no_spellings_of_one_another() -> None:
    body = b'{"memory": {"metadata": {"pageSize": 1, "page_size": 2}}}'

    message = codec.read_json(body, pb.CreateMemoryRequest)

    assert isinstance(message, pb.CreateMemoryRequest)
    assert dict(message.memory.metadata) == {"pageSize": 1, "page_size": 2}


def test_null_leaves_a_message_out() -> None:
    assert codec.read_json(b'{"filter": null}', pb.ListMemoriesRequest) == pb.ListMemoriesRequest()


def test_text_is_written_as_it_is() -> None:
    assert codec.dump_json(pb.Memory(content="Grüße, 茶")) == '{"content": "Grüße, 茶"}'.encode()


def test_an_error_tells_its_code_sentence_and_details() -> None:
    refusal = errors.ContentTooLong(violations=[("memory.content", "is long")], limit=10)

    status, body = codec.error(refusal.status())

    payload = json.loads(body)
    assert status == 400
    assert payload["code"] == "invalid_argument"
    plan = "The content is longer than the plan allows, which is 10 characters."
    assert payload["message"] == f"{plan} memory.content: is long."
    assert [detail["type"] for detail in payload["details"]] == ["google.rpc.ErrorInfo", "google.rpc.BadRequest"]
    assert payload["details"][0]["debug"] == {
        "reason": "CONTENT_TOO_LONG",
        "domain": "skein",
        "metadata": {"limit": "10"},
    }
    assert "=" not in payload["details"][0]["value"]


@over("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_every_code_has_an_http_status_and_a_name(code: grpc.StatusCode) -> None:
    refusal = type("Made", (errors.RpcError,), {"code": code, "reason": "MADE"})()

    status, body = codec.error(refusal.status())

    assert 400 <= status < 600
    assert json.loads(body)["code"].replace("canceled", "cancelled") == code.name.lower()


def test_a_time_limit_is_read_in_milliseconds() -> None:
    assert codec.timeout_seconds({"connect-timeout-ms": "1500"}) == 1.5
    assert codec.timeout_seconds({}) is None


@over("text", ["", "0", "-1", "1.5", "soon", "12345678901"])
def test_a_time_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.FieldInvalid):
        codec.timeout_seconds({"connect-timeout-ms": text})


def test_another_version_of_the_protocol_is_refused() -> None:
    codec.check_version({"connect-protocol-version": "1"})
    with pytest.raises(errors.FieldInvalid):
        codec.check_version({"connect-protocol-version": "2"})
