"""The data of the synthetic tenants: a row of each kind that an RPC could show, with a secret word in every text.

A write finds existing rows by their ids or in their lists, so it may be repeated at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value
from grpc import aio

from skein.auth.v1 import accounts_pb2, certificates_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, curation_pb2, memory_pb2, pages_pb2, snapshots_pb2, webhooks_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import members_pb2, spaces_pb2, subjects_pb2, tenancy_pb2
from skein_kit.calls.call import AUTHORIZATION_KEY
from skein_kit.canary import CanaryTenant

_CALL_SECONDS = 10.0
# A stream that sends nothing for this long has sent all stored messages, and is cancelled.
_SILENCE_SECONDS = 0.25
_MAX_MESSAGES = 20


class GatewayClient:
    """Calls the gateway with the API key of one tenant."""

    def __init__(self, channel: aio.Channel, key: str) -> None:
        self._channel: Any = channel
        self._metadata = {AUTHORIZATION_KEY: f"Bearer {key}"}

    async def call(self, path: str, request: Message) -> Any:
        """Return the response; the first responses of a stream are merged into one. Raises AioRpcError."""
        method = method_of(path)
        response_class = message_factory.GetMessageClass(method.output_type)
        stub_factory = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        stub = stub_factory(
            path, request_serializer=type(request).SerializeToString, response_deserializer=response_class.FromString
        )
        call = stub(request, timeout=_CALL_SECONDS, metadata=self._metadata)
        return await (_merge_first(call, response_class()) if method.server_streaming else call)


def method_of(path: str) -> MethodDescriptor:
    """Return the descriptor of an RPC by its path."""
    service, _, name = path.removeprefix("/").partition("/")
    method: MethodDescriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return method


async def _merge_first(stream: Any, merged_response: Message) -> Message:
    async with aclosing(stream) as messages:
        for number in range(_MAX_MESSAGES):
            try:
                # Until the first message only the deadline of the call counts.
                async with asyncio.timeout(_SILENCE_SECONDS if number else None):
                    merged_response.MergeFrom(await anext(messages))
            except (TimeoutError, StopAsyncIteration):
                break
    return merged_response


AUTH = "/skein.auth.v1.AuthService/"
TENANCY = "/skein.tenancy.v1.TenancyService/"
SESSIONS = "/skein.session.v1.SessionService/"
MEMORIES = "/skein.memory.v1.MemoryService/"
LINKS = "/skein.memory.v1.LinkService/"
BLOCKS = "/skein.memory.v1.BlockService/"
CURATION = "/skein.memory.v1.CurationService/"
HISTORY = "/skein.memory.v1.HistoryService/"
SNAPSHOTS = "/skein.memory.v1.SnapshotService/"
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
# The types of the memories below.
_TYPES = ("note", "fact", "task", "objective", "knowledge_vault")


@dataclass(kw_only=True)
class SyntheticData:
    """The ids of one tenant's rows by name, and the words in its texts."""

    canary: CanaryTenant
    api_key: str = field(repr=False)
    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        """Return the id of a row."""
        return self.ids[name]

    @property
    def word(self) -> str:
        """The word by which its texts are searched."""
        return self.canary.word

    def text(self, topic: str) -> str:
        """Return a text with the topic, the word and the secret."""
        return f"{topic} {self.canary.word} {self.canary.secret}"

    def external_id(self, name: str) -> str:
        """Return the id of a row whose id the caller chooses."""
        return f"{self.canary.slug}-{name}"

    def marks(self, request: bytes) -> list[bytes]:
        """Return texts that identify this tenant's data in a response, without those that the request contains."""
        # Two spaces have one tenant.
        tenant = () if self.canary.space else (str(self.canary.tenant_id), str(self.canary.account_id))
        texts = (self.canary.secret, *tenant, *self.ids.values())
        return [mark for text in texts if (mark := text.encode()) not in request]


class SyntheticDataWriter:
    """Writes the missing rows of one tenant."""

    def __init__(self, gateway: GatewayClient, data: SyntheticData) -> None:
        self._gateway = gateway
        self._data = data

    async def write(self) -> None:
        """Write the missing rows, and set the ids of all; in a space those that lie there. Raises AioRpcError."""
        if self._data.canary.space:
            await self._write_space()
            return
        await self._write_tenancy()
        await self._write_sessions()
        await self._write_memories()
        await self._write_graph()
        await self._write_blocks_webhooks_and_archives()

    async def _write_space(self) -> None:
        data = self._data
        # NOT_FOUND until the space is open: before, the tenant has no spaces for identities in use.
        await self._gateway.call(f"{TENANCY}GetSpace", spaces_pb2.GetSpaceRequest(space_id=data["space"]))
        # Conditions of searches name them; there are no such rows.
        data.ids |= {name: data.external_id(name) for name in ("agent", "subject")}
        for name in ("memory", "other_memory"):
            await self._memory(name, tags=[data.canary.secret], confidence=1.0)
        await self._write_facts()
        await self._memory("task", type="task")
        await self._memory("objective", type="objective")
        await self._write_link()

    async def _write_tenancy(self) -> None:
        data = self._data
        display_name: dict[str, Any] = {"display_name": data.text("the")}
        preferences = Struct()
        preferences.update({"note": data.canary.secret})
        await self._create_with_id(
            "agent",
            f"{TENANCY}CreateAgent",
            lambda id_: tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id=id_, **display_name)),
        )
        await self._create_with_id(
            "tool",
            f"{TENANCY}CreateTool",
            lambda id_: subjects_pb2.CreateToolRequest(tool=subjects_pb2.Tool(tool_id=id_, name=data.text("tool"))),
        )
        await self._create_with_id(
            "subject",
            f"{TENANCY}CreateSubject",
            lambda id_: subjects_pb2.CreateSubjectRequest(
                subject=subjects_pb2.Subject(subject_id=id_, preferences=preferences, **display_name)
            ),
        )
        await self._find_or_create(
            "space",
            (f"{TENANCY}ListSpaces", spaces_pb2.ListSpacesRequest(), "spaces"),
            (
                f"{TENANCY}CreateSpace",
                spaces_pb2.CreateSpaceRequest(space=spaces_pb2.Space(display_name=data.text("space"))),
            ),
        )
        await self._write_policy()
        invitation: dict[str, Any] = {
            "email": f"invited-{data.canary.secret}@canary.invalid",
            "role": members_pb2.ROLE_VIEWER,
        }
        await self._find_or_create(
            "invitation",
            (f"{TENANCY}ListInvitations", members_pb2.ListInvitationsRequest(), "invitations"),
            (f"{TENANCY}CreateInvitation", members_pb2.CreateInvitationRequest(**invitation)),
        )
        account = accounts_pb2.ServiceAccount(**display_name, permissions=["memory.read"])
        await self._find_or_create(
            "service_account",
            (f"{AUTH}ListServiceAccounts", accounts_pb2.ListServiceAccountsRequest(), "service_accounts"),
            (f"{AUTH}CreateServiceAccount", accounts_pb2.CreateServiceAccountRequest(service_account=account)),
        )

    async def _write_policy(self) -> None:
        """Allow the types of the memories, and one whose name is the secret."""
        secret = self._data.canary.secret
        response = await self._gateway.call(f"{TENANCY}GetPolicy", subjects_pb2.GetPolicyRequest())
        if secret not in response.policy.memory_types:
            request = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(memory_types=[*_TYPES, secret]))
            request.update_mask.paths.append("memory_types")
            await self._gateway.call(f"{TENANCY}UpdatePolicy", request)

    async def _write_sessions(self) -> None:
        data = self._data
        participants: dict[str, Any] = {"agent_id": data["agent"], "subject_id": data["subject"]}
        await self._create_with_id(
            "session",
            f"{SESSIONS}CreateSession",
            lambda id_: session_pb2.CreateSessionRequest(
                session=session_pb2.Session(session_id=id_, title=data.text("title"), **participants)
            ),
        )
        await self._message("message", "session", **participants)
        state = states_pb2.AgentState(agent_id=data["agent"], session_id=data["session"])
        state.state_data.update({"thought": data.canary.secret})
        await self._gateway.call(f"{SESSIONS}PutAgentState", states_pb2.PutAgentStateRequest(state=state))
        data.ids["item"] = data.external_id("item")
        item = states_pb2.PutSessionItemRequest(
            session_id=data["session"], key=data["item"], value=Value(string_value=data.canary.secret)
        )
        # Written in every round, so that the access log, which has no reads of the canary, gets a row.
        await self._gateway.call(f"{SESSIONS}PutSessionItem", item)
        await self._create_with_id(
            "stored_session",
            f"{SESSIONS}CreateSession",
            lambda id_: session_pb2.CreateSessionRequest(
                session=session_pb2.Session(session_id=id_, title=data.text("stored"))
            ),
        )
        list_request = session_archives_pb2.ListArchivedSessionsRequest()
        if not (await self._gateway.call(f"{SESSIONS}ListArchivedSessions", list_request)).sessions:
            # An interrupted write has hidden the session already.
            with _ignore_existing(grpc.StatusCode.FAILED_PRECONDITION):
                await self._append("stored_message", "stored_session")
                await self._gateway.call(
                    f"{SESSIONS}HideSession", session_pb2.HideSessionRequest(session_id=data["stored_session"])
                )
            await self._gateway.call(
                f"{SESSIONS}ArchiveSession",
                session_archives_pb2.ArchiveSessionRequest(session_id=data["stored_session"]),
            )

    async def _message(self, name: str, session: str, **participants: Any) -> None:
        await self._append(name, session, **participants)
        request = session_pb2.GetMessageRequest(message_id=self._data.external_id(name))
        self._data.ids[name] = (await self._gateway.call(f"{SESSIONS}GetMessage", request)).message.message_id

    async def _append(self, name: str, session: str, **participants: Any) -> None:
        data = self._data
        message = session_pb2.Message(
            external_id=data.external_id(name),
            role=session_pb2.MESSAGE_ROLE_USER,
            content=data.text("we spoke of"),
            **participants,
        )
        request = session_pb2.AppendMessagesRequest(session_id=data[session], messages=[message])
        with _ignore_existing():
            await self._gateway.call(f"{SESSIONS}AppendMessages", request)

    async def _write_memories(self) -> None:
        data = self._data
        secret_fields: dict[str, Any] = {"tags": [data.canary.secret], "source": data.canary.secret, "confidence": 1.0}
        await self._memory("memory", **secret_fields)
        await self._find_or_create(
            "snapshot",
            (f"{SNAPSHOTS}ListSnapshots", snapshots_pb2.ListSnapshotsRequest(), "snapshots"),
            (f"{SNAPSHOTS}CreateSnapshot", snapshots_pb2.CreateSnapshotRequest(label=data.text("label"))),
        )
        await self._memory("other_memory", **secret_fields)
        # Similar enough for a suggested link.
        await self._memory("alike", **secret_fields)
        await self._memory("alias")
        await self._write_facts()
        await self._memory("task", type="task")
        await self._memory("objective", type="objective")
        # A cluster without a master key stores no secrets.
        with _ignore_existing(grpc.StatusCode.FAILED_PRECONDITION):
            await self._memory("vault", type="knowledge_vault", secret_value=data.text("opens"))
        await self._write_certificate()

    async def _write_facts(self) -> None:
        # Facts whose keys differ only in spaces are a conflict.
        for number, key in (("1", "colour"), ("2", "colour ")):
            secret = self._data.canary.secret
            await self._memory(f"fact_{number}", type="fact", key=f"{key} {secret}", confidence=1.0)

    async def _write_certificate(self) -> None:
        """Purge a memory, unless one was purged before: a purge ends in a certificate."""
        data = self._data
        list_request = certificates_pb2.ListErasureCertificatesRequest()
        response = await self._gateway.call(f"{AUTH}ListErasureCertificates", list_request)
        if response.certificates:
            data.ids["certificate"] = response.certificates[0].certificate_id
            return
        await self._memory("purged")
        selection = memory_pb2.MemorySelection(memory_ids=[data.ids.pop("purged")])
        request = memory_pb2.PurgeMemoriesRequest(selection=selection)
        data.ids["certificate"] = (await self._gateway.call(f"{MEMORIES}PurgeMemories", request)).certificate_id

    async def _write_link(self) -> None:
        data = self._data
        link = memory_pb2.Link(
            from_memory_id=data["memory"],
            to_memory_id=data["other_memory"],
            relation="related",
            label=data.canary.secret,
        )
        response = await self._gateway.call(f"{LINKS}UpsertLink", memory_pb2.UpsertLinkRequest(link=link))
        data.ids["link"] = response.link.link_id

    async def _write_graph(self) -> None:
        data = self._data
        await self._write_link()
        aliases = curation_pb2.ListAliasesRequest(memory_id=data["memory"])
        if not (await self._gateway.call(f"{CURATION}ListAliases", aliases)).aliases:
            await self._gateway.call(
                f"{CURATION}ResolveEntity",
                curation_pb2.ResolveEntityRequest(
                    alias_memory_id=data["alias"], canonical_memory_id=data["memory"], note=data.canary.secret
                ),
            )
        resolutions = curation_pb2.ListConflictResolutionsRequest()
        if not (await self._gateway.call(f"{CURATION}ListConflictResolutions", resolutions)).resolutions:
            await self._gateway.call(
                f"{CURATION}ResolveConflict",
                curation_pb2.ResolveConflictRequest(
                    a_memory_id=data["fact_1"],
                    b_memory_id=data["fact_2"],
                    status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW,
                    note=data.canary.secret,
                ),
            )
        page = pages_pb2.Page(title=data.text("page"), entity_memory_id=data["memory"])
        await self._find_or_create(
            "page",
            (f"{CURATION}ListPages", pages_pb2.ListPagesRequest(), "pages"),
            (f"{CURATION}CreatePage", pages_pb2.CreatePageRequest(page=page)),
        )
        data.ids["source"] = data.external_id("source")
        trust = curation_pb2.SetSourceTrustRequest(source=data["source"], trust=0.5, notes=data.canary.secret)
        await self._gateway.call(f"{CURATION}SetSourceTrust", trust)

    async def _write_blocks_webhooks_and_archives(self) -> None:
        data = self._data
        block: dict[str, Any] = {"label": "canary", "value": data.text("core")}
        await self._create_with_id(
            "block",
            f"{BLOCKS}CreateBlock",
            lambda id_: blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(block_id=id_, **block)),
        )
        revisions = blocks_pb2.ListBlockRevisionsRequest(block_id=data["block"])
        if not (await self._gateway.call(f"{BLOCKS}ListBlockRevisions", revisions)).revisions:
            append_request = blocks_pb2.AppendToBlockRequest(block_id=data["block"], text=data.text("more"))
            await self._gateway.call(f"{BLOCKS}AppendToBlock", append_request)
        attachment = blocks_pb2.AttachBlockRequest(block_id=data["block"], agent_id=data["agent"])
        await self._gateway.call(f"{BLOCKS}AttachBlock", attachment)
        # It has no deliveries, because this event does not happen.
        webhook = webhooks_pb2.Webhook(
            display_name=data.text("webhook"), event_types=["snapshot_restored"], webhook_url="https://canary.invalid/"
        )
        await self._find_or_create(
            "webhook",
            (f"{HISTORY}ListWebhooks", webhooks_pb2.ListWebhooksRequest(), "webhooks"),
            (f"{HISTORY}CreateWebhook", webhooks_pb2.CreateWebhookRequest(webhook=webhook)),
        )
        if not (await self._gateway.call(f"{HISTORY}ListArchives", archives_pb2.ListArchivesRequest())).archives:
            old = memory_pb2.Memory(content=data.text("long ago"), session_id=data["session"])
            old.create_time.FromDatetime(_LONG_AGO)
            await self._gateway.call(f"{MEMORIES}CreateMemory", memory_pb2.CreateMemoryRequest(memory=old))
            request = archives_pb2.ArchiveMemoriesRequest(session_id=data["session"], label=data.text("archive"))
            request.idle_since_time.FromDatetime(datetime.now(UTC) - timedelta(milliseconds=1))
            await self._gateway.call(f"{HISTORY}ArchiveMemories", request)

    async def _memory(self, name: str, **fields: Any) -> None:
        data = self._data
        request = memory_pb2.GetMemoryRequest(memory_id=data.external_id(name))
        try:
            response = await self._gateway.call(f"{MEMORIES}GetMemory", request)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            memory = memory_pb2.Memory(external_id=data.external_id(name), content=data.text(name), **fields)
            response = await self._gateway.call(
                f"{MEMORIES}CreateMemory", memory_pb2.CreateMemoryRequest(memory=memory)
            )
        data.ids[name] = response.memory.memory_id

    async def _create_with_id(self, name: str, path: str, request: Callable[[str], Message]) -> None:
        """Create a row with a chosen id, unless it exists."""
        data = self._data
        data.ids[name] = data.external_id(name)
        with _ignore_existing():
            await self._gateway.call(path, request(data[name]))

    async def _find_or_create(
        self, name: str, list_call: tuple[str, Message, str], create_call: tuple[str, Message]
    ) -> None:
        """Find the only row of a list, or create it."""
        path, request, field = list_call
        rows = getattr(await self._gateway.call(path, request), field)
        row = rows[0] if rows else getattr(await self._gateway.call(*create_call), name)
        self._data.ids[name] = getattr(row, f"{name}_id")


@contextmanager
def _ignore_existing(*codes: grpc.StatusCode) -> Iterator[None]:
    """Ignore errors with these codes and ALREADY_EXISTS."""
    try:
        yield
    except aio.AioRpcError as error:
        if error.code() not in {grpc.StatusCode.ALREADY_EXISTS, *codes}:
            raise
