"""A drill: a cluster that is backed up, goes on, is harmed by a mistake, and is brought back to the moment before it.

Meanwhile things were purged for good, each with a marker of its own. A restore may bring none of them back.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import asyncpg
from fix_accounts import PASSWORD, Account, member
from fix_cluster import AuthorizedChannel, Cluster, Tenant, test_environment
from fix_command import erase
from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct

from skein.auth.v1 import accounts_pb2, auth_pb2, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, memory_pb2, snapshots_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2
from skein_cluster.backup import base_backup
from skein_cluster.backup import restore as restoring
from skein_cluster.backup.repository import Backup, BackupRepository
from skein_cluster.backup.restore import RestoreResult
from skein_cluster.backup.signatures import BackupKey, TrustedKeys
from skein_cluster.backup.source import open_source

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
USER = session_pb2.MESSAGE_ROLE_USER
# What is purged, and how it is called.
KINDS = ("memory", "cold memory", "person", "block", "session", "message", "tenant", "account")
KEPT = ("Anna prefers tea", "The gate code is 4711", "Bert likes green coffee", "An old letter")
SECRET = "correct-horse-battery"
SAID = ("Hello there", "How are you?")
# What the fixtures of a test may need of a database of its own, whose changes it looks at.
COUNTS = """
    SELECT (SELECT count(*) FROM memory.memories WHERE tenant_id = $1 AND is_active) AS memories,
           (SELECT count(*) FROM session.messages WHERE tenant_id = $1 AND is_active) AS messages,
           (SELECT count(*) FROM memory.archived_memories WHERE tenant_id = $1) AS archived
"""


@dataclass(frozen=True, kw_only=True)
class Drill:
    """What is left when the cluster has stopped."""

    # A folder for everything, which the database's user can enter.
    place: Path
    environment: dict[str, str]
    moment: datetime
    made: Backup
    # Markers of what was purged after the moment, by kind.
    markers: dict[str, str]
    home: Tenant
    closed: Tenant
    gone: Tenant
    revoked_key: str
    # A person whose access ended after the moment.
    kept_out: Account
    # Counts at the moment, and after the mistake.
    before: dict[str, int]
    after: dict[str, int]
    # The tenant's memory as a file, made before anything was purged.
    old_export: str
    # Of the person who was forgotten after the moment.
    certificate: certificates_pb2.ErasureCertificate

    @property
    def folder(self) -> BackupRepository:
        return BackupRepository(Path(self.environment["SKEIN_BACKUP_DIR"]))

    async def restore(self, name: str, *, to: datetime | None = None) -> RestoreResult:
        """Bring the backup back in a data folder of this name, with the keys supplied later."""
        trusted = TrustedKeys.of([], [self.place / each for each in ("first", "second", "third")])
        folder = replace(self.folder, trusted=trusted)
        backup = folder.get_backup(self.made.backup_id)
        environment = environment_of(self.place, name)
        for key in ("SKEIN_MASTER_KEY", "SKEIN_SYSTEM_KEY"):
            del environment[key]
        return await restoring.restore(
            folder, backup, self.place / name, environment, to=to, timeline=None, on_progress=_hear_nothing
        )


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that every user can pass through, as the database's user has to."""
    folder = Path(tempfile.mkdtemp(prefix="skein-drill-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        for cluster in ("first", "second", "third"):
            erase(folder / cluster)
        shutil.rmtree(folder, ignore_errors=True)


def environment_of(place: Path, name: str) -> dict[str, str]:
    return {
        **test_environment(),
        "SKEIN_DATA_DIR": str(place / name),
        "SKEIN_BACKUP_DIR": str(place / "backups of it's 100%"),
        "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR": "0.05",
    }


async def backed_up(data_dir: Path, environment: Mapping[str, str]) -> Backup:
    """Make a backup of a cluster that runs."""
    folder = BackupRepository(Path(environment["SKEIN_BACKUP_DIR"]))
    with folder.write_lock():
        async with open_source(data_dir, environment) as source:
            key = BackupKey.of(Path(environment["SKEIN_DATA_DIR"]))
            return await base_backup.create_backup(
                folder, source, environment, key=key, on_progress=lambda _done, _whole: None
            )


def _hear_nothing(_said: str) -> None:
    """Ignore progress."""


def in_cluster(cluster: Cluster, tenant: Tenant) -> Tenant:
    """Return a tenant whose calls go to this cluster."""
    channel = cast("Any", AuthorizedChannel(cluster.channel, tenant.api_key))
    return Tenant(channel=channel, tenant_id=tenant.tenant_id, api_key=tenant.api_key)


async def performed(cluster: Cluster, place: Path) -> Drill:
    """Do everything up to the moment when the cluster may be lost."""
    environment = environment_of(place, "first")
    home, closed, gone = [await cluster.new_tenant() for _ in range(3)]
    markers = {kind: f"marker{uuid.uuid4().hex}" for kind in KINDS}
    await _fill(home, gone, markers)
    leaver, kept_out = await member(cluster, home, "admin"), await member(cluster, home, "member")
    await _named(leaver, markers["account"])
    await _remember(closed, "A note of theirs")
    revoked = await home.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="revoked"))
    made = await backed_up(place / "first", environment)
    await _remember(home, KEPT[2])
    old_export = (await home.snapshots.ExportData(snapshots_pb2.ExportDataRequest(page_size=1000))).lines
    async with cluster.superuser() as connection:
        before = dict(await _row(connection, home))
        moment: datetime = await connection.fetchval("SELECT clock_timestamp()")
        await _mistakes(cluster, home, closed, connection)
        certificate = await _purges(cluster, home, gone, markers, revoked.api_key.api_key_id, connection)
        await leaver.stubs.auth.DeleteMe(accounts_pb2.DeleteMeRequest(password=PASSWORD))
        await kept_out.stubs.auth.DeactivateMe(accounts_pb2.DeactivateMeRequest(password=PASSWORD))
        after = dict(await _row(connection, home))
    return Drill(
        place=place,
        environment=environment,
        moment=moment,
        made=made,
        markers=markers,
        home=home,
        closed=closed,
        gone=gone,
        revoked_key=revoked.secret,
        kept_out=kept_out,
        before=before,
        after=after,
        old_export=old_export,
        certificate=certificate,
    )


async def _row(connection: asyncpg.Connection[Any], tenant: Tenant) -> Mapping[str, int]:
    row = await connection.fetchrow(COUNTS, tenant.tenant_id)
    assert row is not None
    return dict(row)


async def _remember(tenant: Tenant, content: str, **fields: Any) -> str:
    memory = memory_pb2.Memory(content=content, **fields)
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


async def _named(account: Account, name: str) -> None:
    """Give an account a name."""
    named = accounts_pb2.Account(display_name=name)
    await account.stubs.auth.UpdateMe(accounts_pb2.UpdateMeRequest(account=named))


async def _cold(tenant: Tenant, content: str, session_id: str, **fields: Any) -> None:
    """Store a memory in a file of cold storage, with what belongs to the same session."""
    memory = memory_pb2.Memory(content=content, session_id=session_id, **fields)
    memory.create_time.FromDatetime(LONG_AGO)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(session_id=session_id, idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1


async def _fill(home: Tenant, gone: Tenant, markers: Mapping[str, str]) -> None:
    for content in KEPT[:2]:
        await _remember(home, content)
    await _remember(home, "", type="knowledge_vault", title="the wifi", secret_value=SECRET)
    await _cold(home, KEPT[3], "letters")
    await _remember(home, markers["memory"], external_id="purged", tags=["private"])
    await _cold(home, markers["cold memory"], "diary", external_id="cold")
    await _remember(home, f"{markers['person']} likes cake", subject_id="ann")
    # The access log knows the session, which callers named after the person.
    await _cold(home, f"{markers['person']} was ill", f"{markers['person']} talks", subject_id="ann")
    await _say(home, "kept", *SAID)
    await _say(home, "purged", f"{markers['session']} first", f"{markers['session']} second")
    await _say(home, "of ann", f"{markers['person']} said so", subject_id="ann")
    await _say(home, "mixed", "One that stays", markers["message"])
    block = blocks_pb2.Block(block_id="purged", label="human", value=markers["block"])
    await home.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
    profile = json_format.ParseDict({"city": markers["person"]}, Struct())
    subject = subjects_pb2.Subject(subject_id="ann", profile=profile)
    await home.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    await home.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="copies of all"))
    await _remember(gone, markers["tenant"])
    await _say(gone, "theirs", markers["tenant"])


async def _say(tenant: Tenant, session_id: str, *texts: str, **of_session: Any) -> None:
    session = session_pb2.Session(session_id=session_id, **of_session)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    messages = [session_pb2.Message(role=USER, content=text) for text in texts]
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id=session_id, messages=messages))


async def _mistakes(cluster: Cluster, home: Tenant, closed: Tenant, connection: asyncpg.Connection[Any]) -> None:
    """Do what is to be undone: one caller forgets everything, one statement has no WHERE."""
    everything = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(types=["note", "knowledge_vault"]))
    await home.memory.DeleteMemories(memory_pb2.DeleteMemoriesRequest(selection=everything))
    await connection.execute("DELETE FROM session.messages WHERE content = ANY ($1::text[])", list(SAID))
    await cluster.operator.tenancy.DeleteTenant(tenancy_pb2.DeleteTenantRequest(tenant_id=str(closed.tenant_id)))


async def _purges(
    cluster: Cluster,
    home: Tenant,
    gone: Tenant,
    markers: Mapping[str, str],
    revoked_id: str,
    connection: asyncpg.Connection[Any],
) -> certificates_pb2.ErasureCertificate:
    """Do what is to stay done; return the certificate of the forgotten person."""
    named = memory_pb2.MemorySelection(memory_ids=["purged", "cold"])
    purged = await home.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=named))
    assert (len(purged.receipt.memory_ids), len(purged.archived_memory_ids)) == (1, 1)
    forgotten = await home.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))
    await home.blocks.DeleteBlock(blocks_pb2.DeleteBlockRequest(block_id="purged"))
    await home.blocks.PurgeBlock(blocks_pb2.PurgeBlockRequest(block_id="purged"))
    await home.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="purged"))
    mixed = await home.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="mixed"))
    (message_id,) = [each.message_id for each in mixed.messages if each.content == markers["message"]]
    await home.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message_id]))
    await home.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=revoked_id))
    deletion = tenancy_pb2.DeleteTenantRequest(tenant_id=str(gone.tenant_id), grace=Duration())
    await cluster.operator.tenancy.DeleteTenant(deletion)
    request = members_pb2.GetDeletionRequest(tenant_id=str(gone.tenant_id))
    async with asyncio.timeout(60):
        while (await cluster.operator.tenancy.GetDeletion(request)).deletion.state != members_pb2.DELETION_STATE_DONE:
            await asyncio.sleep(0.05)
    assert await connection.fetchval("SELECT count(*) FROM memory.memories WHERE tenant_id = $1", gone.tenant_id) == 0
    certificate = certificates_pb2.GetErasureCertificateRequest(certificate_id=forgotten.certificate_id)
    return (await home.auth.GetErasureCertificate(certificate)).certificate
