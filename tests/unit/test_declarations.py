"""A service whose methods do not declare what precedes and follows their work does not start, and says what lacks."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import test_environment
from google.protobuf import descriptor_pb2, descriptor_pool

from skein.options.v1 import options_pb2 as pb
from skein_cluster import registry
from skein_kit.host.process import Host, Service, ServicerRegistry, run_services
from skein_kit.settings import ProcessSettings

RULE, RECORDED, TEXT = cast("tuple[Any, Any, Any]", (pb.rule, pb.service, pb.text))
WRITE = pb.MethodRule(permission="memory.write", approval=pb.APPROVAL_RULE_PASSES)
NUMBERS = itertools.count(1)


def planted(
    rule: pb.MethodRule | None, texts: Mapping[str, pb.TextKind], *, recorded: bool = False, is_stream: bool = False
) -> str:
    """Add a method to the contract, whose request has these texts; return its service's full name."""
    package = f"skein.planted{next(NUMBERS)}.v1"
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3", dependency=["skein/options/v1/options.proto"]
    )
    message = file.message_type.add(name="PlantRequest")
    for number, (name, kind) in enumerate(texts.items(), 1):
        field = message.field.add(
            name=name,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
        if kind:
            field.options.Extensions[TEXT] = kind
    service = file.service.add(name="PlantService")
    service.options.Extensions[RECORDED].recorded = recorded
    request = f".{package}.PlantRequest"
    method = service.method.add(name="Plant", input_type=request, output_type=request, server_streaming=is_stream)
    if rule is not None:
        method.options.Extensions[RULE].CopyFrom(rule)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    return f"{package}.PlantService"


async def started(service: str, *, is_stream: bool = False) -> None:
    """Start a process that serves the method, and has none of the steps that methods declare."""

    async def answer(*_arguments: object) -> None:
        """Do nothing."""

    @asynccontextmanager
    async def start(_host: Host) -> AsyncIterator[ServicerRegistry]:
        servicers = ServicerRegistry()
        make = grpc.unary_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler
        servicers.add_registered_method_handlers(service, {"Plant": make(cast("Any", answer))})
        yield servicers

    environment = test_environment()
    host = registry.host_of(ProcessSettings.read(environment), environment)
    async with run_services([Service(name="memory", port=0, depends_on=(), start=start, has_database=False)], host):
        pass


@over(
    ("rule", "texts", "lack"),
    [
        (None, {}, "who may call it"),
        (pb.MethodRule(approval=pb.APPROVAL_RULE_PASSES), {}, "who may call it"),
        (WRITE, {"motto": pb.TEXT_KIND_UNSPECIFIED}, "PlantRequest.motto"),
        (WRITE, {"motto": pb.TEXT_KIND_CONTENT}, "who screens"),
        (WRITE, {"request_id": pb.TEXT_KIND_NAME}, "declares no audit_event"),
        (
            pb.MethodRule(
                permission="memory.write", approval=pb.APPROVAL_RULE_PASSES, audit_event="x", audit_target="motto"
            ),
            {"request_id": pb.TEXT_KIND_NAME},
            "audit target motto",
        ),
        (pb.MethodRule(authenticated=True), {"motto": pb.TEXT_KIND_CONTENT}, "who screens"),
        (pb.MethodRule(public=True), {"motto": pb.TEXT_KIND_CONTENT}, "who screens"),
        (
            pb.MethodRule(permission="tenant.write", screening=pb.SCREENING_RULE_CHAIN),
            {"motto": pb.TEXT_KIND_CONTENT},
            "the content guard",
        ),
        (pb.MethodRule(permission="memory.write"), {}, "the approval gate"),
        (pb.MethodRule(permission="session.write"), {}, "the approval gate"),
        (pb.MethodRule(permission="subject.write"), {}, "the approval gate"),
        (pb.MethodRule(permission="memory.write", approval=pb.APPROVAL_RULE_WAITS), {}, "waits for approval"),
        (pb.MethodRule(permission="tenant.write", approval=pb.APPROVAL_RULE_REFUSED), {}, "the approval gate"),
    ],
)
async def test_a_service_with_a_method_that_declares_too_little_does_not_start(
    rule: pb.MethodRule | None, texts: Mapping[str, pb.TextKind], lack: str
) -> None:
    with pytest.raises(LookupError, match=lack):
        await started(planted(rule, texts))


@over("is_stream", [False, True])
async def test_a_recorded_service_without_an_access_log_does_not_start(*, is_stream: bool) -> None:
    service = planted(pb.MethodRule(permission="memory.read"), {}, recorded=True, is_stream=is_stream)

    with pytest.raises(LookupError, match="the access log"):
        await started(service, is_stream=is_stream)


async def test_a_stream_that_would_have_to_wait_for_approval_does_not_start() -> None:
    service = planted(pb.MethodRule(permission="memory.write"), {}, is_stream=True)

    with pytest.raises(LookupError, match="is a stream"):
        await started(service, is_stream=True)


@over(
    ("rule", "texts"),
    [
        (WRITE, {"plant_id": pb.TEXT_KIND_UNSPECIFIED, "name": pb.TEXT_KIND_NAME, "mode": pb.TEXT_KIND_SETTING}),
        # A search stores nothing.
        (pb.MethodRule(permission="memory.read"), {"query": pb.TEXT_KIND_UNSPECIFIED}),
        (
            pb.MethodRule(permission="tenant.write", screening=pb.SCREENING_RULE_METHOD),
            {"motto": pb.TEXT_KIND_CONTENT},
        ),
    ],
)
async def test_a_service_whose_method_declares_everything_starts(
    rule: pb.MethodRule, texts: Mapping[str, pb.TextKind]
) -> None:
    await started(planted(rule, texts))


async def test_a_method_outside_the_contract_does_not_start() -> None:
    with pytest.raises(LookupError, match="is no method of the contract"):
        await started("skein.unknown.v1.UnknownService")
