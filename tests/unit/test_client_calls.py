"""The client's rules of retry, deadline, request id and error; grpcio-testing plays the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc_testing
import pytest
from fix_catalogue import over
from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

import skein_client
from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client import request_messages
from skein_client.channels import REQUEST_ID_KEY, SyncChannel
from skein_client.connection import Connection
from skein_client.retry import RetryPolicy, is_read
from skein_kit.identity.permissions import ACCESS_RULES

SERVICE = pb.DESCRIPTOR.services_by_name["MemoryService"]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@dataclass
class Other:
    """The cluster's side of one test, with a clock that moves only when the client sleeps."""

    channel: grpc_testing.Channel
    threads: ThreadPoolExecutor
    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)
    connection: Connection = field(
        default_factory=lambda: Connection(endpoint="there:1", api_key="key", timeout=10.0, retries=RetryPolicy())
    )

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    @property
    def memories(self) -> rpc.MemoryServiceStub:
        channel = SyncChannel(
            self.channel, self.connection, clock=lambda: self.now, random=lambda: 1.0, sleep=self.sleep
        )
        return rpc.MemoryServiceStub(cast("grpc.Channel", channel))

    def start(self, call: Callable[..., Any], request: Message, **options: Any) -> Future[Any]:
        return self.threads.submit(call, request, **options)

    def take(self, method: str) -> tuple[dict[str, str], Any, grpc_testing.UnaryUnaryChannelRpc]:
        metadata, request, call = self.channel.take_unary_unary(_method(SERVICE, method))
        return dict(metadata), request, call

    def refuse(self, method: str, code: grpc.StatusCode, *details: Message) -> tuple[dict[str, str], Any]:
        """Take one attempt and refuse it."""
        metadata, request, call = self.take(method)
        packed = [PackedAny() for _ in details]
        for target, detail in zip(packed, details, strict=True):
            target.Pack(detail)
        status = Status(code=code.value[0], message="said so", details=packed)
        trailing = (("grpc-status-details-bin", status.SerializeToString()),) if details else ()
        call.terminate(None, trailing, code, "said so")
        return metadata, request

    def answer(self, method: str, response: Message) -> tuple[dict[str, str], Any]:
        """Take one attempt and answer it."""
        metadata, request, call = self.take(method)
        call.send_initial_metadata(())
        call.terminate(response, (), grpc.StatusCode.OK, "")
        return metadata, request


@pytest.fixture
def other() -> Iterator[Other]:
    with ThreadPoolExecutor(1) as threads:
        yield Other(grpc_testing.channel([SERVICE], grpc_testing.strict_fake_time(0)), threads)


def failure(call: Future[Any], kind: type[skein_client.SkeinError]) -> skein_client.SkeinError:
    """Return the error that the call ends with."""
    with pytest.raises(kind) as caught:
        call.result(timeout=5)
    return caught.value


def test_a_read_is_repeated_until_the_cluster_answers(other: Other) -> None:
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    other.refuse("GetMemory", UNAVAILABLE)
    other.refuse("GetMemory", UNAVAILABLE)
    other.answer("GetMemory", pb.GetMemoryResponse(memory=pb.Memory(content="tea")))

    assert call.result(timeout=5).memory.content == "tea"


def test_pauses_double_up_to_a_ceiling() -> None:
    policy = RetryPolicy(first_pause_seconds=0.1, max_pause_seconds=0.3)

    pauses = [policy.pause_before(attempt, None, 1.0) for attempt in (2, 3, 4, 5)]

    assert pauses == pytest.approx([0.1, 0.2, 0.3, 0.3])


def test_chance_spreads_pauses_over_the_upper_half() -> None:
    policy = RetryPolicy(first_pause_seconds=0.1)

    assert policy.pause_before(2, None, 0.0) == pytest.approx(0.05)
    assert policy.pause_before(2, None, 0.5) == pytest.approx(0.075)


def test_a_time_that_the_server_names_is_waited_in_full(other: Other) -> None:
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    other.refuse("GetMemory", UNAVAILABLE, error_details_pb2.RetryInfo(retry_delay=Duration(seconds=2)))
    other.answer("GetMemory", pb.GetMemoryResponse())
    call.result(timeout=5)

    assert other.pauses == [pytest.approx(2.1)]


def test_a_mutation_is_repeated_under_one_request_id(other: Other) -> None:
    request = pb.CreateMemoryRequest(memory=pb.Memory(content="tea"))
    call = other.start(other.memories.CreateMemory, request)

    first_metadata, first = other.refuse("CreateMemory", UNAVAILABLE)
    second_metadata, second = other.answer("CreateMemory", pb.CreateMemoryResponse())
    call.result(timeout=5)

    assert first.request_id
    assert second == first
    assert second_metadata[REQUEST_ID_KEY] == first_metadata[REQUEST_ID_KEY] == first.request_id
    assert request.request_id == "", "the caller's message is the caller's"


def test_calls_that_share_an_id_in_the_logs_each_have_their_effect(other: Other) -> None:
    shared = ((REQUEST_ID_KEY, "of the whole turn"),)
    sent = []
    for _ in range(2):
        call = other.start(other.memories.CreateMemory, pb.CreateMemoryRequest(), metadata=shared)
        metadata, request = other.answer("CreateMemory", pb.CreateMemoryResponse())
        call.result(timeout=5)
        assert metadata[REQUEST_ID_KEY] == "of the whole turn"
        sent.append(request.request_id)

    assert sent[0] != sent[1]


@over("one", ["Anna prefers tea", pb.Memory(content="Anna prefers tea")])
def test_one_memory_alone_is_one_memory(one: pb.Memory | str) -> None:
    request = request_messages.remember_request(one, session_pb2.Message(content="hello"), session_id="s")

    assert [memory.content for memory in request.memories] == ["Anna prefers tea"]
    assert [message.content for message in request.messages] == ["hello"]


@over("role", ["User", "MESSAGE_ROLE_USER", "", "bot", None])
def test_an_unknown_role_is_refused_with_those_there_are(role: str | None) -> None:
    with pytest.raises(ValueError, match="user, assistant, system, tool"):
        request_messages.parse_message({"role": role, "content": "Hello"})


def test_a_text_among_messages_is_no_list_of_letters() -> None:
    with pytest.raises(TypeError, match="who speaks"):
        request_messages.remember_request((), cast("Any", "Hello"), session_id="s")


def test_a_violation_of_the_whole_request_names_no_field() -> None:
    error = skein_client.InvalidArgument(
        "The request is not valid",
        reason="INVALID_FIELD",
        violations=[skein_client.Violation("", "needs a message"), skein_client.Violation("limit", "is negative")],
        request_id="r",
    )

    assert str(error) == "The request is not valid [INVALID_FIELD] needs a message; limit: is negative (request r)"


def test_the_callers_own_request_id_is_kept(other: Other) -> None:
    call = other.start(other.memories.CreateMemory, pb.CreateMemoryRequest(request_id="mine"))

    _metadata, request = other.answer("CreateMemory", pb.CreateMemoryResponse())
    call.result(timeout=5)

    assert request.request_id == "mine"


def test_two_calls_with_one_message_are_two_requests(other: Other) -> None:
    request = pb.CreateMemoryRequest(memory=pb.Memory(content="tea"))
    ids = []
    for _ in range(2):
        call = other.start(other.memories.CreateMemory, request)
        ids.append(other.answer("CreateMemory", pb.CreateMemoryResponse())[1].request_id)
        call.result(timeout=5)

    assert len(set(ids)) == 2


def test_a_delete_is_repeated_under_one_request_id(other: Other) -> None:
    call = other.start(other.memories.DeleteMemory, pb.DeleteMemoryRequest(memory_id="m"))

    _metadata, first = other.refuse("DeleteMemory", UNAVAILABLE)
    _metadata, second = other.answer("DeleteMemory", pb.DeleteMemoryResponse())
    call.result(timeout=5)

    assert first.request_id
    assert second == first


@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED])
def test_a_refusal_that_asks_for_patience_gets_it(other: Other, code: grpc.StatusCode) -> None:
    call = other.start(other.memories.CreateMemory, pb.CreateMemoryRequest())

    other.refuse("CreateMemory", code, error_details_pb2.RetryInfo(retry_delay=Duration(nanos=50_000_000)))
    other.answer("CreateMemory", pb.CreateMemoryResponse())
    call.result(timeout=5)

    assert other.pauses == [pytest.approx(0.15)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, skein_client.ResourceExhausted),
        (grpc.StatusCode.ABORTED, skein_client.Aborted),
        (grpc.StatusCode.NOT_FOUND, skein_client.NotFound),
        (grpc.StatusCode.INTERNAL, skein_client.Internal),
        (grpc.StatusCode.DEADLINE_EXCEEDED, skein_client.DeadlineExceeded),
        (grpc.StatusCode.DATA_LOSS, skein_client.SkeinError),
    ],
)
def test_other_refusals_are_final(other: Other, code: grpc.StatusCode, kind: type[skein_client.SkeinError]) -> None:
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    other.refuse("GetMemory", code)

    error = failure(call, kind)
    assert error.status is code
    assert other.pauses == []


def test_the_next_read_is_as_new_as_what_a_refusal_told(other: Other) -> None:
    memories, revision = other.memories, f"{255:016x}"
    refused = other.start(memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))
    _, _, call = other.take("GetMemory")
    call.terminate(None, (("skein-revision", revision),), grpc.StatusCode.NOT_FOUND, "said so")
    failure(refused, skein_client.NotFound)

    read = other.start(memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))
    metadata, _ = other.answer("GetMemory", pb.GetMemoryResponse())
    read.result(timeout=5)

    assert metadata["skein-min-revision"] == revision


def test_attempts_are_counted(other: Other) -> None:
    other.connection = Connection(endpoint="there:1", api_key="key", retries=RetryPolicy(attempts=3))
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    for _ in range(3):
        other.refuse("GetMemory", UNAVAILABLE)

    failure(call, skein_client.Unavailable)
    assert len(other.pauses) == 2


def test_no_pause_reaches_past_the_deadline(other: Other) -> None:
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"), timeout=0.25)

    other.refuse("GetMemory", UNAVAILABLE)
    other.refuse("GetMemory", UNAVAILABLE)

    failure(call, skein_client.Unavailable)
    assert other.pauses == [pytest.approx(0.1)]


def test_the_deadline_holds_for_all_attempts_together() -> None:
    timeouts: list[float] = []
    now = [0.0]

    class Refusing:
        """A channel that takes a second to refuse, and notes the time that it is given."""

        def unary_unary(self, *_arguments: object) -> Any:
            inner = grpc_testing.channel([SERVICE], grpc_testing.strict_fake_time(0))

            class Method:
                def with_call(self, request: Message, *, timeout: float, **_: object) -> Any:
                    timeouts.append(timeout)
                    now[0] += 1.0
                    future = inner.unary_unary("/skein.memory.v1.MemoryService/GetMemory").future(request)
                    inner.take_unary_unary(_method(SERVICE, "GetMemory"))[2].terminate(None, (), UNAVAILABLE, "")
                    return future.result(), future

            return Method()

    def sleep(seconds: float) -> None:
        now[0] += seconds

    connection = Connection(endpoint="there:1", api_key="key", retries=RetryPolicy(first_pause_seconds=0.5))
    channel = SyncChannel(
        cast("grpc.Channel", Refusing()), connection, clock=lambda: now[0], random=lambda: 1.0, sleep=sleep
    )
    with pytest.raises(skein_client.Unavailable):
        rpc.MemoryServiceStub(cast("grpc.Channel", channel)).GetMemory(pb.GetMemoryRequest(memory_id="m"), timeout=4)

    assert timeouts == [pytest.approx(4.0), pytest.approx(2.5), pytest.approx(0.5)]


def test_a_call_carries_the_credential_and_an_operators_tenant(other: Other) -> None:
    other.connection = Connection(endpoint="there:1", api_key="key", tenant_id="t")
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    metadata, _request = other.answer("GetMemory", pb.GetMemoryResponse())
    call.result(timeout=5)

    assert metadata["authorization"] == "Bearer key"
    assert metadata["skein-tenant-id"] == "t"
    assert not {"skein-agent-id", "skein-session-id", "skein-space-id"} & metadata.keys()


def test_a_call_carries_what_its_caller_claims(other: Other) -> None:
    other.connection = Connection(
        endpoint="there:1", api_key="key", agent_id="maid", session_id="pantry", space_id="house"
    )
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    metadata, _request = other.answer("GetMemory", pb.GetMemoryResponse())
    call.result(timeout=5)

    assert (metadata["skein-agent-id"], metadata["skein-session-id"]) == ("maid", "pantry")
    assert metadata["skein-space-id"] == "house"


def test_an_error_carries_what_the_server_said(other: Other) -> None:
    call = other.start(other.memories.CreateMemory, pb.CreateMemoryRequest(request_id="mine"))

    violation = error_details_pb2.BadRequest.FieldViolation(field="memory.type", description="is no name")
    metadata, _request = other.refuse(
        "CreateMemory",
        grpc.StatusCode.INVALID_ARGUMENT,
        error_details_pb2.ErrorInfo(reason="INVALID_FIELD", domain="skein", metadata={"index": "3"}),
        error_details_pb2.BadRequest(field_violations=[violation]),
    )

    error = failure(call, skein_client.InvalidArgument)
    assert (error.message, error.reason, error.metadata) == ("said so", "INVALID_FIELD", {"index": "3"})
    assert error.violations == (skein_client.Violation("memory.type", "is no name"),)
    assert error.request_id == metadata[REQUEST_ID_KEY]
    assert "memory.type: is no name" in str(error)
    assert "key" not in repr(other.connection)


def test_damaged_details_do_not_hide_the_status(other: Other) -> None:
    call = other.start(other.memories.GetMemory, pb.GetMemoryRequest(memory_id="m"))

    _metadata, _request, server = other.take("GetMemory")
    server.terminate(None, (("grpc-status-details-bin", b"\xff\xff"),), grpc.StatusCode.NOT_FOUND, "gone")

    error = failure(call, skein_client.NotFound)
    assert error.message == "gone"


@pytest.mark.parametrize(
    "service",
    [
        service
        for module in (auth_pb2, gateway_pb2, pb, recall_pb2, session_pb2, tenancy_pb2)
        for name, service in module.DESCRIPTOR.services_by_name.items()
        if not name.endswith("InternalService")
    ],
    ids=lambda service: service.full_name,
)
def test_every_public_method_is_a_read_or_repeated_under_a_request_id(service: ServiceDescriptor) -> None:
    for method in service.methods:
        once = "request_id" in method.input_type.fields_by_name
        # Who has no credential yet has no requests of their own either: such a call is made once.
        is_anonymous = ACCESS_RULES[f"/{service.full_name}/{method.name}"].is_public
        # A read whose request_id names a turn of a ledger.
        once &= method.name != "BuildContext"
        assert is_read(method.name) + once == 1 or (is_anonymous and not once), method.full_name


def _method(service: ServiceDescriptor, name: str) -> MethodDescriptor:
    return next(method for method in service.methods if method.name == name)
