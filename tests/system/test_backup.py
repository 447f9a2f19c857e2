"""A backup and what it is for: back to the second before a mistake, and nothing back that was purged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import grpc
import pytest
from fix_accounts import sign_in
from fix_cluster import Cluster, refused, running_cluster
from fix_drill import COUNTS, KEPT, KINDS, SAID, Drill, backed_up, environment_of, in_cluster, open_folder, performed
from fix_marker import files_with, places_of

from skein.auth.v1 import auth_pb2, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, memory_pb2, snapshots_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2
from skein_cluster import embedded
from skein_cluster.backup.restore import RestoreResult
from skein_cluster.certificates import proof
from skein_kit.erasure_certificates import document, key_set

if TYPE_CHECKING:
    from fix_marker import Connection

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
async def drill() -> AsyncIterator[Drill]:
    with open_folder() as place:
        async with running_cluster(place / "first", environment_of(place, "first")) as cluster:
            result = await performed(cluster, place)
        yield result


@pytest.fixture(scope="module")
async def on_progress(drill: Drill) -> RestoreResult:
    """Restore to the moment before the mistake, and return what is told of it."""
    return await drill.restore("second", to=drill.moment)


@pytest.fixture(scope="module")
async def started(drill: Drill, on_progress: RestoreResult) -> AsyncIterator[Cluster]:
    """Run the restored cluster."""
    assert on_progress.purged
    async with running_cluster(drill.place / "second", environment_of(drill.place, "second")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def counts(drill: Drill, started: Cluster) -> dict[str, int]:
    """What was brought back."""
    connection = await asyncpg.connect(started.postgres.url(user="postgres", database="skein"))
    try:
        row = await connection.fetchrow(COUNTS, drill.home.tenant_id)
    finally:
        await connection.close()
    assert row is not None
    return dict(row)


@pytest.fixture(scope="module")
def restored(started: Cluster, counts: dict[str, int]) -> Cluster:
    """The restored cluster, which tests change once it is counted, in any order."""
    assert counts
    return started


@pytest.fixture
async def connection(restored: Cluster) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(restored.postgres.url(user="postgres", database="skein"))
    try:
        yield connection
    finally:
        await connection.close()


async def test_everything_is_as_it_was_before_the_mistake(
    drill: Drill, restored: Cluster, counts: dict[str, int], on_progress: RestoreResult
) -> None:
    home = in_cluster(restored, drill.home)

    kept = await home.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="kept"))
    hits = (await home.gateway.Recall(gateway_pb2.RecallRequest(query="Who likes green coffee?"))).hits

    assert (drill.after["memories"], drill.after["messages"]) == (0, 1)
    # What was purged since is missing from what there was: two memories, and five messages.
    assert (counts["memories"], counts["messages"]) == (drill.before["memories"] - 2, drill.before["messages"] - 4)
    assert [message.content for message in kept.messages] == list(SAID)
    assert hits[0].memory.content == KEPT[2]
    assert on_progress.last_time is not None
    assert on_progress.last_time <= drill.moment


async def test_a_tenant_that_was_closed_by_mistake_is_open_again(drill: Drill, restored: Cluster) -> None:
    closed = in_cluster(restored, drill.closed)

    listed = await closed.memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert [memory.content for memory in listed.memories] == ["A note of theirs"]


async def test_cold_storage_is_back_with_the_database(drill: Drill, restored: Cluster) -> None:
    home = in_cluster(restored, drill.home)

    (archive,) = (await home.history.ListArchives(archives_pb2.ListArchivesRequest())).archives
    await home.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive.archive_id))

    listed = await home.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=100))
    assert KEPT[3] in [memory.content for memory in listed.memories]


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_purged_after_the_moment_are_nowhere(
    drill: Drill, restored: Cluster, connection: Connection, kind: str
) -> None:
    assert await places_of(connection, drill.markers[kind]) == []
    assert files_with(restored, drill.markers[kind]) == []


async def test_a_restored_cluster_has_and_proves_the_certificate_of_a_later_erasure(
    drill: Drill, restored: Cluster, connection: Connection
) -> None:
    home = in_cluster(restored, drill.home)

    request = certificates_pb2.GetErasureCertificateRequest(certificate_id=drill.certificate.certificate_id)
    certificate = (await home.auth.GetErasureCertificate(request)).certificate
    keys_request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await home.auth.ListSigningKeys(keys_request)).signing_keys
    keys = key_set.read(key_set.write(key.jwk for key in published))
    verified = document.verify(certificate.document.encode(), keys)
    proved = await proof.prove(connection, verified, [("subject", "ann"), ("session", "of ann")])

    assert certificate == drill.certificate
    assert proved.is_gone, proved
    assert all(inclusion.leaf for inclusion in proved.inclusions)


async def test_a_tenant_that_was_deleted_for_good_is_reported_as_gone(drill: Drill, restored: Cluster) -> None:
    request = members_pb2.GetDeletionRequest(tenant_id=str(drill.gone.tenant_id))

    deletion = (await restored.operator.tenancy.GetDeletion(request)).deletion
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await in_cluster(restored, drill.gone).memory.ListMemories(memory_pb2.ListMemoriesRequest())

    assert deletion.state == members_pb2.DELETION_STATE_DONE


async def test_a_key_that_was_revoked_after_the_moment_opens_nothing(drill: Drill, restored: Cluster) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_INVALID"):
        await restored.with_key(drill.revoked_key).auth.GetMe(auth_pb2.GetMeRequest())


async def test_a_member_who_left_or_was_kept_out_after_the_moment_does_not_come_in(
    drill: Drill, restored: Cluster, connection: Connection
) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SIGN_IN_REFUSED"):
        await sign_in(restored, drill.kept_out.email)
    members = (await in_cluster(restored, drill.home).tenancy.ListMembers(members_pb2.ListMembersRequest())).members

    assert [each.account_id for each in members] == [drill.kept_out.account_id]
    assert await connection.fetchval("SELECT count(*) FROM auth.accounts") == 1


async def test_an_export_made_before_a_purge_brings_nothing_of_it_back(
    drill: Drill, restored: Cluster, connection: Connection
) -> None:
    home = in_cluster(restored, drill.home)

    await home.snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(
            lines=drill.old_export,
            format=snapshots_pb2.IMPORT_FORMAT_SKEIN_EXPORT_V1,
            mode=snapshots_pb2.IMPORT_MODE_OVERWRITE,
        )
    )

    for kind in ("memory", "person", "block"):
        assert drill.markers[kind] in drill.old_export
        assert await places_of(connection, drill.markers[kind]) == []


async def test_rows_that_were_removed_again_are_counted(on_progress: RestoreResult) -> None:
    assert on_progress.purged == {
        "tenants": 1,
        "accounts": 1,
        # A key, an account, and how that was signed in.
        "revocations": 3,
        # One by its id, one in cold storage, one about the person in each.
        "memories": 4,
        "blocks": 1,
        # One by its id, one of the person's.
        "sessions": 2,
        "messages": 4,
        "subjects": 1,
        "people": 1,
    }
    assert on_progress.purges_known_until is not None
    assert on_progress.missing == []


@pytest.mark.essential
async def test_writes_after_a_restore_can_be_restored_whatever_became_of_newer_backups(
    drill: Drill, restored: Cluster
) -> None:
    home = in_cluster(restored, drill.home)
    later = memory_pb2.Memory(content="After the restore")
    await home.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=later))
    # A newer backup from which purges would be read, if it were not damaged.
    newer = await backed_up(drill.place / "second", restored.environment)
    (drill.folder.of(newer) / "base.tar.gz").write_bytes(b"")

    again = await drill.restore("third")

    async with embedded.running_server(drill.place / "third" / "postgres") as server:
        connection = await asyncpg.connect(**server.dsn())
        count = await connection.fetchval("SELECT count(*) FROM memory.memories WHERE content = 'After the restore'")
        await connection.close()
    assert (again.timeline, count) == (3, 1)
