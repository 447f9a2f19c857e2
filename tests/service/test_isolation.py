"""Every RPC of every service against callers without a right to it, and every tenant against its neighbour.

One matrix: each RPC times {its own tenant, another tenant's ids, a forged tenant, no credential, an expired one, one
made for something else, one with too little, a viewer}. The RPCs come from the contract and the rules from the access
table; an RPC without a recipe for its request fails the first test. Another tenant's rows must neither show nor change:
what a tenant has holds a marker that may appear in no answer to others, and is compared before and after.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from typing import Any

import asyncpg
import grpc
import pytest
from fix_accounts import member
from fix_catalogue import over
from fix_cluster import SYSTEM_KEY, Cluster, Stubs
from fix_layers import LAYER
from fix_matrix import (
    GUARDED,
    INTERNAL,
    METHODS,
    OK,
    PATHS,
    Channels,
    call,
    claims_of,
    credential_for,
    outcome,
    part_of,
)
from fix_recipes import RECIPES, request_for
from fix_repeats import REPEATABLE, assert_repeatable
from fix_rows import rows_of
from fix_world import World, identity
from google.protobuf import message_factory
from google.protobuf.message import Message
from joserfc import jwt
from joserfc.jwk import RSAKey

from skein.auth.v1 import auth_pb2
from skein_auth.encryption import SecretCipher
from skein_auth.settings import SystemKeys
from skein_kit.database.named_queries import Queries
from skein_kit.identity.permissions import (
    ACCESS_RULES,
    ACCOUNT,
    CREATE_TENANT,
    EXTRACT,
    OPERATOR,
    ROLE_PERMISSIONS,
    SYSTEM,
)
from skein_kit.rpc.declarations import audit_rule

# Calls that leave the things of a tenant as they are.
READS = re.compile("(Get|List|BatchGet|Search|Export|Explain|Find|Traverse|Suggest|Recall|Build|Compile|Diff)[A-Z]?")
# Receipts are shown to the caller whose answer they are of, and to auditors.
OF_THEIR_CALLER = {
    "/skein.gateway.v1.GatewayService/ReplayContext",
    *(f"/skein.recall.v1.RecallService/{name}" for name in ("GetRecallReceipt", "ReplayRecall", "DiffRecall")),
}


@pytest.fixture(scope="module")
async def ours(cluster: Cluster) -> World:
    """A tenant that others try to get at."""
    world = await World.new(cluster)
    for path in PATHS:
        if not _closes(path):
            await request_for(path, world)
    return world


@pytest.fixture(scope="module")
async def theirs(cluster: Cluster) -> World:
    """A tenant that tries."""
    world = await World.new(cluster)
    await world.owner()
    return world


@pytest.fixture(scope="module")
async def read_from(cluster: Cluster) -> World:
    """A tenant that is asked and never changed."""
    return await World.new(cluster)


# A space is shown to those who see it, and to admins.
OF_THOSE_WHO_SEE = {f"/skein.tenancy.v1.TenancyService/{name}" for name in ("GetSpace", "ListSpaceGrants")}


def _closes(path: str) -> bool:
    """Say whether a request for this RPC needs a tenant that is deleted."""
    return bool({"deleted", "due"} & set(RECIPES[path].needs))


@pytest.fixture(scope="session")
def channels(cluster: Cluster) -> Channels:
    return Channels(cluster)


def shows(answer: Message | None, world: World) -> bool:
    return answer is not None and world.marker in str(answer)


def test_every_rpc_is_in_the_matrix() -> None:
    assert set(RECIPES) == set(METHODS) == set(ACCESS_RULES)


async def test_the_layer_that_shall_be_off_is_off_and_the_others_are_on(
    cluster: Cluster, catalog_of: asyncpg.Connection[asyncpg.Record]
) -> None:
    assert cluster.endpoint
    guarded = await catalog_of.fetchval("SELECT count(*) FROM pg_class WHERE relrowsecurity")
    comparing = [query for query in Queries.load("skein_memory").by_name.values() if "tenant_id = $" in query.text]

    assert (guarded == 0) == (LAYER == "keys")
    assert (comparing == []) == (LAYER == "rows")


@pytest.mark.timeout(600)
@over("path", PATHS, at_once=4)
async def test_the_tenants_own_caller_gets_in_is_audited_and_may_repeat_its_request(
    cluster: Cluster,
    channels: Channels,
    read_from: World,
    catalog_of: asyncpg.Connection[asyncpg.Record],
    audit_lock: asyncio.Lock,
    path: str,
) -> None:
    # A call that changes a tenant's things has a tenant of its own.
    is_read = READS.match(path.rpartition("/")[2]) is not None and not _closes(path)
    world = read_from if is_read else await World.new(cluster)
    request: Any = await request_for(path, world)
    if path in REPEATABLE:
        request.request_id = f"r {uuid.uuid4()}"
    credential, metadata = await credential_for(path, world)
    metadata |= {"skein_request_id": str(uuid.uuid4())}

    code, reason, answer = await outcome(call(channels.of(path), path, request, credential, **metadata))

    assert reason == RECIPES[path].own, (code, reason)
    if answer is None:
        return
    rule = audit_rule(path)
    if rule is not None and path.rpartition("/")[2] not in WITHOUT_CHANGE:
        async with audit_lock:
            events = await catalog_of.fetch(
                "SELECT event, principal FROM auth.audit_events WHERE request_id = $1", metadata["skein_request_id"]
            )
        assert rule.event in {event["event"] for event in events}
        assert ACCESS_RULES[path].is_public or all(event["principal"] for event in events)
    if path in REPEATABLE:
        await assert_repeatable(channels.of(path), path, request, answer, credential, metadata)


# Their requests change nothing here: the job has no pause and no limits, and the token is unknown.
WITHOUT_CHANGE = {"ResumeJob", "LimitJob", "RevokeToken"}


@pytest.fixture(scope="session")
def audit_lock() -> asyncio.Lock:
    """Make the rows of a connection one after another."""
    return asyncio.Lock()


@pytest.fixture
def last_rows() -> dict[str, str]:
    """What our tenant's rows were when they were looked at last."""
    return {}


# Callers of these bring a proof; a proof for another client is refused with these errors.
PROOFS = {"GetClient", "UpdateClient", "DeleteClient"}


# One after another: what each of them changed is looked for.
@pytest.mark.timeout(300)
@over("path", PATHS)
async def test_another_tenants_ids_show_nothing_and_change_nothing(
    cluster: Cluster,
    channels: Channels,
    ours: World,
    theirs: World,
    catalog_of: asyncpg.Connection[asyncpg.Record],
    last_rows: dict[str, str],
    path: str,
) -> None:
    request: Any = await request_for(path, ours.seen_by(theirs)) if not _closes(path) else _naming(path, ours)
    rule, name = ACCESS_RULES[path], path.rpartition("/")[2]
    if name in PROOFS:
        request.registration_access_token = (await theirs.thing("client")).registration_access_token
    metadata: dict[str, str] = {}
    if rule.is_public:
        credential = ""
    elif rule.permission == ACCOUNT:
        # A new member each time, because some of these end the credential they are called with.
        theirs.things["owner"] = theirs.things["co_owner"] = await member(cluster, theirs.tenant, "owner")
        credential, metadata = await credential_for(path, theirs)
    elif rule.permission == EXTRACT:
        credential, metadata = await credential_for(path, theirs)
    else:
        credential = theirs.tenant.api_key
    if path in INTERNAL and credential and rule.permission not in {ACCOUNT, EXTRACT}:
        credential, metadata = await identity(cluster, credential), {}
    if not last_rows:
        last_rows.update(await rows_of(catalog_of, ours.tenant.tenant_id))

    code, reason, answer = await outcome(call(channels.of(path), path, request, credential, **metadata))

    if rule.permission in {OPERATOR, SYSTEM, CREATE_TENANT}:
        assert code is grpc.StatusCode.PERMISSION_DENIED
    elif name in PROOFS:
        assert reason == "OAUTH_INVALID_TOKEN"
    else:
        assert code in {OK, grpc.StatusCode.NOT_FOUND} or reason == RECIPES[path].own, (code, reason)
    assert rule.is_public or not shows(answer, ours)
    before = dict(last_rows)
    last_rows.update(await rows_of(catalog_of, ours.tenant.tenant_id))
    assert last_rows == before


@over("path", GUARDED, at_once=4)
async def test_a_forged_tenant_is_refused(
    cluster: Cluster, channels: Channels, ours: World, theirs: World, path: str
) -> None:
    request = await request_for(path, ours.seen_by(theirs)) if not _closes(path) else _naming(path, ours)
    if "tenant_id" in METHODS[path].input_type.fields_by_name:
        request.tenant_id = str(ours.tenant.tenant_id)  # type: ignore[attr-defined]  # As said.
    credential = (
        (await theirs.owner()).access_token if ACCESS_RULES[path].permission == ACCOUNT else theirs.tenant.api_key
    )
    if path in INTERNAL:
        credential = await identity(cluster, credential)
    forged = {"skein_tenant_id": str(ours.tenant.tenant_id)}

    code, reason, answer = await outcome(call(channels.of(path), path, request, credential, **forged))

    if path in INTERNAL:
        # Metadata is nothing to an internal service: the tenant is the signed one.
        assert not shows(answer, ours)
    else:
        assert (code, reason) in {
            (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"),
            (grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"),
        }


@over("path", GUARDED, at_once=4)
async def test_calls_without_a_credential_are_refused(channels: Channels, ours: World, path: str) -> None:
    request = await request_for(path, ours) if not _closes(path) else _empty(path)

    code, reason, _ = await outcome(call(channels.of(path), path, request))

    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_MISSING")


@pytest.fixture(scope="module")
async def signing_key(catalog_of: asyncpg.Connection[asyncpg.Record]) -> RSAKey:
    """Open the key that signs access tokens: an attacker who could make any token would have this."""
    row = await catalog_of.fetchrow(
        "SELECT key_id, encrypted_private_jwk FROM auth.signing_keys WHERE purpose = 'access' AND expire_time IS NULL"
    )
    assert row is not None
    private = SecretCipher(SystemKeys.of(SYSTEM_KEY)).decrypt(row["encrypted_private_jwk"], name=row["key_id"])
    return RSAKey.import_key(json.loads(private))


def _signed(token: str, key: RSAKey, **changed: object) -> str:
    """Return a token like this one with other claims, signed by the right key."""
    return jwt.encode(part_of(token, 0), {**claims_of(token), **changed}, key, algorithms=["RS256"])


@over("path", [path for path in GUARDED if path not in INTERNAL], at_once=4)
async def test_an_expired_credential_is_refused(cluster: Cluster, ours: World, signing_key: RSAKey, path: str) -> None:
    token = _signed((await ours.owner()).access_token, signing_key, exp=int(time.time()) - 60, jti=str(uuid.uuid4()))

    code, reason, _ = await outcome(call(cluster.channel, path, _empty(path), token))

    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_EXPIRED")


@over("path", [path for path in GUARDED if path not in INTERNAL], at_once=4)
async def test_a_credential_made_for_something_else_is_refused(
    channels: Channels, ours: World, signing_key: RSAKey, path: str
) -> None:
    credential = _signed((await ours.owner()).access_token, signing_key, aud="https://elsewhere.example/api")

    code, reason, _ = await outcome(call(channels.of(path), path, _empty(path), credential))

    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID")


# All at once: a service asks auth for keys that it does not know no more than once a second.
@over("path", [path for path in GUARDED if path in INTERNAL], at_once=1000)
async def test_an_internal_service_takes_what_auth_signed_for_the_inside_alone(
    channels: Channels, ours: World, path: str
) -> None:
    token = (await ours.owner()).access_token

    code, reason, _ = await outcome(call(channels.of(path), path, _empty(path), token))

    assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID")


@pytest.fixture(scope="module")
async def keys_without(ours: World) -> dict[str, str]:
    """Keys of our tenant that may do everything but one thing."""
    made: dict[str, str] = {}
    everything = ROLE_PERMISSIONS["owner"]
    for permission in everything:
        request = auth_pb2.CreateApiKeyRequest(display_name="less", permissions=sorted(everything - {permission}))
        made[permission] = (await ours.tenant.auth.CreateApiKey(request)).secret
    return made


@over("path", [path for path in GUARDED if ACCESS_RULES[path].permission is not None], at_once=4)
async def test_a_credential_with_too_little_is_refused(
    cluster: Cluster, channels: Channels, ours: World, keys_without: dict[str, str], path: str
) -> None:
    permission = str(ACCESS_RULES[path].permission)
    # No key holds what operators, services and people hold: one with all that a key can have is too little.
    credential = keys_without.get(permission, ours.tenant.api_key)
    if path in INTERNAL:
        credential = await identity(cluster, credential)
    request = await request_for(path, ours) if not _closes(path) else _empty(path)

    code, reason, _ = await outcome(call(channels.of(path), path, request, credential))

    expected = "ACCOUNT_REQUIRED" if permission == ACCOUNT else "PERMISSION_MISSING"
    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, expected)


@pytest.fixture(scope="module")
async def viewer(cluster: Cluster, ours: World) -> Stubs:
    """A caller who may read our tenant."""
    return (await member(cluster, ours.tenant, "viewer")).stubs


@over("path", [path for path in GUARDED if ACCESS_RULES[path].permission not in {None, ACCOUNT}], at_once=4)
async def test_a_viewer_reads_and_does_nothing_else(
    cluster: Cluster, channels: Channels, ours: World, viewer: Stubs, path: str
) -> None:
    request = await request_for(path, ours) if not _closes(path) else _empty(path)
    channel: Any = viewer.channel
    if path in INTERNAL:
        token = await identity(cluster, _credential(viewer), str(ours.tenant.tenant_id))
        calling = call(channels.of(path), path, request, token)
    else:
        calling = call(channel, path, request)

    code, reason, _ = await outcome(calling)

    if path in OF_THEIR_CALLER:
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND")
    elif path in OF_THOSE_WHO_SEE:
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND")
    elif ACCESS_RULES[path].permission in ROLE_PERMISSIONS["viewer"]:
        assert code is OK, reason
    else:
        assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")


def _credential(stubs: Stubs) -> str:
    metadata = dict(stubs.channel._metadata)  # type: ignore[attr-defined]  # AuthorizedChannel keeps it.
    return str(metadata["authorization"]).removeprefix("Bearer ")


def _naming(path: str, world: World) -> Message:
    """Return a request that names a tenant, which it would delete, and nothing else."""
    message = _empty(path)
    if "tenant_id" in METHODS[path].input_type.fields_by_name:
        message.tenant_id = str(world.tenant.tenant_id)  # type: ignore[attr-defined]  # As said.
    return message


def _empty(path: str) -> Message:
    message: Message = message_factory.GetMessageClass(METHODS[path].input_type)()
    return message
