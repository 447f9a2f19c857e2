from __future__ import annotations

from typing import Any

from fix_catalogue import over
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from jsonschema import Draft202012Validator

from skein.auth.v1 import auth_pb2, oauth_pb2
from skein.errors.v1 import errors_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import history_pb2, memory_pb2, webhooks_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_gateway.json_schema import schemas
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.errors import FieldInvalid
from skein_kit.rpc.interceptors import validate


def of(kind: type[Message], **options: Any) -> dict[str, Any]:
    return schemas.schema(schemas.descriptor_of(kind), **options)


def accepts(kind: type[Message], value: Any, **options: Any) -> bool:
    return Draft202012Validator(of(kind, **options)).is_valid(value)


def is_taken(kind: type[Message], value: dict[str, Any]) -> bool:
    """Say whether the servers take it."""
    try:
        validate(json_format.ParseDict(value, kind()))
    except (json_format.ParseError, FieldInvalid):
        return False
    return True


@over("path", sorted(PUBLIC_METHODS))
def test_every_schema_stands_by_itself(path: str) -> None:
    for kind in (PUBLIC_METHODS[path].request, PUBLIC_METHODS[path].response):
        result = of(kind)

        refers = set(_references(result))
        assert refers == {f"#/$defs/{name}" for name in result.get("$defs", {})}


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [match for item in value for match in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if "$ref" in value else []
    return own + [match for item in value.values() for match in _references(item)]


@over(
    ("kind", "value"),
    [
        # A field without which the message is refused, marked or not.
        (memory_pb2.CreateMemoryRequest, {}),
        (memory_pb2.CreateMemoryRequest, {"memory": {}}),
        (memory_pb2.GetMemoryRequest, {}),
        (memory_pb2.GetMemoryRequest, {"memoryId": ""}),
        (memory_pb2.GetMemoryRequest, {"memoryId": "m" * 255}),
        (memory_pb2.GetMemoryRequest, {"memoryId": "m" * 256}),
        (memory_pb2.GetMemoryRequest, {"memoryId": 5}),
        # Numbers, and numbers that travel as texts.
        (memory_pb2.CreateMemoryRequest, {"memory": {"confidence": 1}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"confidence": 1.01}}),
        (memory_pb2.ListMemoriesRequest, {"pageSize": 1000}),
        (memory_pb2.ListMemoriesRequest, {"pageSize": 1001}),
        (memory_pb2.ListMemoriesRequest, {"pageSize": -1}),
        (memory_pb2.DeleteMemoryRequest, {"memoryId": "m", "revision": "3"}),
        (memory_pb2.DeleteMemoryRequest, {"memoryId": "m", "revision": "-3"}),
        (memory_pb2.DeleteMemoryRequest, {"memoryId": "m", "revision": "three"}),
        # Texts of a form.
        (memory_pb2.CreateMemoryRequest, {"memory": {"type": "Note"}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"type": "note"}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"type": ""}}),
        (gateway_pb2.RecallRequest, {"fusion": "ranks"}),
        (gateway_pb2.RecallRequest, {"fusion": "dice"}),
        # Lists, their sizes and items.
        (memory_pb2.CreateMemoryRequest, {"memory": {"tags": ["a", "b"]}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"tags": ["a", "a"]}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"tags": ["a", ""]}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"tags": [str(n) for n in range(101)]}}),
        (memory_pb2.BatchGetMemoriesRequest, {}),
        (memory_pb2.BatchGetMemoriesRequest, {"memoryIds": ["a"]}),
        # Enums, whole and in part.
        (memory_pb2.CreateMemoryRequest, {"memory": {"scope": "SCOPE_USER"}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"scope": "USER"}}),
        (gateway_pb2.RecallRequest, {"branches": ["BRANCH_BLOCKS"]}),
        (gateway_pb2.RecallRequest, {"branches": ["BRANCH_WINDOW"]}),
        (memory_pb2.UpdateTaskStatusRequest, {"memoryId": "m"}),
        (memory_pb2.UpdateTaskStatusRequest, {"memoryId": "m", "status": "TASK_STATUS_DONE"}),
        # Maps.
        (gateway_pb2.RecallRequest, {"weights": {"dense": 10}}),
        (gateway_pb2.RecallRequest, {"weights": {"dense": 11}}),
        (gateway_pb2.RecallRequest, {"weights": {"Dense": 1}}),
        (gateway_pb2.RecallRequest, {"weights": {f"{'abcdefghijklmnopqrstu'[n]}": 1 for n in range(21)}}),
        # What is no object of fields.
        (memory_pb2.ListMemoriesRequest, {"asOfTime": 5}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"ttl": "60s"}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"ttl": "60"}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"data": {"a": [1, None, {"b": "c"}]}}}),
        (memory_pb2.CreateMemoryRequest, {"memory": {"data": 5}}),
        (memory_pb2.UpdateMemoryRequest, {"memory": {}, "updateMask": "content"}),
        (memory_pb2.UpdateMemoryRequest, {"memory": {}, "updateMask": ["content"]}),
        # A rule that does not hold for a value that is not there.
        (subjects_pb2.Policy, {"decayDays": 0}),
        (subjects_pb2.Policy, {"decayDays": 30}),
        (subjects_pb2.Policy, {"decayDays": 4000}),
        (subjects_pb2.Subject, {"subjectId": "anna", "accountId": ""}),
        # Just one of a oneof.
        (auth_pb2.IntrospectRequest, {}),
        (history_pb2.ListChangesRequest, {}),
        # What is read without its limits.
        (webhooks_pb2.UpdateWebhookRequest, {"webhook": {"webhookId": "w"}, "updateMask": "active"}),
        (webhooks_pb2.CreateWebhookRequest, {"webhook": {"webhookId": "w"}}),
    ],
)
def test_a_schema_takes_what_the_servers_take(kind: type[Message], value: dict[str, Any]) -> None:
    assert accepts(kind, value) == is_taken(kind, value)


def test_a_oneof_takes_one_of_its_fields() -> None:
    kind = oauth_pb2.ExchangeTokenRequest
    code, refresh = {"authorizationCode": {"code": "c"}}, {"refreshToken": {"refreshToken": "r"}}

    assert accepts(kind, code)
    assert accepts(kind, refresh)
    assert not accepts(kind, {})
    assert not accepts(kind, {**code, **refresh})
    assert accepts(kind, {}, oneofs=False)


def test_unknown_fields_are_refused_when_asked() -> None:
    value = {"memory": {"contnt": "tea"}}

    assert accepts(memory_pb2.CreateMemoryRequest, value)
    assert not accepts(memory_pb2.CreateMemoryRequest, value, closed=True)


def test_the_protos_comments_are_the_descriptions() -> None:
    result = of(memory_pb2.CreateMemoryRequest)
    memory = result["$defs"]["skein.memory.v1.Memory"]

    assert memory["description"] == "One thing remembered."
    assert memory["properties"]["subjectId"]["description"] == "The person whom the memory is about."
    assert "at most 3153600000s" in memory["properties"]["ttl"]["description"]
    assert "- BRANCH_PROFILE: The profile of the request's subject" in str(of(gateway_pb2.RecallRequest))
    assert "needs at least one message or memory" in of(gateway_pb2.RememberRequest)["description"]
    assert "Must leave room for some words" in str(of(recall_pb2.RegisterEmbeddingModelRequest))


def test_without_descriptions_there_are_none() -> None:
    assert "description" not in str(of(gateway_pb2.RememberRequest, descriptions={})).replace("'description': {", "")


def test_names_can_stand_elsewhere() -> None:
    result = of(memory_pb2.CreateMemoryRequest, refs="#/components/schemas/")

    assert result["properties"]["memory"]["$ref"] == "#/components/schemas/skein.memory.v1.Memory"


def test_comments_name_what_descriptors_name() -> None:
    memory, scope = schemas.descriptor_of(memory_pb2.Memory), memory_pb2.Scope.DESCRIPTOR
    service = memory_pb2.DESCRIPTOR.services_by_name["MemoryService"]

    named = {memory.full_name, memory.fields_by_name["content"].full_name, scope.full_name}
    named |= {service.full_name, service.methods_by_name["CreateMemory"].full_name}
    named |= {f"{errors_pb2.ErrorReason.DESCRIPTOR.full_name}.ERROR_REASON_MEMORY_NOT_FOUND"}

    assert named <= set(schemas.comments())


@over(
    ("message", "value"),
    [
        (timestamp_pb2.Timestamp(seconds=1, nanos=5), "1970-01-01T00:00:01.000000005Z"),
        (struct_pb2.Value(number_value=2), 2),
        (struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True)]), [True]),
    ],
)
def test_messages_with_a_form_of_their_own_have_it(message: Message, value: Any) -> None:
    assert json_format.MessageToDict(message) == value
    assert accepts(type(message), value)


def test_a_message_of_every_kind_of_field_is_what_json_writes() -> None:
    kind = everything()
    message: Any = message_factory.GetMessageClass(kind)()
    for field in kind.fields:
        if field.name == "yes":
            message.yes = True
        elif field.name == "text":
            message.text = "t"
        elif field.name == "raw":
            message.raw = b"\xff\x00"
        else:
            setattr(message, field.name, 7)

    written = json_format.MessageToDict(message)

    assert len(written) == len(kind.fields)
    assert Draft202012Validator({**schemas.schema(kind), "additionalProperties": False}).is_valid(written)
    for name, value in written.items():
        wrong = 7 if isinstance(value, str) else "seven"
        assert not Draft202012Validator(schemas.schema(kind)).is_valid({**written, name: wrong})


def everything() -> Descriptor:
    """Return a message with a field of every scalar type, made for this test."""
    kinds = {
        "yes": "BOOL", "text": "STRING", "raw": "BYTES", "f": "FLOAT", "d": "DOUBLE", "i32": "INT32", "s32": "SINT32",
        "x32": "SFIXED32", "u32": "UINT32", "y32": "FIXED32", "i64": "INT64", "s64": "SINT64", "x64": "SFIXED64",
        "u64": "UINT64", "y64": "FIXED64",
    }  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="tests/everything.proto", package="tests", syntax="proto3")
    message = file.message_type.add(name="Everything")
    for number, (name, kind) in enumerate(kinds.items(), start=1):
        message.field.add(
            name=name,
            number=number,
            json_name=name,
            type=descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind}"),
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName("tests.Everything")
