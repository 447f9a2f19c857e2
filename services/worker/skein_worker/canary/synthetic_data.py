"""What each synthetic tenant has: one of each thing that a reading RPC could show, with its secret word in every text.

Whatever is there already is found again by its own id or in its list, so planting may be done at any time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.struct_pb2 import Struct, Value
from grpc import aio

from skein.auth.v1 import accounts_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, curation_pb2, memory_pb2, snapshots_pb2, watches_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message

    from skein_kit.canary import Canary
    from skein_worker.canary.gateway_client import GatewayClient

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
# Of the memories below.
_TYPES = ("note", "fact", "task", "objective", "knowledge_vault")


@dataclass(kw_only=True)
class SyntheticData:
    """What one tenant has, by name, and by which words it is known."""

    canary: Canary
    api_key: str = field(repr=False)
    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        """Return the id of a thing."""
        return self.ids[name]

    @property
    def word(self) -> str:
        """Return the word that its texts are found by."""
        return self.canary.word

    def text(self, what: str) -> str:
        """Return a text about something, with the word and the secret."""
        return f"{what} {self.canary.word} {self.canary.secret}"

    def own_id(self, what: str) -> str:
        """Return the id of a thing whose id may be chosen."""
        return f"{self.canary.slug}-{what}"

    def traces(self, request: bytes) -> list[bytes]:
        """Return what shows, in an answer to a request, that something of this tenant was read."""
        known = (self.canary.secret, str(self.canary.tenant_id), str(self.canary.account_id), *self.ids.values())
        return [trace for text in known if (trace := text.encode()) not in request]


class SyntheticDataWriter:
    """Plants, in one tenant, what is missing there."""

    def __init__(self, door: GatewayClient, things: SyntheticData) -> None:
        self._door = door
        self._things = things

    async def plant(self) -> None:
        """Make what is missing, and know the ids of all. Raises AioRpcError."""
        await self._plant_tenancy()
        await self._plant_sessions()
        await self._plant_memories()
        await self._plant_graph()
        await self._plant_rest()

    async def _plant_tenancy(self) -> None:
        things = self._things
        named: dict[str, Any] = {"display_name": things.text("the")}
        preferences = Struct()
        preferences.update({"note": things.canary.secret})
        await self._chosen(
            "agent",
            f"{TENANCY}CreateAgent",
            lambda id_: tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id=id_, **named)),
        )
        await self._chosen(
            "tool",
            f"{TENANCY}CreateTool",
            lambda id_: subjects_pb2.CreateToolRequest(tool=subjects_pb2.Tool(tool_id=id_, name=things.text("tool"))),
        )
        await self._chosen(
            "subject",
            f"{TENANCY}CreateSubject",
            lambda id_: subjects_pb2.CreateSubjectRequest(
                subject=subjects_pb2.Subject(subject_id=id_, preferences=preferences, **named)
            ),
        )
        await self._plant_policy()
        invited: dict[str, Any] = {
            "email": f"invited-{things.canary.secret}@canary.invalid",
            "role": members_pb2.ROLE_VIEWER,
        }
        await self._listed(
            "invitation",
            (f"{TENANCY}ListInvitations", members_pb2.ListInvitationsRequest(), "invitations"),
            (f"{TENANCY}CreateInvitation", members_pb2.CreateInvitationRequest(**invited)),
        )
        account = accounts_pb2.ServiceAccount(**named, permissions=["memory.read"])
        await self._listed(
            "service_account",
            (f"{AUTH}ListServiceAccounts", accounts_pb2.ListServiceAccountsRequest(), "service_accounts"),
            (f"{AUTH}CreateServiceAccount", accounts_pb2.CreateServiceAccountRequest(service_account=account)),
        )

    async def _plant_policy(self) -> None:
        """Accept the types that are planted, and one that is named by the secret word."""
        secret = self._things.canary.secret
        found = await self._door.call(f"{TENANCY}GetPolicy", subjects_pb2.GetPolicyRequest())
        if secret not in found.policy.memory_types:
            request = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(memory_types=[*_TYPES, secret]))
            request.update_mask.paths.append("memory_types")
            await self._door.call(f"{TENANCY}UpdatePolicy", request)

    async def _plant_sessions(self) -> None:
        things = self._things
        who: dict[str, Any] = {"agent_id": things["agent"], "subject_id": things["subject"]}
        await self._chosen(
            "session",
            f"{SESSIONS}CreateSession",
            lambda id_: session_pb2.CreateSessionRequest(
                session=session_pb2.Session(session_id=id_, title=things.text("title"), **who)
            ),
        )
        await self._message("message", "session", **who)
        state = states_pb2.AgentState(agent_id=things["agent"], session_id=things["session"])
        state.state_data.update({"thought": things.canary.secret})
        await self._door.call(f"{SESSIONS}PutAgentState", states_pb2.PutAgentStateRequest(state=state))
        things.ids["item"] = things.own_id("item")
        item = states_pb2.PutItemRequest(
            session_id=things["session"], key=things["item"], value=Value(string_value=things.canary.secret)
        )
        # It is written each time, so that the access log, which keeps no reads of ours, always has a line.
        await self._door.call(f"{SESSIONS}PutItem", item)
        await self._chosen(
            "stored_session",
            f"{SESSIONS}CreateSession",
            lambda id_: session_pb2.CreateSessionRequest(
                session=session_pb2.Session(session_id=id_, title=things.text("stored"))
            ),
        )
        stored = session_archives_pb2.ListStoredSessionsRequest()
        if not (await self._door.call(f"{SESSIONS}ListStoredSessions", stored)).sessions:
            name = {"session_id": things["stored_session"]}
            # Whoever was interrupted in the middle has archived it already.
            with _being_there(grpc.StatusCode.FAILED_PRECONDITION):
                await self._append("stored_message", "stored_session")
                await self._door.call(
                    f"{SESSIONS}ArchiveSession", session_pb2.ArchiveSessionRequest(session_id=name["session_id"])
                )
            await self._door.call(f"{SESSIONS}StoreSession", session_archives_pb2.StoreSessionRequest(**name))

    async def _message(self, what: str, session: str, **who: Any) -> None:
        await self._append(what, session, **who)
        known = session_pb2.GetMessageRequest(message_id=self._things.own_id(what))
        self._things.ids[what] = (await self._door.call(f"{SESSIONS}GetMessage", known)).message.message_id

    async def _append(self, what: str, session: str, **who: Any) -> None:
        things = self._things
        message = session_pb2.Message(
            external_id=things.own_id(what),
            role=session_pb2.MESSAGE_ROLE_USER,
            content=things.text("we spoke of"),
            **who,
        )
        request = session_pb2.AppendMessagesRequest(session_id=things[session], messages=[message])
        with _being_there():
            await self._door.call(f"{SESSIONS}AppendMessages", request)

    async def _plant_memories(self) -> None:
        things = self._things
        tagged: dict[str, Any] = {"tags": [things.canary.secret], "source": things.canary.secret, "confidence": 1.0}
        await self._memory("memory", **tagged)
        await self._listed(
            "snapshot",
            (f"{SNAPSHOTS}ListSnapshots", snapshots_pb2.ListSnapshotsRequest(), "snapshots"),
            (f"{SNAPSHOTS}CreateSnapshot", snapshots_pb2.CreateSnapshotRequest(label=things.text("label"))),
        )
        await self._memory("other_memory", **tagged)
        # Alike enough for a link to be suggested.
        await self._memory("alike", **tagged)
        await self._memory("alias")
        # Two facts whose keys differ in spaces alone are a conflict.
        for number, key in (("1", "colour"), ("2", "colour ")):
            await self._memory(f"fact_{number}", type="fact", key=f"{key} {things.canary.secret}", confidence=1.0)
        await self._memory("task", type="task")
        await self._memory("objective", type="objective")
        # A cluster without a master key keeps no secrets.
        with _being_there(grpc.StatusCode.FAILED_PRECONDITION):
            await self._memory("vault", type="knowledge_vault", secret_value=things.text("opens"))

    async def _plant_graph(self) -> None:
        things = self._things
        link = memory_pb2.Link(
            from_memory_id=things["memory"],
            to_memory_id=things["other_memory"],
            relation="related",
            label=things.canary.secret,
        )
        made = await self._door.call(f"{LINKS}UpsertLink", memory_pb2.UpsertLinkRequest(link=link))
        things.ids["link"] = made.link.link_id
        aliases = curation_pb2.ListAliasesRequest(memory_id=things["memory"])
        if not (await self._door.call(f"{CURATION}ListAliases", aliases)).aliases:
            await self._door.call(
                f"{CURATION}ResolveEntity",
                curation_pb2.ResolveEntityRequest(
                    alias_memory_id=things["alias"], canonical_memory_id=things["memory"], note=things.canary.secret
                ),
            )
        settled = curation_pb2.ListConflictResolutionsRequest()
        if not (await self._door.call(f"{CURATION}ListConflictResolutions", settled)).resolutions:
            await self._door.call(
                f"{CURATION}ResolveConflict",
                curation_pb2.ResolveConflictRequest(
                    a_memory_id=things["fact_1"],
                    b_memory_id=things["fact_2"],
                    status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW,
                    note=things.canary.secret,
                ),
            )
        things.ids["source"] = things.own_id("source")
        trust = curation_pb2.SetSourceTrustRequest(source=things["source"], trust=0.5, notes=things.canary.secret)
        await self._door.call(f"{CURATION}SetSourceTrust", trust)

    async def _plant_rest(self) -> None:
        things = self._things
        block: dict[str, Any] = {"label": "canary", "value": things.text("core")}
        await self._chosen(
            "block",
            f"{BLOCKS}CreateBlock",
            lambda id_: blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(block_id=id_, **block)),
        )
        revisions = blocks_pb2.ListBlockRevisionsRequest(block_id=things["block"])
        if not (await self._door.call(f"{BLOCKS}ListBlockRevisions", revisions)).revisions:
            more = blocks_pb2.AppendToBlockRequest(block_id=things["block"], text=things.text("more"))
            await self._door.call(f"{BLOCKS}AppendToBlock", more)
        attached = blocks_pb2.AttachBlockRequest(block_id=things["block"], agent_id=things["agent"])
        await self._door.call(f"{BLOCKS}AttachBlock", attached)
        # It is never told anything: what it waits for does not happen.
        watch = watches_pb2.Watch(
            display_name=things.text("watch"), event_types=["snapshot_restored"], webhook_url="https://canary.invalid/"
        )
        await self._listed(
            "watch",
            (f"{HISTORY}ListWatches", watches_pb2.ListWatchesRequest(), "watches"),
            (f"{HISTORY}CreateWatch", watches_pb2.CreateWatchRequest(watch=watch)),
        )
        if not (await self._door.call(f"{HISTORY}ListArchives", archives_pb2.ListArchivesRequest())).archives:
            old = memory_pb2.Memory(content=things.text("long ago"), session_id=things["session"])
            old.create_time.FromDatetime(_LONG_AGO)
            await self._door.call(f"{MEMORIES}CreateMemory", memory_pb2.CreateMemoryRequest(memory=old))
            request = archives_pb2.CreateArchiveRequest(session_id=things["session"], label=things.text("archive"))
            request.idle_since_time.FromDatetime(datetime.now(UTC) - timedelta(milliseconds=1))
            await self._door.call(f"{HISTORY}CreateArchive", request)

    async def _memory(self, what: str, **fields: Any) -> None:
        things = self._things
        known = memory_pb2.GetMemoryRequest(memory_id=things.own_id(what))
        try:
            found = await self._door.call(f"{MEMORIES}GetMemory", known)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            memory = memory_pb2.Memory(external_id=things.own_id(what), content=things.text(what), **fields)
            found = await self._door.call(f"{MEMORIES}CreateMemory", memory_pb2.CreateMemoryRequest(memory=memory))
        things.ids[what] = found.memory.memory_id

    async def _chosen(self, what: str, path: str, request: Callable[[str], Message]) -> None:
        """Make a thing whose id we choose, unless it is there."""
        things = self._things
        things.ids[what] = things.own_id(what)
        with _being_there():
            await self._door.call(path, request(things[what]))

    async def _listed(self, what: str, lists: tuple[str, Message, str], makes: tuple[str, Message]) -> None:
        """Find the one thing of a list, or make it."""
        path, request, name = lists
        found = getattr(await self._door.call(path, request), name)
        made = found[0] if found else getattr(await self._door.call(*makes), what)
        self._things.ids[what] = getattr(made, f"{what}_id")


@contextmanager
def _being_there(*codes: grpc.StatusCode) -> Iterator[None]:
    """Pass over a refusal of what is there already, and those with other codes that are named."""
    try:
        yield
    except aio.AioRpcError as error:
        if error.code() not in {grpc.StatusCode.ALREADY_EXISTS, *codes}:
            raise
