"""The public gRPC port: its callers, the RPCs behind it, and the metadata that it forwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused, until_all_serve
from fix_gateway import gateway_before

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster import registry
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.calls.call import Call
from skein_kit.identity.identity_token import IdentityTokenVerifier
from skein_kit.identity.permissions import ACCESS_RULES, PUBLIC_SERVICES

ROOT = Path(__file__).parents[2]
BUF = Path(sys.executable).with_name("buf")


async def buf_curl(*arguments: str) -> str:
    """Run buf beside the cluster, which may live in this very process."""
    process = await asyncio.create_subprocess_exec(
        BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments, cwd=ROOT, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output.decode()


async def internal_token(cluster: Cluster, tenant: Tenant) -> str:
    async with cluster.direct("auth") as channel:
        identities: Any = auth_pb2_grpc.AuthInternalServiceStub(channel)
        response = await identities.Exchange(auth_pb2.ExchangeRequest(bearer=tenant.api_key))
    token: str = response.token
    return token


def test_every_public_rpc_is_forwarded_and_no_other() -> None:
    public = {path for path in ACCESS_RULES if path.split("/")[1] in PUBLIC_SERVICES}
    own = {path for path in ACCESS_RULES if path.startswith("/skein.gateway.")}

    assert set(PUBLIC_METHODS) == public | own


@over("path", sorted(path for path in ACCESS_RULES if path not in PUBLIC_METHODS), at_once=8)
async def test_internal_methods_are_unknown_here(cluster: Cluster, tenant: Tenant, path: str) -> None:
    call: Any = cluster.channel.unary_unary(path)

    with refused(grpc.StatusCode.UNIMPLEMENTED, "METHOD_NOT_FOUND"):
        await call(b"", metadata=(("authorization", f"Bearer {tenant.api_key}"),))


async def test_an_internal_identity_is_no_credential_here(cluster: Cluster, tenant: Tenant) -> None:
    token = await internal_token(cluster, tenant)

    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await cluster.with_key(token).auth.GetMe(auth_pb2.GetMeRequest())


async def test_the_credential_itself_travels_no_further(cluster: Cluster, tenant: Tenant) -> None:
    async def append(_request: Any, _call: Call) -> session_pb2.AppendMessagesResponse:
        return session_pb2.AppendMessagesResponse()

    async with gateway_before(cluster, tenant, {"AppendMessages": append}, in_process=False) as gateway:
        await gateway.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(session_id="s", messages=[session_pb2.Message(content="tea")]),
            metadata=(("skein-request-id", "mine"), ("x-other", "theirs")),
        )
        (seen,) = gateway.scripted.calls

    assert all(tenant.api_key not in value for value in seen.metadata.values())
    assert seen.caller is not None
    assert seen.caller.tenant_id == tenant.tenant_id
    assert seen.request_id == "mine"
    assert "x-other" not in seen.metadata


async def test_an_identity_that_travels_on_is_signed_by_auth(cluster: Cluster, tenant: Tenant) -> None:
    async def fetch() -> dict[str, str]:
        response = await cluster.anonymous.auth.ListSigningKeys(auth_pb2.ListSigningKeysRequest())
        return {key.key_id: key.jwk for key in response.signing_keys}

    caller = await IdentityTokenVerifier(fetch).verify(await internal_token(cluster, tenant))

    assert caller.tenant_id == tenant.tenant_id


async def test_the_callers_deadline_goes_along(cluster: Cluster, tenant: Tenant) -> None:
    remaining: list[float] = []

    async def append(_request: Any, call: Call) -> session_pb2.AppendMessagesResponse:
        remaining.append(call.time_remaining())
        return session_pb2.AppendMessagesResponse()

    async with gateway_before(cluster, tenant, {"AppendMessages": append}, in_process=False) as gateway:
        request = session_pb2.AppendMessagesRequest(session_id="s", messages=[session_pb2.Message(content="tea")])
        await gateway.sessions.AppendMessages(request, timeout=7)

    # On its way a deadline is rounded up, by less than a second.
    assert 0 < remaining[0] < 8


async def test_an_operator_acts_in_the_tenant_it_names(cluster: Cluster, tenant: Tenant) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})

    me = await acting.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.tenant_id == str(tenant.tenant_id)
    assert me.principal.startswith("operator:")


async def test_an_operator_who_names_no_tenant_is_told_so(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await cluster.operator.memory.ListMemories(memory_pb2.ListMemoriesRequest())


async def test_a_tenant_id_that_is_none_is_refused(cluster: Cluster) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": "mine"})

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await acting.auth.GetMe(auth_pb2.GetMeRequest())


async def test_an_operator_who_names_an_unknown_tenant_is_told_so(cluster: Cluster) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(uuid.uuid4())})

    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await acting.auth.GetMe(auth_pb2.GetMeRequest())


async def test_a_refusal_of_a_service_arrives_as_it_was(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=str(uuid.uuid4())))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest())


async def test_a_service_that_is_gone_is_named(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        gateway.host.addresses["tenancy"] = "127.0.0.1:9"

        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE") as caught:
            await gateway.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest())

    assert "tenancy" in str(caught.value.trailing_metadata())


async def test_the_status_names_every_service(tenant: Tenant) -> None:
    status = await until_all_serve(tenant.gateway)

    assert {service.service: service.state for service in status.services} == dict.fromkeys(
        registry.NAMES, gateway_pb2.SERVICE_STATE_SERVING
    )
    assert status.version


async def test_the_status_says_which_service_does_not_answer(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway:
        gateway.host.addresses["recall"] = "127.0.0.1:9"

        status = await until_all_serve(gateway.gateway, but=["recall"])

    states = {service.service: service.state for service in status.services}
    assert states["recall"] == gateway_pb2.SERVICE_STATE_UNREACHABLE
    assert states["auth"] == gateway_pb2.SERVICE_STATE_SERVING


@pytest.mark.system
@pytest.mark.parametrize("schema", [(), ("--schema", ".")], ids=["by reflection", "by schema"])
async def test_buf_curl_can_call_it(cluster: Cluster, tenant: Tenant, schema: tuple[str, ...]) -> None:
    credential = ("--header", f"authorization: Bearer {tenant.api_key}")
    address = f"http://{cluster.endpoint}/skein.auth.v1.AuthService/GetMe"

    answer = await buf_curl(*credential, *schema, "--data", "{}", address)

    assert json.loads(answer)["tenantId"] == str(tenant.tenant_id)


@pytest.mark.system
async def test_reflection_lists_the_services_it_forwards_to(cluster: Cluster) -> None:
    listed = await buf_curl("--list-methods", f"http://{cluster.endpoint}")

    assert {path.removeprefix("/") for path in PUBLIC_METHODS} <= set(listed.split())
    assert "AuthInternalService" not in listed
