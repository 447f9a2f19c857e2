"""Repeats purges from after the point in time that a database was restored to, before it can be read.

The services run in this process without a port, so that purges remove the same as always.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio
from joserfc.jwk import OKPKey

from skein.memory.v1 import blocks_pb2, blocks_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.session.v1 import session_pb2_grpc, states_pb2
from skein_cluster import registry
from skein_cluster.backup import deletion_statements, purged_items
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_kit.calls.call import Call, as_current_call
from skein_kit.host.process import Host, run_services
from skein_kit.identity import permissions
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.identity.spaces import DEFAULT_SPACE, WRITER
from skein_kit.settings import ProcessSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    import asyncpg
    from google.protobuf.message import Message

    from skein_cluster.backup.deletions import Deletions, NewTombstones
    from skein_cluster.backup.purged_items import PurgedItems

    Connection = asyncpg.Connection[Any]

_SERVICES = ("session", "memory")
_CALL_SECONDS = 120.0
_MEMORIES_AT_ONCE = 200
_MESSAGES_AT_ONCE = 1000
_PRINCIPAL = "system:restore"


async def replay_purges(
    connection: Connection,
    url: str,
    environment: Mapping[str, str],
    *,
    deletions: Deletions,
    new_tombstones: NewTombstones,
) -> dict[str, int]:
    """Repeat purges, deletions and revocations; return the number of each kind.

    `url` is the database, which has no other users. Raises CommandError when something is left in the end.
    """
    counts: Counter[str] = Counter()
    purged_tenants = await deletion_statements.purge_tenants(connection, deletions)
    counts["tenants"] = len(purged_tenants)
    counts["accounts"] = await deletion_statements.purge_accounts(connection, deletions)
    counts["revocations"] = await deletion_statements.revoke_access(connection, deletions)
    await deletion_statements.insert_tombstones(connection, deletions)
    await deletion_statements.insert_certificates(connection, deletions)
    tenant_items = await purged_items.find_purged(connection, new_tombstones)
    for items in tenant_items:
        counts.update(items.counts)
    if any(sum(items.counts.values()) for items in tenant_items):
        async with _services(url, environment) as purging:
            for items in tenant_items:
                await purging.tenant(items)
    for items in tenant_items:
        missing_subjects = set(items.directory) - deletions.subjects.get(items.tenant_id, set())
        await deletion_statements.purge_subjects(connection, items.tenant_id, missing_subjects)
        counts["people"] += len(missing_subjects)
    remaining = [
        items for items in await purged_items.find_purged(connection, new_tombstones) if sum(items.counts.values())
    ]
    if remaining:
        raise CommandError(
            f"Rows that were purged after that time remain in {len(remaining)} tenants: nothing was restored.",
            ExitCode.FAULT,
        )
    return {kind: count for kind, count in counts.items() if count}


class _ServicePurge:
    """Purges through the services, tenant by tenant, as the system principal."""

    def __init__(self, host: Host, key: OKPKey) -> None:
        self._key = key
        self._memory = memory_pb2_grpc.MemoryServiceStub(host.channel("memory"))
        self._blocks = blocks_pb2_grpc.BlockServiceStub(host.channel("memory"))
        self._session = session_pb2_grpc.SessionServiceStub(host.channel("session"))

    async def tenant(self, items: PurgedItems) -> None:
        """Purge items of a space; those that another purge removed are skipped."""
        place = (items.tenant_id, items.space_id)
        for session_id in items.session_ids:
            of_session = states_pb2.PurgeSessionRequest(session_id=session_id)
            await self._all(place, self._session.PurgeSession, of_session)
        for subject_id in items.session_subjects:
            of_subject = states_pb2.PurgeSubjectRequest(subject_id=subject_id)
            await self._all(place, self._session.PurgeSubject, of_subject)
        with self._acting(*place):
            for part in _parts(items.message_ids, _MESSAGES_AT_ONCE):
                await self._session.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=part))
            for block_id in items.block_ids:
                # The service may have deleted the block already.
                with _unless(grpc.StatusCode.NOT_FOUND):
                    await self._blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id=block_id))
                await self._blocks.PurgeBlock(blocks_pb2.PurgeBlockRequest(block_id=block_id))
        # People come first: only the purge of a person clears the sessions of its memories from the access log.
        for subject_id in items.memory_subjects:
            memory_filter = memory_pb2.MemoryFilter(subject_id=subject_id)
            await self._memories(place, memory_pb2.MemorySelection(filter=memory_filter))
        for part in _parts(items.memory_ids, _MEMORIES_AT_ONCE):
            await self._memories(place, memory_pb2.MemorySelection(memory_ids=part))

    async def _all(self, place: tuple[UUID, UUID], purge: Callable[..., Awaitable[Any]], request: Message) -> None:
        """Purge a session or person by repeated calls until no rows are left."""
        more = True
        while more:
            with self._acting(*place):
                more = (await purge(request)).receipt.more

    async def _memories(self, place: tuple[UUID, UUID], selection: memory_pb2.MemorySelection) -> None:
        """Purge a selection page by page, in cold storage too."""
        request = memory_pb2.PurgeMemoriesRequest(selection=selection, page_size=_MEMORIES_AT_ONCE)
        while True:
            with self._acting(*place):
                response = await self._memory.PurgeMemories(request)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    @contextmanager
    def _acting(self, tenant_id: UUID, space_id: UUID) -> Iterator[None]:
        """Act in a space of a tenant during the block, for at most two minutes."""
        deadline = asyncio.get_running_loop().time() + _CALL_SECONDS
        call = Call(path="restore", metadata={}, deadline=deadline, peer="restore")
        caller = Caller(
            principal=_PRINCIPAL,
            tenant_id=tenant_id,
            permissions=permissions.TENANT_PERMISSIONS,
            spaces=None if space_id == DEFAULT_SPACE else ((space_id, WRITER),),
        )
        with as_current_call(call):
            call.identity_token, _ = sign_identity_token(caller, key=self._key, at=time.time())
            yield


@asynccontextmanager
async def _services(url: str, environment: Mapping[str, str]) -> AsyncIterator[_ServicePurge]:
    """Run the services that purge, with a system key that exists in this process alone."""
    key = OKPKey.generate_key("Ed25519", {"kid": "restore"}, private=True)

    async def public_keys() -> dict[str, str]:
        return {"restore": json.dumps(key.as_dict(private=False))}

    values = {**environment, "SKEIN_DATABASE_URL": url, "SKEIN_ADMIN_PORT": "0"}
    for name in ("SKEIN_DATABASE_DIRECT_URL", "SKEIN_DATABASE_POOLED"):
        values.pop(name, None)
    host = Host(
        settings=ProcessSettings.read(values),
        environment=values,
        schema_version=registry.migrations()[-1].number,
        addresses={},
        is_repairing=True,
        _verifier=IdentityTokenVerifier(public_keys),
    )
    services = [dataclasses.replace(service, port=None) for service in registry.load(_SERVICES)]
    async with run_services(services, host):
        yield _ServicePurge(host, key)


@contextmanager
def _unless(code: grpc.StatusCode) -> Iterator[None]:
    try:
        yield
    except aio.AioRpcError as error:
        if error.code() is not code:
            raise


def _parts(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
