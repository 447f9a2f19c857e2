"""The OpenAPI document of the HTTP API, and what every public unary RPC really takes and answers there."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import httpx
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_http import TLS
from fix_recipes import RECIPES, request_for
from fix_world import World
from google.protobuf import json_format
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

from skein.errors.v1 import errors_pb2
from skein_gateway.json_schema.schemas import comments
from skein_gateway.openapi import document as openapi
from skein_gateway.openapi.document import EXAMPLES
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit.identity.permissions import ACCESS_RULES, ACCOUNT, CREATE_TENANT, OPERATOR

UNARY = sorted(path for path, method in PUBLIC_METHODS.items() if not method.streams)
STREAMS = sorted(set(PUBLIC_METHODS) - set(UNARY))
# These leave the things of a tenant as they are, so one tenant serves all of them.
READS = (
    "Get",
    "List",
    "Search",
    "Export",
    "Explain",
    "Find",
    "TraverseLinks",
    "SpreadActivation",
    "Suggest",
    "Recall",
    "Build",
)


@pytest.fixture
def origin(cluster: Cluster) -> str:
    return f"http://{cluster.addresses['http']}"


@pytest.fixture(scope="session")
async def read_from(cluster: Cluster) -> World:
    """A tenant that is asked and never changed."""
    return await World.new(cluster)


async def fetch(at: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=at, trust_env=False, verify=TLS, timeout=60) as http:
        return await http.get("/openapi.json", headers={k.replace("_", "-"): v for k, v in headers.items()})


@cache
def document() -> dict[str, Any]:
    """Return the document as it is made, which is what is served."""
    payload: dict[str, Any] = json.loads(json.dumps(openapi.document("http://127.0.0.1:8080")))
    return payload


def errors_of(schema: dict[str, Any], value: Any) -> list[str]:
    """Return what a value breaks of a schema of the document."""
    whole = {**schema, "components": document()["components"]}
    validator = Draft202012Validator(whole, format_checker=FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def request_schema(path: str) -> dict[str, Any]:
    content: dict[str, Any] = document()["paths"][path]["post"]["requestBody"]["content"]
    result: dict[str, Any] = content["application/json"]["schema"]
    return result


def answer_schema(path: str, status: int) -> dict[str, Any]:
    responses = document()["paths"][path]["post"]["responses"]
    response = responses.get(str(status), responses["default"])
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    result: dict[str, Any] = response["content"]["application/json"]["schema"]
    return result


async def headers_for(path: str, world: World) -> dict[str, str]:
    """Return what the rightful caller of an RPC brings."""
    rule = ACCESS_RULES[path]
    if rule.is_public:
        return {}
    credential = world.tenant.api_key
    if rule.permission in {OPERATOR, CREATE_TENANT}:
        credential = world.cluster.operator_key
    elif rule.permission == ACCOUNT:
        credential = (await world.thing("co_owner" if path.endswith("/LeaveTenant") else "owner")).access_token
    naming = {"skein-tenant-id": str(world.tenant.tenant_id)} if credential != world.tenant.api_key else {}
    return {"authorization": f"Bearer {credential}", **(naming if rule.needs_tenant else {})}


@pytest.mark.system
def test_the_document_is_valid() -> None:
    # Some seconds: the validator looks at each of 600 schemas, wherever it is used.
    assert [error.message for error in OpenAPIV31SpecValidator(document()).iter_errors()] == []


def test_every_public_unary_method_is_in_it_and_nothing_else() -> None:
    assert sorted(document()["paths"]) == UNARY
    assert STREAMS
    assert all(list(methods) == ["post"] for methods in document()["paths"].values())


def test_every_method_says_what_it_promises_and_who_may_call_it() -> None:
    for path, methods in document()["paths"].items():
        operation, rule = methods["post"], ACCESS_RULES[path]
        promise = comments()[path.strip("/").replace("/", ".")]

        assert operation["description"].startswith(promise)
        assert operation["summary"]
        assert (operation["security"] == []) == rule.is_public
        assert rule.permission is None or f"`{rule.permission}`" in operation["description"]


def test_refusals_stand_at_their_http_status() -> None:
    responses = document()["paths"]["/skein.memory.v1.MemoryService/BatchCreateMemories"]["post"]["responses"]

    general = {"200", "400", "401", "403", "404", "409", "415", "429", "503", "504", "default"}
    assert set(responses) == general
    assert set(document()["paths"]["/skein.auth.v1.AuthService/SignIn"]["post"]["responses"]) > {"400", "401", "415"}
    # It refuses for what CreateMemory refuses for as well, and its comment says no more than that.
    assert "FACT_KEY_TAKEN" in responses["409"]["description"]
    assert "MESSAGE_TOO_LARGE" in responses["429"]["description"]


def test_every_reason_of_an_error_is_listed() -> None:
    listed = document()["components"]["schemas"]["ErrorReason"]["enum"]

    assert [f"ERROR_REASON_{reason}" for reason in listed] == errors_pb2.ErrorReason.keys()[1:]


@over("path", sorted(EXAMPLES))
def test_an_example_is_what_the_method_takes(path: str) -> None:
    message = json_format.ParseDict(dict(EXAMPLES[path]), PUBLIC_METHODS[path].request())

    assert message.ByteSize()
    assert errors_of(request_schema(path), EXAMPLES[path]) == []


@pytest.mark.system
@pytest.mark.timeout(300)
@over("path", UNARY, at_once=4)
async def test_requests_and_answers_match_the_document(
    cluster: Cluster, origin: str, read_from: World, path: str
) -> None:
    name = path.rpartition("/")[2]
    world = read_from if name.startswith(READS) and "deleted" not in RECIPES[path].needs else await World.new(cluster)
    body = json_format.MessageToDict(await request_for(path, world))

    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=30) as http:
        answer = await http.post(path, json=body, headers=await headers_for(path, world))

    payload = answer.json()
    reason = "" if answer.status_code == 200 else payload["details"][0]["debug"]["reason"]
    assert reason == RECIPES[path].own
    assert errors_of(request_schema(path), body) == []
    assert errors_of(answer_schema(path, answer.status_code), payload) == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/skein.memory.v1.MemoryService/GetMemory", {}, 400),
        ("/skein.memory.v1.MemoryService/GetMemory", {"memoryId": "nobody"}, 404),
        ("/skein.memory.v1.MemoryService/CreateMemory", {"memory": {"confidence": 3}}, 400),
        ("/skein.gateway.v1.GatewayService/Remember", {}, 400),
    ],
)
async def test_a_refusal_is_what_the_document_says(
    origin: str, tenant: Tenant, path: str, body: dict[str, Any], status: int
) -> None:
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        answer = await http.post(path, json=body, headers={"authorization": f"Bearer {tenant.api_key}"})
        stranger = await http.post(path, json=body)

    assert (answer.status_code, stranger.status_code) == (status, 401)
    assert errors_of(answer_schema(path, status), answer.json()) == []
    assert errors_of(answer_schema(path, 401), stranger.json()) == []


@pytest.mark.system
async def test_it_is_served_with_the_issuers_addresses(origin: str) -> None:
    answer = await fetch(origin, accept_encoding="identity")
    issuer = (await discovery(origin))["issuer"]

    assert answer.json() == json.loads(json.dumps(openapi.document(issuer)))
    flows = answer.json()["components"]["securitySchemes"]["oauth"]["flows"]
    assert flows["authorizationCode"]["authorizationUrl"] == f"{issuer}/authorize"


async def discovery(origin: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        payload: dict[str, Any] = (await http.get("/.well-known/oauth-authorization-server")).json()
        return payload


@pytest.mark.system
async def test_a_client_with_a_fresh_copy_gets_not_modified(origin: str) -> None:
    first = await fetch(origin)

    again = await fetch(origin, if_none_match=first.headers["etag"])
    other = await fetch(origin, if_none_match='"another"')

    assert (again.status_code, again.content) == (304, b"")
    assert (other.status_code, other.content) == (200, first.content)


async def test_it_comes_packed_to_those_who_take_that(origin: str) -> None:
    async with httpx.AsyncClient(base_url=origin, trust_env=False, verify=TLS, timeout=60) as http:
        fields = {"accept-encoding": "br, gzip;q=0.5"}
        async with http.stream("GET", "/openapi.json", headers=fields) as packed:
            raw = b"".join([part async for part in packed.aiter_raw()])
    plain = await fetch(origin, accept_encoding="gzip;q=0")

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 4


async def test_pages_of_other_sites_may_read_it(origin: str) -> None:
    answer = await fetch(origin, origin="https://editor.example")

    assert answer.headers["access-control-allow-origin"] == "*"
