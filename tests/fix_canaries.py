"""Canaries: words that occur nowhere else, in every field of every entity about a person, and where they are found."""

from __future__ import annotations

import gzip
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fix_database import all_told
from fix_marker import files_with, places_of
from fix_world import system_identity
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, curation_pb2, memory_pb2, memory_pb2_grpc, snapshots_pb2
from skein.memory.v1 import webhooks_pb2 as hooks_pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.erasure_certificates import key_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from fix_cluster import Cluster, Stubs, Tenant
    from fix_marker import Connection
    from google.protobuf.message import Message

    Entity = TypeVar("Entity", bound=Message)

PERSON = "ann"
AGENT = "butler"
_LETTERS = "bcdfghjkmnpqrtvwxz"
_PREFIX_LETTERS, _NUMBER_LETTERS = 12, 4
# What the service writes itself, ids that name something else, names of kinds, and JSON beside its message.
_NO_WORDS = {
    "agent_id", "subject_id", "account_id", "created_by", "updated_by", "content_hash", "end_reason", "timezone",
    "template_name", "secret_value", "relation", "type", "message_id", "memory_id", "link_id", "from_memory_id",
    "to_memory_id", "writers",
}  # fmt: skip
# Attempts before the last one of a delivery.
_LAST_ATTEMPT = (
    "UPDATE memory.deliveries SET attempts = 11, next_time = now() WHERE tenant_id = $1 AND state = 'pending'"
)
# A destination that fails is left alone for a while, and then for good.
_NO_PAUSE = (
    "UPDATE memory.webhooks SET destination_failures = 0, failures = 0, retry_time = NULL, is_active = true,"
    " disable_time = NULL WHERE tenant_id = $1"
)
_DEAD = "SELECT count(*) FILTER (WHERE state = 'failed'), count(*) FROM memory.deliveries WHERE tenant_id = $1"


@dataclass
class Canaries:
    """The words of one person."""

    random: random.Random
    # All words begin with it, so that one scan finds each of them. Stemming leaves it as it is.
    prefix: str = ""
    planted: list[str] = field(default_factory=list)
    # Of all entities but the profile and those in cold storage; each round has two memories.
    rounds: int = 0

    @classmethod
    def of_seed(cls, seed: int) -> Canaries:
        source = random.Random(seed)
        return cls(source, "q" + "".join(source.choice(_LETTERS) for _ in range(_PREFIX_LETTERS)))

    def __next__(self) -> str:
        number = len(self.planted) + 1
        places = range(_NUMBER_LETTERS)
        self.planted.append(self.prefix + "".join(_LETTERS[(number // len(_LETTERS) ** at) % 18] for at in places))
        return self.planted[-1]

    def fill(self, entity: Entity, *omitted: str) -> Entity:
        """Put a word into every unset field of an entity that holds a text or a document."""
        for at in entity.DESCRIPTOR.fields:
            name = at.name
            is_set = (
                bool(getattr(entity, name)) if at.is_repeated else at.type == at.TYPE_STRING and getattr(entity, name)
            )
            if is_set or name in _NO_WORDS or name in omitted or name.endswith("_json"):
                continue
            if at.type == at.TYPE_STRING:
                getattr(entity, name).append(next(self)) if at.is_repeated else setattr(entity, name, next(self))
            elif at.message_type is Struct.DESCRIPTOR:
                getattr(entity, name).CopyFrom(self.struct())
            elif at.message_type is ListValue.DESCRIPTOR:
                getattr(entity, name).append(self.struct())
        return entity

    def struct(self) -> Struct:
        """Return a document with a word as a key and another as its value."""
        return json_format.ParseDict({next(self): next(self)}, Struct())

    async def plant_person(self, tenant: Tenant) -> None:
        """Plant words in the person's profile and in cold storage."""
        subject = self.fill(subjects_pb2.Subject(subject_id=PERSON))
        await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        renamed = self.fill(subjects_pb2.Subject(subject_id=PERSON))
        paths = ["display_name", "profile", "preferences"]
        await tenant.tenancy.UpdateSubject(
            subjects_pb2.UpdateSubjectRequest(subject=renamed, update_mask=FieldMask(paths=paths))
        )
        await self._archive(tenant)

    async def plant_until(self, tenant: Tenant, count: int) -> None:
        """Plant words until there are at least `count`, and make a snapshot."""
        while len(self.planted) < count:
            self.rounds += 1
            await self._plant(tenant, self.rounds)
        await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label=f"after {self.rounds}"))

    async def _plant(self, tenant: Tenant, number: int) -> None:
        """Put a word in every field of every entity about the person, and then another one in what can be changed."""
        session_id = await self._session(tenant, number)
        source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_PERSON, name=next(self))
        memories = [
            self.fill(
                memory_pb2.Memory(type="fact", subject_id=PERSON, session_id=session_id, derived_from=[source]),
            )
            for _ in range(2)
        ]
        created = await tenant.memory.BatchCreateMemories(
            memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=f"b {number}")
        )
        first, second = [memory.memory_id for memory in created.memories]
        changed = memory_pb2.Memory(memory_id=first, content=next(self), title=next(self))
        await tenant.memory.UpdateMemory(
            memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["content", "title"]))
        )
        link = self.fill(memory_pb2.Link(from_memory_id=first, to_memory_id=second))
        made = await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
        relabelled = memory_pb2.Link(link_id=made.link.link_id, label=next(self))
        await tenant.links.UpdateLink(
            memory_pb2.UpdateLinkRequest(link=relabelled, update_mask=FieldMask(paths=["label"]))
        )
        await tenant.curation.ResolveEntity(
            curation_pb2.ResolveEntityRequest(alias_memory_id=first, canonical_memory_id=second, note=next(self))
        )
        await tenant.curation.ResolveConflict(
            curation_pb2.ResolveConflictRequest(
                a_memory_id=first, b_memory_id=second, status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW, note=next(self)
            )
        )
        block = self.fill(blocks_pb2.Block(block_id=f"b {number}", label=f"human {number}", subject_id=PERSON))
        await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id=AGENT))
        await tenant.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id=block.block_id, text=next(self)))

    async def _session(self, tenant: Tenant, number: int) -> str:
        session = self.fill(session_pb2.Session(subject_id=PERSON, agent_id=AGENT))
        await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
        renamed = session_pb2.Session(session_id=session.session_id, title=next(self), summary=next(self))
        await tenant.sessions.UpdateSession(
            session_pb2.UpdateSessionRequest(session=renamed, update_mask=FieldMask(paths=["title", "summary"]))
        )
        message = self.fill(
            session_pb2.Message(
                role=session_pb2.MESSAGE_ROLE_USER, subject_id=PERSON, session_id=session.session_id
            )
        )  # fmt: skip
        appended = await tenant.sessions.AppendMessages(
            session_pb2.AppendMessagesRequest(
                session_id=session.session_id, messages=[message], request_id=f"m {number}"
            )
        )
        corrected = session_pb2.Message(message_id=appended.messages[0].message_id, content=next(self))
        await tenant.sessions.UpdateMessage(
            session_pb2.UpdateMessageRequest(message=corrected, update_mask=FieldMask(paths=["content"]))
        )
        item = states_pb2.PutSessionItemRequest(
            session_id=session.session_id, key=next(self), value=Value(string_value=next(self))
        )
        await tenant.sessions.PutSessionItem(item)
        state = self.fill(states_pb2.AgentState(agent_id=AGENT, session_id=session.session_id))
        await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
        return session.session_id

    async def _archive(self, tenant: Tenant) -> None:
        """Put a memory and a session into cold storage."""
        memory = self.fill(memory_pb2.Memory(subject_id=PERSON, type="fact"))
        memory.create_time.FromJsonString("2020-01-01T00:00:00Z")
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
        request = archives_pb2.ArchiveMemoriesRequest(session_id=memory.session_id)
        request.idle_since_time.GetCurrentTime()
        assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1
        session_id = await self._session(tenant, 0)
        await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id=session_id))
        await tenant.sessions.ArchiveSession(session_archives_pb2.ArchiveSessionRequest(session_id=session_id))

    async def found(self, connection: Connection, cluster: Cluster) -> set[str]:
        """Return the words that the database and the files of cold storage hold."""
        pattern = f"{self.prefix}[{_LETTERS}]{{{_NUMBER_LETTERS}}}"
        results: set[str] = set()
        for table in {place.rpartition(".")[0] for place in await places_of(connection, self.prefix)}:
            rows = await connection.fetch(
                f"SELECT DISTINCT (regexp_matches(row::text, $1, 'g'))[1] FROM {table} AS row",  # noqa: S608 - of the catalog.
                pattern,
            )
            results.update(row[0] for row in rows)
        for file in files_with(cluster, self.prefix):
            results.update(re.findall(pattern, gzip.decompress(Path(file).read_bytes()).decode()))
        return results

    async def answers(self, tenant: Tenant, word: str) -> list[str]:
        """Return what every search answers for a word."""
        recalled = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=word))
        hits = await tenant.recall.Recall(recall_pb2.RecallRequest(query=f"about {word}"))
        messages = await tenant.sessions.SearchMessages(session_pb2.SearchMessagesRequest(query=word))
        sessions = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(subject_id=PERSON))
        return [str(recalled.hits), str(hits), str(messages), str(sessions)]


@dataclass
class Exports:
    """Exports of the tenant and of the person, each of which has given its first page."""

    tenant: Tenant
    first: str
    _requests: list[tuple[Any, Any]]

    @classmethod
    async def begin(cls, tenant: Tenant) -> Exports:
        selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id=PERSON))
        calls: list[tuple[Any, Any]] = [
            (tenant.snapshots.ExportData, snapshots_pb2.ExportDataRequest(page_size=2)),
            (tenant.memory.ExportMemories, memory_pb2.ExportMemoriesRequest(selection=selection, page_size=1)),
            (tenant.sessions.ExportSubject, session_pb2.ExportSubjectRequest(subject_id=PERSON, page_size=1)),
        ]
        text = ""
        for call, request in calls:
            response = await call(request)
            text += str(response)
            request.page_token = response.next_page_token
        return cls(tenant, text, calls)

    @property
    def are_in_progress(self) -> bool:
        return all(request.page_token for _call, request in self._requests)

    async def rest(self) -> AsyncIterator[str]:
        """Yield the other pages."""
        for call, request in self._requests:
            while request.page_token:
                response = await call(request)
                yield str(response)
                request.page_token = response.next_page_token


@dataclass
class DeadLetters:
    """A webhook whose deliveries have used up their attempts."""

    cluster: Cluster
    tenant: Tenant
    webhook_id: str

    @classmethod
    async def listening(cls, cluster: Cluster, tenant: Tenant, url: str) -> DeadLetters:
        """Create a webhook for all events of the tenant."""
        webhook = hooks_pb.Webhook(display_name="till", event_types=["*"], webhook_url=url)
        created = await tenant.history.CreateWebhook(hooks_pb.CreateWebhookRequest(webhook=webhook))
        return cls(cluster, tenant, created.webhook.webhook_id)

    async def die(self, connection: Connection) -> int:
        """Attempt all deliveries for the last time; return how many are dead."""
        while True:
            await self._attempt(connection)
            dead, known = await self._count(connection)
            if dead and dead == known:
                return dead

    async def retry(self, connection: Connection) -> list[str]:
        """Try the dead ones again, and return what a caller sees of them."""
        seen, request = [], hooks_pb.ListWebhookDeliveriesRequest(webhook_id=self.webhook_id, page_size=1000)
        while True:
            response = await self.tenant.history.ListWebhookDeliveries(request)
            seen.append(str(response))
            for delivery in response.deliveries:
                if delivery.state == hooks_pb.DELIVERY_STATE_FAILED:
                    retry = hooks_pb.RetryWebhookDeliveryRequest(delivery_id=delivery.delivery_id)
                    seen.append(str(await self.tenant.history.RetryWebhookDelivery(retry)))
            request.page_token = response.next_page_token
            if not request.page_token:
                break
        pending = True
        while pending:
            await self._attempt(connection)
            pending = await connection.fetchval(
                "SELECT EXISTS (SELECT FROM memory.deliveries WHERE tenant_id = $1 AND state = 'pending')",
                self.tenant.tenant_id,
            )
        return seen

    async def _count(self, connection: Connection) -> tuple[int, int]:
        row = await connection.fetchrow(_DEAD, self.tenant.tenant_id)
        assert row is not None
        return row[0], row[1]

    async def _attempt(self, connection: Connection) -> None:
        await all_told(self.cluster.postgres)
        await connection.execute(_LAST_ATTEMPT, self.tenant.tenant_id)
        await connection.execute(_NO_PAUSE, self.tenant.tenant_id)
        identity = await system_identity(self.cluster, str(self.tenant.tenant_id))
        async with self.cluster.direct("memory") as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            headers = (("authorization", f"Bearer {identity}"),)
            await stub.DeliverWebhooks(memory_pb2.DeliverWebhooksRequest(), metadata=headers)


async def published_keys(stubs: Stubs) -> dict[str, Ed25519PublicKey]:
    """Return the published keys of certificates."""
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await stubs.auth.ListSigningKeys(request)).signing_keys
    return key_set.read(key_set.write(key.jwk for key in published))
