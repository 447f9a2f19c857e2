"""A tenant with one of each thing, made as it is asked for, and a request for every RPC that names these things."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fix_accounts import Account, member, new_account
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant, new_tenant
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2
from skein_auth.encryption import SecretCipher
from skein_auth.settings import SystemKeys
from skein_auth.signing.keyring import Keyring
from skein_auth.signing.store import SigningKeyStore
from skein_kit.database.transactions import Database
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import SYSTEM_PERMISSIONS

REDIRECT = "http://127.0.0.1:7777/back"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@dataclass
class World:
    """What one tenant has. Every text in it holds the marker, so that a leak can be seen in any answer."""

    cluster: Cluster
    tenant: Tenant
    marker: str
    things: dict[str, Any] = field(default_factory=dict)
    # Where the things lie, if not in the default space.
    space_id: str = ""
    # Several tests may ask for one thing at a time.
    _locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @classmethod
    async def new(cls, cluster: Cluster) -> World:
        """Make a tenant through the API: attacks also change what tenants of the stock share."""
        tenant = await new_tenant(cluster.channel, cluster.operator_key)
        return cls(cluster=cluster, tenant=tenant, marker=f"marker{uuid.uuid4().hex}")

    async def thing(self, name: str) -> Any:
        """Return one thing, made at the first question."""
        async with self._locks[name]:
            if name not in self.things:
                self.things[name] = await MAKERS[name](self)
        return self.things[name]

    def seen_by(self, other: World) -> World:
        """Return this world's things, to be named by another tenant's caller, whose own texts are in the requests."""
        return replace(self, marker=other.marker)

    async def owner(self) -> Account:
        result: Account = await self.thing("owner")
        return result

    def text(self, what: str = "") -> str:
        return f"{what}{self.marker}"


def _struct(**values: str) -> Struct:
    made = Struct()
    made.update(values)
    return made


async def _session(world: World) -> str:
    request = session_pb2.CreateSessionRequest(
        session=session_pb2.Session(session_id=f"session-{uuid.uuid4().hex}", title=world.text())
    )
    return (await world.tenant.sessions.CreateSession(request)).session.session_id


async def _message(world: World) -> str:
    request = session_pb2.AppendMessagesRequest(
        session_id=await world.thing("session_id"),
        messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=world.text("the kettle "))],
    )
    return (await world.tenant.sessions.AppendMessages(request)).messages[0].message_id


async def _memory(world: World) -> str:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=world.text("the kettle is red ")))
    return (await world.tenant.memory.CreateMemory(request)).memory.memory_id


async def _link(world: World) -> str:
    link = memory_pb2.Link(
        from_memory_id=await world.thing("memory_id"),
        to_memory_id=await world.thing("other_memory_id"),
        relation="related",
    )
    return (await world.tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))).link.link_id


async def _agent(world: World) -> str:
    agent = tenancy_pb2.Agent(agent_id=f"agent-{uuid.uuid4().hex}", display_name=world.text())
    return (await world.tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))).agent.agent_id


async def _tool(world: World) -> str:
    tool = subjects_pb2.Tool(tool_id=f"tool-{uuid.uuid4().hex}", name=world.text("tool "))
    return (await world.tenant.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=tool))).tool.tool_id


async def _subject(world: World) -> str:
    subject = subjects_pb2.Subject(
        subject_id=f"subject-{uuid.uuid4().hex}",
        display_name=world.text(),
        preferences=_struct(language="de", note=world.marker),
    )
    request = subjects_pb2.CreateSubjectRequest(subject=subject)
    return (await world.tenant.tenancy.CreateSubject(request)).subject.subject_id


async def _api_key(world: World) -> str:
    request = auth_pb2.CreateApiKeyRequest(display_name=world.text())
    return (await world.tenant.auth.CreateApiKey(request)).api_key.api_key_id


async def _service_account(world: World) -> str:
    account = accounts_pb2.ServiceAccount(display_name=world.text(), permissions=["memory.read"])
    request = accounts_pb2.CreateServiceAccountRequest(service_account=account)
    return (await world.tenant.auth.CreateServiceAccount(request)).service_account.service_account_id


async def _owner(world: World) -> Account:
    return await member(world.cluster, world.tenant, "owner")


async def _co_owner(world: World) -> Account:
    await world.thing("owner")
    return await member(world.cluster, world.tenant, "owner")


async def _member_id(world: World) -> str:
    await world.thing("owner")
    return (await member(world.cluster, world.tenant, "member")).account_id


async def _invitation(world: World) -> members_pb2.CreateInvitationResponse:
    request = members_pb2.CreateInvitationRequest(
        email=(await world.thing("stranger")).email, role=members_pb2.ROLE_MEMBER
    )
    return await world.tenant.tenancy.CreateInvitation(request)


async def _client(world: World) -> oauth_pb2.RegisterClientResponse:
    client = oauth_pb2.Client(client_name="a client", redirect_uris=[REDIRECT], token_endpoint_auth_method="none")
    client.grant_types.extend(["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"])
    stub = oauth_pb2_grpc.OAuthServiceStub(world.cluster.shared("auth"))
    return await stub.RegisterClient(oauth_pb2.RegisterClientRequest(client=client))


async def _handle(world: World) -> str:
    request = authorization({"client": await world.thing("client")}, world)
    stub = oauth_pb2_grpc.OAuthServiceStub(world.cluster.shared("auth"))
    return (await stub.CreateAuthorization(request)).prompt.handle


async def _user_code(world: World) -> str:
    request = device({"client": await world.thing("client")}, world)
    stub = oauth_pb2_grpc.OAuthServiceStub(world.cluster.shared("auth"))
    return (await stub.StartDeviceAuthorization(request)).user_code


async def _organization(world: World) -> str:
    organization = tenancy_pb2.Organization(display_name=world.text("organization "))
    request = tenancy_pb2.CreateOrganizationRequest(organization=organization)
    return (await world.cluster.operator.tenancy.CreateOrganization(request)).organization.organization_id


async def _sign_in_id(world: World) -> str:
    owner = await world.owner()
    listed = await owner.stubs.auth.ListAuthSessions(accounts_pb2.ListAuthSessionsRequest())
    return listed.auth_sessions[0].auth_session_id


async def _deleted(world: World) -> str:
    await world.cluster.operator.tenancy.DeleteTenant(
        tenancy_pb2.DeleteTenantRequest(tenant_id=str(world.tenant.tenant_id))
    )
    return str(world.tenant.tenant_id)


async def _due(world: World) -> str:
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=str(world.tenant.tenant_id), grace=Duration())
    await world.cluster.operator.tenancy.DeleteTenant(request)
    return str(world.tenant.tenant_id)


async def _deleted_memory(world: World) -> str:
    memory_id = await _memory(world)
    await world.tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
    return memory_id


async def _stranger(world: World) -> Account:
    return await new_account(world.cluster)


MAKERS: dict[str, Callable[[World], Awaitable[Any]]] = {
    "session_id": _session,
    "message_id": _message,
    "memory_id": _memory,
    "other_memory_id": _memory,
    "deleted_memory_id": _deleted_memory,
    "link_id": _link,
    "agent_id": _agent,
    "tool_id": _tool,
    "subject_id": _subject,
    "api_key_id": _api_key,
    "service_account_id": _service_account,
    "owner": _owner,
    "co_owner": _co_owner,
    "member_id": _member_id,
    "stranger": _stranger,
    "invitation": _invitation,
    "client": _client,
    "handle": _handle,
    "user_code": _user_code,
    "organization_id": _organization,
    "auth_session_id": _sign_in_id,
    "deleted": _deleted,
    "due": _due,
}


def authorization(things: dict[str, Any], world: World) -> oauth_pb2.CreateAuthorizationRequest:
    return oauth_pb2.CreateAuthorizationRequest(
        client_id=things["client"].client.client_id,
        redirect_uri=REDIRECT,
        response_type="code",
        scope="memory.read",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        state=world.marker,
    )


def device(things: dict[str, Any], _world: World) -> oauth_pb2.StartDeviceAuthorizationRequest:
    return oauth_pb2.StartDeviceAuthorizationRequest(
        client=oauth_pb2.ClientAuthentication(client_id=things["client"].client.client_id, method="none"),
        scope="memory.read",
    )


async def system_identity(cluster: Cluster, tenant_id: str = "") -> str:
    """Return a signed identity of the cluster's own services, acting in a tenant or in none."""
    credential = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")
    return await _exchanged(cluster, auth_pb2.ExchangeRequest(system=credential, tenant_id=tenant_id))


async def extractor_identity(cluster: Cluster, tenant_id: str) -> str:
    """Return a signed identity of an extractor of facts in a tenant."""
    credential = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker", extractor="rules@4")
    return await _exchanged(cluster, auth_pb2.ExchangeRequest(system=credential, tenant_id=tenant_id))


async def service_identity(cluster: Cluster, service: str, tenant_id: uuid.UUID | None) -> str:
    """Return what auth signs for one of the cluster's own services, which no credential is exchanged for."""
    url = cluster.postgres.url(user="postgres", database="skein")
    async with Database.open(url, service="auth", size=2, timeout=30.0) as database:
        caller = Caller(principal=f"system:{service}", tenant_id=tenant_id, permissions=SYSTEM_PERMISSIONS)
        return (
            await Keyring(SigningKeyStore(database), SecretCipher(SystemKeys.of(SYSTEM_KEY))).sign_identity(
                caller, at=time.time()
            )
        )[0]


async def identity(cluster: Cluster, credential: str, tenant_id: str = "") -> str:
    """Return the signed identity that a credential is exchanged for."""
    return await _exchanged(cluster, auth_pb2.ExchangeRequest(bearer=credential, tenant_id=tenant_id))


async def _exchanged(cluster: Cluster, request: auth_pb2.ExchangeRequest) -> str:
    return (await auth_pb2_grpc.AuthInternalServiceStub(cluster.shared("auth")).Exchange(request)).token


def stubs(channel: Any, credential: str, **metadata: str) -> Stubs:
    """Call through a channel with a credential, and perhaps with more metadata."""
    return Stubs.of(channel, credential, **metadata)
