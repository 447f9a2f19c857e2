"""An error's message alone is enough to correct the request: at gRPC's port, in JSON and for models."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import httpx
import pytest
from fix_accounts import new_account
from fix_cluster import Cluster, Tenant, fault_of, reason_in
from fix_http import TLS
from fix_mcp import Mcp
from google.protobuf.message import Message

from skein.auth.v1 import oauth_pb2
from skein.memory.v1 import memory_pb2, webhooks_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2
from skein_client import Client, errors
from skein_gateway.public_methods import PUBLIC_METHODS

SCOPES = ("SCOPE_GLOBAL", "SCOPE_AGENT", "SCOPE_USER", "SCOPE_SESSION")


async def post(cluster: Cluster, path: str, body: Any, *, key: str = "", **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        sent["authorization"] = f"Bearer {key}"
    async with httpx.AsyncClient(trust_env=False, verify=TLS, timeout=60) as client:
        return await client.post(f"http://{cluster.addresses['http']}{path}", json=body, headers=sent)


async def message_of(call: Any) -> str:
    return (await fault_of(call)).details() or ""


async def test_a_rule_of_the_contract_names_the_field_and_the_limit(tenant: Tenant) -> None:
    message = await message_of(tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=-1)))

    assert "page_size: must be greater than or equal to 0 and less than or equal to 1000" in message


async def test_an_enum_number_that_nothing_has_is_answered_with_the_names(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="c")
    memory.scope = 77  # type: ignore[assignment]  # What a newer client would send.

    message = await message_of(tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory)))

    assert "memory.scope: must be one of " in message
    assert all(name in message for name in SCOPES)


async def test_a_role_that_a_message_needs_is_answered_with_the_names(tenant: Tenant) -> None:
    session = (await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest())).session
    request = session_pb2.AppendMessagesRequest(
        session_id=session.session_id, messages=[session_pb2.Message(content="hello")]
    )

    message = await message_of(tenant.sessions.AppendMessages(request))

    assert "messages[0].role" in message
    assert "assistant" in message


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (memory_pb2.ListMemoriesRequest(page_token="nonsense"), ["page_token"]),
        (memory_pb2.ListMemoriesRequest(order_by="colour"), ["order_by", "importance"]),
        (
            memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where="colour = 'red'")),
            ["where", "colour", "importance", "scope"],
        ),
        (memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where="scope = 'red'")), ["where", "global"]),
    ],
)
async def test_lists_say_what_they_take(
    tenant: Tenant, request_: memory_pb2.ListMemoriesRequest, named: list[str]
) -> None:
    message = await message_of(tenant.memory.ListMemories(request_))

    assert [name for name in named if name not in message] == [], message


async def test_an_event_type_that_never_happens_is_answered_with_those_that_do(tenant: Tenant) -> None:
    request = webhooks_pb2.CreateWebhookRequest()
    request.webhook.display_name, request.webhook.webhook_url = "w", "https://example.com/"
    request.webhook.event_types.append("memory_imagined")

    message = await message_of(tenant.history.CreateWebhook(request))

    assert "event_types" in message
    assert "memory_created" in message


async def test_a_mask_that_names_no_field_is_answered_with_those_that_exist(tenant: Tenant) -> None:
    request = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy())
    request.update_mask.paths.append("decayWeeks")

    message = await message_of(tenant.tenancy.UpdatePolicy(request))

    assert "decay_weeks" in message
    assert "decay_days" in message


async def test_a_mask_takes_the_names_of_json_over_grpc(tenant: Tenant) -> None:
    request = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(decay_days=7))
    request.update_mask.paths.append("decayDays")

    policy = (await tenant.tenancy.UpdatePolicy(request)).policy

    assert policy.decay_days == 7


@pytest.mark.parametrize("mask", ["decayDays", "decay_days", ["decay_days"]])
async def test_a_mask_takes_both_spellings_in_json(cluster: Cluster, tenant: Tenant, mask: Any) -> None:
    body = {"policy": {"decay_days": 9}, "update_mask": mask}

    answer = await post(cluster, "/skein.tenancy.v1.TenancyService/UpdatePolicy", body, key=tenant.api_key)

    assert answer.status_code == 200, answer.text
    assert answer.json()["policy"]["decayDays"] == 9


async def test_a_short_name_of_an_enum_is_taken_in_json(cluster: Cluster, tenant: Tenant) -> None:
    body = {"memory": {"content": "c", "scope": "global"}}

    answer = await post(cluster, "/skein.memory.v1.MemoryService/CreateMemory", body, key=tenant.api_key)

    assert answer.status_code == 200, answer.text
    assert answer.json()["memory"]["scope"] == "SCOPE_GLOBAL"


async def test_an_unknown_name_of_an_enum_is_answered_with_the_names_in_json(cluster: Cluster, tenant: Tenant) -> None:
    body = {"memory": {"content": "c", "scope": "galaxy"}}

    answer = await post(cluster, "/skein.memory.v1.MemoryService/CreateMemory", body, key=tenant.api_key)

    assert answer.status_code == 400
    assert "memory.scope" in answer.json()["message"]
    assert all(name in answer.json()["message"] for name in SCOPES)


async def test_a_model_is_told_the_names_of_an_enum_once(cluster: Cluster, tenant: Tenant) -> None:
    async with Mcp.of(cluster.addresses["http"], tenant.api_key) as mcp:
        reason, text = await mcp.refused("recall", query="c", mode="galactic")
        long, error_text = await mcp.refused("remember", content="c", confidence=3)

    assert (reason, long) == ("INVALID_FIELD", "INVALID_FIELD")
    assert text.count("hybrid, keyword, semantic") == 1
    assert error_text.count("must be greater than or equal to 0") == 1
    assert "confidence" in error_text


async def test_the_client_shows_each_violation_once(cluster: Cluster, tenant: Tenant) -> None:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
        with pytest.raises(errors.InvalidArgument) as refusal:
            await skein.memories.ListMemories(memory_pb2.ListMemoriesRequest(page_size=-1))

    assert str(refusal.value).count("page_size") == 1
    assert "page_size" in refusal.value.message


@pytest.mark.system
async def test_every_refusal_of_a_field_says_in_its_message_what_its_details_say(
    cluster: Cluster, tenant: Tenant
) -> None:
    refused = 0
    missing: list[str] = []
    bodies: list[dict[str, Any]] = [{"page_size": -1}, {"page_token": "nonsense"}, {"colour": "red"}, {}]
    reading = [path for path in PUBLIC_METHODS if path.rpartition("/")[2].startswith(("List", "Get", "Search", "Find"))]
    for path in reading:
        answers = await asyncio.gather(*(post(cluster, path, body, key=tenant.api_key) for body in bodies))
        for answer in answers:
            if answer.status_code != 400:
                continue
            refused += 1
            payload = answer.json()
            details = [detail["debug"] for detail in payload["details"]]
            violations = [one for detail in details for one in detail.get("fieldViolations", [])]
            missing += [
                f"{path}: {payload['message']}"
                for one in violations
                if one.get("field", "") not in payload["message"] or one["description"] not in payload["message"]
            ]
            if (
                not violations
                and "page_token" not in payload["message"]
                and details[0]["reason"] == "PAGE_TOKEN_INVALID"
            ):
                missing.append(f"{path}: {payload['message']}")

    assert missing == []
    assert refused > 60


async def test_a_call_of_one_tenant_without_its_header_says_which_header(cluster: Cluster) -> None:
    requests: list[tuple[Any, Message]] = [
        (cluster.operator.tenancy.ListAgents, tenancy_pb2.ListAgentsRequest()),
        (cluster.operator.tenancy.GetPolicy, subjects_pb2.GetPolicyRequest()),
        (cluster.operator.tenancy.ListMembers, members_pb2.ListMembersRequest()),
        (cluster.operator.memory.ListMemories, memory_pb2.ListMemoriesRequest()),
    ]
    for call, request in requests:
        fault = await fault_of(call(request))

        assert fault.code() is grpc.StatusCode.INVALID_ARGUMENT, request.DESCRIPTOR.name
        assert "skein-tenant-id" in (fault.details() or ""), json.dumps(fault.details())


async def test_a_person_without_a_tenant_is_told_of_the_header(cluster: Cluster) -> None:
    person = await new_account(cluster)

    fault = await fault_of(person.stubs.memory.ListMemories(memory_pb2.ListMemoriesRequest()))

    assert reason_in(fault) == "TENANT_MISSING"
    assert "skein-tenant-id" in (fault.details() or "")


async def test_a_missing_permission_is_named(tenant: Tenant) -> None:
    fault = await fault_of(tenant.tenancy.ListOrganizations(tenancy_pb2.ListOrganizationsRequest()))

    assert "operator" in (fault.details() or "")


async def test_methods_of_oauth_name_the_endpoint_that_answers(cluster: Cluster) -> None:
    service = oauth_pb2.DESCRIPTOR.services_by_name["OAuthService"]
    served = {"/authorize", "/device", "/register", "/token", "/device_authorization", "/revoke", "/introspect"}
    served |= {"/userinfo", "/.well-known/oauth-authorization-server", "/register/<client_id>"}
    for method in service.methods:
        answer = await post(cluster, f"/{service.full_name}/{method.name}", {})

        message = answer.json()["message"]
        named = [word.strip(":;.,") for word in message.split() if word.startswith("/")]
        assert answer.status_code == 501
        assert named, message
        assert set(named) <= served, message


async def test_an_unknown_method_says_where_all_are_listed(cluster: Cluster) -> None:
    answer = await post(cluster, "/skein.memory.v1.MemoryService/Imagine", {})

    assert answer.status_code == 501
    assert "/openapi.json" in answer.json()["message"]
