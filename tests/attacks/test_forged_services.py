"""RPCs between services, called at a service's own port: over the whole contract, and those that sign."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import grpc
import pytest
from fix_auth import run_auth_server, run_plain_auth_server
from fix_cluster import Cluster, Tenant, refused
from fix_database import TestDatabase
from fix_identities import identity_settings
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import Default
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, certificates_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster import registry
from skein_kit.identity.permissions import ACCESS_RULES, PUBLIC_SERVICES
from skein_kit.rpc.channel import ServiceChannel
from skein_kit.settings import ProcessSettings
from skein_kit.tls.mutual_tls import MutualTlsFiles

# Every method that the gateway does not offer, by the contract.
INTERNAL = {path: rule.services for path, rule in ACCESS_RULES.items() if rule.services}
SERVICES = Path(__file__).parents[2] / "services"
SIGNING = ("IssueErasureCertificate", "SignRecallReceipts", "IssueDeletionCertificate", "Exchange")


def _service_of(path: str) -> str:
    return path.split(".")[1]


async def token_of(cluster: Cluster, credential: str, tenant_id: UUID | None = None) -> str:
    """Return the identity token of a credential, as the gateway gets it."""
    request = auth_pb2.ExchangeRequest(bearer=credential, tenant_id=str(tenant_id or ""))
    async with cluster.direct("auth", caller="gateway") as channel:
        return str((await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)).token)


async def system_token(cluster: Cluster, tenant_id: UUID) -> str:
    system = auth_pb2.SystemCredential(key=cluster.environment["SKEIN_SYSTEM_KEY"], service="worker")
    request = auth_pb2.ExchangeRequest(system=system, tenant_id=str(tenant_id))
    async with cluster.direct("auth", caller="worker") as channel:
        return str((await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)).token)


async def outcome(channel: aio.Channel, path: str, token: str) -> tuple[grpc.StatusCode, str]:
    """Call a method with an empty request; return the status and its message."""
    call: Any = channel.unary_unary(path)
    kind = message_factory.GetMessageClass(Default().FindMethodByName(path[1:].replace("/", ".")).input_type)
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    try:
        await call(kind().SerializeToString(), metadata=metadata, timeout=30)
    except aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@asynccontextmanager
async def pretending(settings: ProcessSettings) -> AsyncIterator[str]:
    """Run a service with a certificate of the cluster's that says yes to every exchange; yield its address."""
    files = MutualTlsFiles.from_settings(settings)
    assert files is not None

    async def answer(_request: bytes, _context: object) -> bytes:
        return b""

    server = aio.server()
    handler = grpc.method_handlers_generic_handler(
        "skein.auth.v1.AuthInternalService", {"Exchange": grpc.unary_unary_rpc_method_handler(cast("Any", answer))}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_secure_port("127.0.0.1:0", files.server_credentials())
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def test_every_method_that_the_gateway_does_not_offer_names_the_services_that_may_call() -> None:
    offered = {*PUBLIC_SERVICES, "skein.gateway.v1.GatewayService"}

    assert {path for path in ACCESS_RULES if path.split("/")[1] not in offered} == set(INTERNAL)
    assert {name for services in INTERNAL.values() for name in services} <= set(registry.NAMES)
    assert {path.rpartition("/")[2] for path in INTERNAL} >= set(SIGNING)


def test_a_service_opens_channels_in_its_own_name_alone() -> None:
    opened = {
        (name, match[1])
        for name in registry.NAMES
        for path in (SERVICES / name).rglob("*.py")
        for match in re.finditer(r"host\.channel\((?:[^()]*caller=\"(\w*)\")?", path.read_text("utf-8"))
    }

    assert opened == {(name, name) for name in registry.NAMES}


async def test_no_internal_method_answers_another_service_whatever_its_token(cluster: Cluster, tenant: Tenant) -> None:
    tokens: Mapping[str, str] = {
        "no": "",
        "a tenant's": await token_of(cluster, tenant.api_key),
        "an operator's": await token_of(cluster, cluster.operator_key, tenant.tenant_id),
        "the worker's": await system_token(cluster, tenant.tenant_id),
    }
    answered = []
    for caller in registry.NAMES:
        # The service is checked before the token, so one caller tries all tokens.
        used = tokens if caller == "pc2" else {"the worker's": tokens["the worker's"]}
        for service in {_service_of(path) for path in INTERNAL}:
            async with cluster.direct(service, caller=caller) as channel:
                for path in (path for path in INTERNAL if _service_of(path) == service):
                    if caller in INTERNAL[path]:
                        continue
                    for kind, token in used.items():
                        code, details = await outcome(channel, path, token)
                        if code is not grpc.StatusCode.PERMISSION_DENIED or "system:" not in details:
                            answered.append((path, caller, kind, code, details))

    assert answered == []


async def test_a_member_who_may_purge_and_reaches_auth_gets_no_certificate(cluster: Cluster, tenant: Tenant) -> None:
    token = await token_of(cluster, tenant.api_key)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="Ann likes tea")))
    request = certificates_pb2.IssueErasureCertificateRequest(
        erasure_key=bytes(32), kind="forget", complete=True, deleted_counts={"memory.memories": 1}
    )

    for caller in set(registry.NAMES) - {"gateway"}:
        async with cluster.direct("auth", caller=caller) as channel:
            stub = auth_pb2_grpc.AuthInternalServiceStub(channel)
            with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
                await stub.IssueErasureCertificate(request, metadata=(("authorization", f"Bearer {token}"),))

    listed = await tenant.auth.ListErasureCertificates(certificates_pb2.ListErasureCertificatesRequest())
    assert not listed.certificates


async def test_without_a_certificate_no_port_of_a_service_is_reached(cluster: Cluster) -> None:
    for service in {_service_of(path) for path in INTERNAL}:
        async with aio.insecure_channel(cluster.addresses[service]) as channel:
            code, _ = await outcome(channel, next(path for path in INTERNAL if _service_of(path) == service), "")
        assert code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.system
async def test_a_port_in_plain_text_answers_no_internal_method(database: TestDatabase) -> None:
    answered = []
    async with run_plain_auth_server(database) as auth:
        for path in (path for path in INTERNAL if _service_of(path) == "auth"):
            code, details = await outcome(auth.channel, path, "")
            if code is not grpc.StatusCode.PERMISSION_DENIED or "system:" not in details:
                answered.append((path, code, details))

    assert answered == []


async def test_a_service_s_certificate_does_not_stand_for_another_service() -> None:
    """A process that has memory's certificate and takes auth's place gets no call that is meant for auth."""
    settings = ProcessSettings(**identity_settings("memory"), admin_port=0)
    path = "/skein.auth.v1.AuthInternalService/Exchange"

    async with pretending(settings) as address:
        as_itself, as_auth = [
            ServiceChannel(lambda: address, {}, mutual=MutualTlsFiles.from_settings(settings), service=name)
            for name in ("memory", "auth")
        ]
        codes = [(await outcome(cast("aio.Channel", channel), path, ""))[0] for channel in (as_itself, as_auth)]
        for channel in (as_itself, as_auth):
            await channel.close()

    assert codes == [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE]


@pytest.mark.system
async def test_within_a_process_too_another_service_is_refused(database: TestDatabase) -> None:
    answered = []
    async with run_auth_server(database) as auth:
        for path in (path for path in INTERNAL if _service_of(path) == "auth"):
            for caller in ("", *(name for name in registry.NAMES if name not in INTERNAL[path])):
                code, details = await outcome(auth.host.channel("auth", caller=caller), path, "")
                if code is not grpc.StatusCode.PERMISSION_DENIED or "system:" not in details:
                    answered.append((path, caller, code, details))

    assert answered == []
