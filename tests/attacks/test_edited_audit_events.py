"""The trail of audit events: what its own service cannot change, and what the owner of the database changes seen."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from fix_cluster import SYSTEM_KEY, Cluster, Stubs, Tenant
from fix_command import CommandResult, skein

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.cli.exit_codes import ExitCode
from skein_kit.erasure_certificates import key_set
from skein_kit.ids import new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    Connection = asyncpg.Connection[asyncpg.Record]

EVENTS_OF_A_DAY = 3
LAST_ID = uuid.UUID(int=2**128 - 1)
INSERT = """
    INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, principal, target, create_time)
    VALUES ($1, $2, 'sign_in', 'success', 'account:1', $3, $4)
"""
DIGESTS = "SELECT octet_length(event_digests) / 48 FROM auth.audit_checkpoints WHERE tenant_id = $1 ORDER BY number"


@pytest.fixture
async def owner(cluster: Cluster) -> AsyncIterator[Connection]:
    """A connection that may do everything."""
    async with cluster.superuser() as connection:
        yield connection


@asynccontextmanager
async def service(cluster: Cluster, tenant_id: uuid.UUID, role: str = "skein_auth") -> AsyncIterator[Connection]:
    """A connection as the role of a service, in a tenant."""
    async with cluster.superuser() as connection:
        await connection.execute(f"SET ROLE {role}")
        await connection.execute("SELECT set_config('skein.tenant_id', $1, false)", str(tenant_id))
        yield connection


async def worker_of(channel: Any, tenant_id: uuid.UUID | None) -> Any:
    credential = auth_pb2.SystemCredential(key=SYSTEM_KEY, service="worker")
    request = auth_pb2.ExchangeRequest(system=credential, tenant_id=str(tenant_id or ""))
    token = (await auth_pb2_grpc.AuthInternalServiceStub(channel).Exchange(request)).token
    return auth_pb2_grpc.AuthInternalServiceStub(Stubs.of(channel, token).channel)


async def chain(cluster: Cluster, tenant_id: uuid.UUID) -> int:
    """Sign all checkpoints of a tenant, as the worker does; return how many events they cover."""
    count = 0
    async with cluster.direct("auth") as channel:
        worker = await worker_of(channel, tenant_id)
        while (response := await worker.ChainAuditEvents(auth_pb2.ChainAuditEventsRequest())).more:
            count += response.chained_count
    return count


async def expire(cluster: Cluster, tenant_id: uuid.UUID) -> None:
    async with cluster.direct("auth") as channel:
        worker = await worker_of(channel, tenant_id)
        await worker.DeleteExpired(auth_pb2.DeleteExpiredRequest())


async def plant(owner: Connection, tenant_id: uuid.UUID, *, days: int = 3, age: int = 10) -> list[uuid.UUID]:
    """Insert events of some days that are over; return their ids, oldest first."""
    ids: list[uuid.UUID] = []
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0)
    for day in range(days):
        for number in range(EVENTS_OF_A_DAY):
            at = noon - timedelta(days=age - day) + timedelta(minutes=number)
            ids.append(new_id(at))
            await owner.execute(INSERT, tenant_id, ids[-1], f"api_key:{day}-{number}", at)
    return ids


async def verify(cluster: Cluster, folder: Path, *arguments: str) -> CommandResult:
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    keys = await cluster.operator.auth.ListSigningKeys(request)
    file = folder / "keys.json"
    file.write_text(key_set.write(key.jwk for key in keys.signing_keys))
    url = cluster.postgres.url(user="postgres", database="skein")
    return await skein("audit", "verify", *arguments, "--keys", str(file), "--json", SKEIN_DATABASE_URL=url)


async def problems(cluster: Cluster, tenant_id: uuid.UUID, folder: Path, *arguments: str) -> Sequence[str]:
    """Return what the verification says of one tenant: others of this cluster belong to other tests."""
    result = await verify(cluster, folder, *arguments)
    assert result.code in {ExitCode.OK, ExitCode.REFUSED}, result.err
    return [line for line in result.json["problems"] if str(tenant_id) in line]


async def test_the_service_s_own_role_changes_no_event(cluster: Cluster, tenant: Tenant, owner: Connection) -> None:
    [event_id, *_] = await plant(owner, tenant.tenant_id)
    statements = (
        "UPDATE auth.audit_events SET outcome = 'refused' WHERE tenant_id = $1",
        "UPDATE auth.audit_events SET subject_target = NULL WHERE tenant_id = $1",
        "DELETE FROM auth.audit_events WHERE tenant_id = $1",
        "UPDATE auth.audit_checkpoints SET expire_time = now() WHERE tenant_id = $1",
        "DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1",
    )

    for role in ("skein_auth", "skein_tenancy", "skein_recall"):
        async with service(cluster, tenant.tenant_id, role) as connection:
            for statement in statements:
                if (role, "SET subject_target") == ("skein_tenancy", statement[25:43]):
                    continue
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement, tenant.tenant_id)

    assert (
        await owner.fetchval("SELECT outcome FROM auth.audit_events WHERE audit_event_id = $1", event_id) == "success"
    )


async def test_the_service_s_own_role_dates_no_event_back(cluster: Cluster, tenant: Tenant, owner: Connection) -> None:
    await plant(owner, tenant.tenant_id)
    now = datetime.now(UTC)
    past = now - timedelta(days=9)

    async with service(cluster, tenant.tenant_id) as connection:
        for event_id, create_time in ((new_id(past), past), (new_id(past), now), (new_id(now), past)):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(INSERT, tenant.tenant_id, event_id, "t", create_time)
        await connection.execute(INSERT, tenant.tenant_id, new_id(now), "t", now)


async def test_tenancy_s_role_removes_names_and_replaces_none(cluster: Cluster, tenant: Tenant) -> None:
    subject = subjects_pb2.Subject(subject_id="ann", display_name="Ann")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))

    async with service(cluster, tenant.tenant_id, "skein_tenancy") as connection:
        for change in ("subject_target = 'subject:bob', subject_salt = ''", "subject_target = 'subject:bob'"):
            statement = f"UPDATE auth.audit_events SET {change} WHERE tenant_id = $1"  # noqa: S608 - constants.
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement, tenant.tenant_id)


async def test_the_service_s_own_role_removes_nothing_early(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    ids = await plant(owner, tenant.tenant_id)
    await chain(cluster, tenant.tenant_id)

    async with service(cluster, tenant.tenant_id) as connection:
        query = "SELECT * FROM auth.expire_audit_checkpoint($1, 1, $2, $3)"
        assert await connection.fetch(query, tenant.tenant_id, ids[0], ids[EVENTS_OF_A_DAY - 1]) == []
        for function in ("purge_audit_events", "purge_audit_checkpoints"):
            for tenant_id in (tenant.tenant_id, other_tenant.tenant_id, uuid.UUID(int=0)):
                assert await connection.fetch(f"SELECT * FROM auth.{function}($1, 9)", tenant_id) == []  # noqa: S608 - a constant.

    assert await problems(cluster, tenant.tenant_id, tmp_path) == []


async def test_a_checkpoint_of_a_long_past_day_removes_no_event_of_another(
    cluster: Cluster, tenant: Tenant, owner: Connection
) -> None:
    ids = await plant(owner, tenant.tenant_id)
    first, last = uuid.UUID(int=0), new_id(datetime.now(UTC))
    statement = f'{{"first_event_id":"{first}","last_event_id":"{last}"}}'

    async with service(cluster, tenant.tenant_id) as connection:
        await connection.execute(
            "INSERT INTO auth.audit_checkpoints"
            " (tenant_id, number, day, covered_id, statement, key_id, signature, event_digests, create_time)"
            " VALUES ($1, 1, now() - interval '99 days', $2, $3, 'k', $4, '', now())",
            *(tenant.tenant_id, first, statement, bytes(64)),
        )
        query = "SELECT * FROM auth.expire_audit_checkpoint($1, 1, $2, $3)"
        assert await connection.fetch(query, tenant.tenant_id, first, last) == []

    left = await owner.fetchval("SELECT count(*) FROM auth.audit_events WHERE audit_event_id = ANY ($1::uuid[])", ids)
    assert left == len(ids)
    # Auth would never continue this chain.
    await owner.execute("DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1", tenant.tenant_id)


async def test_the_owner_s_changes_are_found(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    ids = await plant(owner, tenant.tenant_id)
    assert await chain(cluster, tenant.tenant_id) == len(ids) + 0
    assert await problems(cluster, tenant.tenant_id, tmp_path) == []
    between = uuid.UUID(int=ids[4].int + 1)
    attacks = {
        f"event {ids[1]}: the event was changed": (
            "UPDATE auth.audit_events SET outcome = 'refused' WHERE tenant_id = $1 AND audit_event_id = $2",
            ids[1],
        ),
        f"event {ids[8]}: the event was removed": (
            "DELETE FROM auth.audit_events WHERE tenant_id = $1 AND audit_event_id = $2",
            ids[8],
        ),
        f"event {between}: the event was inserted": (
            (
                "INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, create_time)"
                " VALUES ($1, $2, 'sign_in', 'refused', now())"
            ),
            between,
        ),
        f"event {LAST_ID}: the event was inserted": (
            (
                "INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, create_time)"
                " VALUES ($1, $2, 'sign_in', 'refused', now())"
            ),
            LAST_ID,
        ),
        f"the event was reordered: it stood at {ids[3]}": (
            "UPDATE auth.audit_events SET audit_event_id = $2 WHERE tenant_id = $1 AND target = 'api_key:1-0'",
            uuid.UUID(int=ids[5].int + 1),
        ),
        "checkpoint 2: the list of its events was changed": (
            (
                "UPDATE auth.audit_checkpoints SET event_digests = substr(event_digests, 49)"
                " WHERE tenant_id = $1 AND number = 2 AND $2::uuid IS NOT NULL"
            ),
            ids[0],
        ),
        "checkpoint 2: the checkpoint was removed": (
            "DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1 AND number = 2 AND $2::uuid IS NOT NULL",
            ids[0],
        ),
        "checkpoint 2: the checkpoint was changed": (
            (
                "UPDATE auth.audit_checkpoints SET statement = replace(statement, '\"count\":3', '\"count\":4')"
                " WHERE tenant_id = $1 AND number = 2 AND $2::uuid IS NOT NULL"
            ),
            ids[0],
        ),
        "checkpoint 1: the events were removed too early": (
            (
                "UPDATE auth.audit_checkpoints SET expire_time = now(), event_digests = ''"
                " WHERE tenant_id = $1 AND number = 1 AND $2::uuid IS NOT NULL"
            ),
            ids[0],
        ),
    }

    for expected, (statement, event_id) in attacks.items():
        async with changed(owner, tenant.tenant_id):
            await owner.execute(statement, tenant.tenant_id, event_id)
            found = await problems(cluster, tenant.tenant_id, tmp_path)
        assert [line for line in found if expected in line], (expected, found)

    assert await problems(cluster, tenant.tenant_id, tmp_path) == []


@asynccontextmanager
async def changed(owner: Connection, tenant_id: uuid.UUID) -> AsyncIterator[None]:
    """Bring the trail of a tenant back after the block."""
    tables = ("auth.audit_events", "auth.audit_checkpoints")
    saved = {
        table: await owner.fetch(f"SELECT * FROM {table} WHERE tenant_id = $1", tenant_id)  # noqa: S608 - constants.
        for table in tables
    }
    yield
    for table, rows in saved.items():
        await owner.execute(f"DELETE FROM {table} WHERE tenant_id = $1", tenant_id)  # noqa: S608 - constants.
        for row in rows:
            places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
            await owner.execute(f"INSERT INTO {table} VALUES ({places})", *row.values())  # noqa: S608 - constants.


@pytest.mark.system
async def test_a_chain_that_lost_its_end_lacks_the_saved_head(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    ids = await plant(owner, tenant.tenant_id)
    await chain(cluster, tenant.tenant_id)
    digest = "SELECT statement, signature, key_id FROM auth.audit_checkpoints WHERE tenant_id = $1 AND number = 3"
    assert await owner.fetchrow(digest, tenant.tenant_id) is not None
    trail = tmp_path / "trail.jsonl"
    url = cluster.postgres.url(user="postgres", database="skein")
    await skein("audit", "export", str(trail), SKEIN_DATABASE_URL=url)
    mine = [line for line in trail.read_text("utf-8").splitlines() if "format" in line or str(tenant.tenant_id) in line]
    trail.write_text("\n".join(mine) + "\n", "utf-8")
    heads = tmp_path / "heads.json"
    saved = await verify(cluster, tmp_path, str(trail), "--save-heads", str(heads))
    assert (saved.code, saved.json["verified_events"]) == (ExitCode.OK, len(ids))
    assert list(json.loads(heads.read_text("utf-8"))) == [str(tenant.tenant_id)]

    await owner.execute("DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1 AND number = 3", tenant.tenant_id)
    await owner.execute("DELETE FROM auth.audit_events WHERE audit_event_id = ANY ($1::uuid[])", ids[-3:])

    assert await problems(cluster, tenant.tenant_id, tmp_path) == []
    [found] = await problems(cluster, tenant.tenant_id, tmp_path, "--heads", str(heads))
    assert "the chain lacks the checkpoint that was the newest" in found


@pytest.mark.system
async def test_a_file_whose_tenants_were_reordered_is_refused(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    await plant(owner, tenant.tenant_id)
    await chain(cluster, tenant.tenant_id)
    async with cluster.direct("auth") as channel:
        await (await worker_of(channel, None)).ChainAuditEvents(auth_pb2.ChainAuditEventsRequest())
    trail = tmp_path / "trail.jsonl"
    await skein(
        "audit", "export", str(trail), SKEIN_DATABASE_URL=cluster.postgres.url(user="postgres", database="skein")
    )
    head, *lines = trail.read_text("utf-8").splitlines()
    # Without the events of no tenant, which say which days are over, what was inserted looks unsigned.
    lines.sort(key=lambda line: json.loads(line)["tenant_id"] == str(uuid.UUID(int=0)))
    trail.write_text("\n".join((head, *lines)) + "\n", "utf-8")

    result = await verify(cluster, tmp_path, str(trail))

    assert result.code == ExitCode.REFUSED
    assert "not in the order of their ids" in result.err


@pytest.mark.system
async def test_a_checkpoint_that_nobody_signed_ends_a_chain(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    ids = await plant(owner, tenant.tenant_id)
    async with service(cluster, tenant.tenant_id) as connection:
        await connection.execute(
            "INSERT INTO auth.audit_checkpoints (tenant_id, number, day, covered_id, statement, key_id, signature,"
            " event_digests, create_time) VALUES ($1, 1, now(), $2, '{}', 'k', decode(repeat('00', 64), 'hex'), '',"
            " now())",
            tenant.tenant_id,
            ids[2],
        )

    assert await chain(cluster, tenant.tenant_id) == 0
    assert "the checkpoint was changed" in (await problems(cluster, tenant.tenant_id, tmp_path))[0]
    await owner.execute("DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1", tenant.tenant_id)
    assert await chain(cluster, tenant.tenant_id) == len(ids)


@pytest.mark.system
async def test_a_trail_without_a_purged_person_s_name_still_verifies(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    subject = subjects_pb2.Subject(subject_id="ann-of-the-trail", display_name="Ann")
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    past = datetime.now(UTC) - timedelta(days=5)
    await owner.execute(
        "UPDATE auth.audit_events SET audit_event_id = $2, create_time = $3 WHERE tenant_id = $1"
        " AND event = 'subject_created'",
        tenant.tenant_id,
        new_id(past),
        past,
    )
    assert await chain(cluster, tenant.tenant_id) == 1
    listed = (await tenant.auth.ListAuditEvents(accounts_pb2.ListAuditEventsRequest())).audit_events
    assert "subject:ann-of-the-trail" in {event.target for event in listed}
    async with changed(owner, tenant.tenant_id):
        await owner.execute(
            "UPDATE auth.audit_events SET subject_target = 'subject:bob'"
            " WHERE tenant_id = $1 AND event = 'subject_created'",
            tenant.tenant_id,
        )
        [found] = await problems(cluster, tenant.tenant_id, tmp_path)
        assert "it names another person" in found

    await tenant.tenancy.PurgeSubject(subjects_pb2.PurgeSubjectRequest(subject_id="ann-of-the-trail"))

    assert await problems(cluster, tenant.tenant_id, tmp_path) == []
    rows = await owner.fetch("SELECT e::text AS row FROM auth.audit_events e WHERE tenant_id = $1", tenant.tenant_id)
    assert not [row["row"] for row in rows if "ann-of-the-trail" in row["row"]]


@pytest.mark.system
async def test_expired_days_go_whole_and_verify(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    old = await plant(owner, tenant.tenant_id, days=2, age=402)
    await plant(owner, tenant.tenant_id, days=1, age=5)
    await chain(cluster, tenant.tenant_id)
    async with changed(owner, tenant.tenant_id):
        # A day that was changed is not removed.
        await owner.execute("DELETE FROM auth.audit_events WHERE audit_event_id = $1", old[0])
        await expire(cluster, tenant.tenant_id)
        assert (
            await owner.fetchval("SELECT count(*) FROM auth.audit_events WHERE audit_event_id = ANY ($1::uuid[])", old)
            == EVENTS_OF_A_DAY - 1
        )

    await expire(cluster, tenant.tenant_id)

    assert [row[0] for row in await owner.fetch(DIGESTS, tenant.tenant_id)] == [0, 0, EVENTS_OF_A_DAY]
    left = await owner.fetch("SELECT FROM auth.audit_events WHERE audit_event_id = ANY ($1::uuid[])", old)
    assert left == []
    assert await problems(cluster, tenant.tenant_id, tmp_path) == []
    # An event in a removed day is none of those that were there.
    await owner.execute(INSERT, tenant.tenant_id, old[1], "t", datetime.now(UTC))
    [found] = await problems(cluster, tenant.tenant_id, tmp_path)
    assert f"event {old[1]}: the event was inserted" in found


async def test_days_that_were_changed_keep_no_others_from_expiring(
    cluster: Cluster, tenant: Tenant, owner: Connection
) -> None:
    ids = await plant(owner, tenant.tenant_id, days=5, age=406)
    await chain(cluster, tenant.tenant_id)
    await owner.execute(
        "UPDATE auth.audit_events SET outcome = 'refused' WHERE audit_event_id = ANY ($1::uuid[])",
        ids[: 4 * EVENTS_OF_A_DAY],
    )

    await expire(cluster, tenant.tenant_id)

    left = await owner.fetch(
        "SELECT audit_event_id FROM auth.audit_events WHERE audit_event_id = ANY ($1::uuid[])", ids
    )
    assert {row["audit_event_id"] for row in left} == set(ids[: 4 * EVENTS_OF_A_DAY])


@pytest.mark.system
async def test_a_day_of_the_cluster_is_closed_when_all_tenants_have_their_checkpoints(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    request = auth_pb2.ListDueTenantsRequest(work=auth_pb2.DUE_WORK_AUDIT_CHAIN, page_size=1000)
    nothing = auth_pb2.ChainAuditEventsRequest()
    async with cluster.direct("auth") as channel:
        worker = await worker_of(channel, None)
        await owner.execute("DELETE FROM auth.audit_checkpoints WHERE tenant_id = $1", uuid.UUID(int=0))
        for tenant_id in (await worker.ListDueTenants(request)).tenant_ids:
            await chain(cluster, uuid.UUID(tenant_id))
        await plant(owner, tenant.tenant_id, days=2, age=4)
        assert list((await worker.ListDueTenants(request)).tenant_ids) == [str(tenant.tenant_id)]

        open_time = (await worker.ChainAuditEvents(nothing)).chained_before_time.ToDatetime(UTC)
        await chain(cluster, tenant.tenant_id)
        closed_time = (await worker.ChainAuditEvents(nothing)).chained_before_time.ToDatetime(UTC)

    now = datetime.now(UTC)
    assert open_time < now - timedelta(days=3)
    assert closed_time == (now - timedelta(hours=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    # What comes into a closed day later was inserted, also in a tenant without a checkpoint of the day.
    past = now - timedelta(days=2)
    await owner.execute(INSERT, tenant.tenant_id, new_id(past), "t", past)
    [found] = await problems(cluster, tenant.tenant_id, tmp_path)
    assert "the event was inserted: no checkpoint has its day" in found


@pytest.mark.system
async def test_two_workers_at_once_make_one_chain(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    ids = await plant(owner, tenant.tenant_id, days=4)

    counts = await asyncio.gather(*(chain(cluster, tenant.tenant_id) for _ in range(3)))

    assert sum(counts) == len(ids)
    assert [row[0] for row in await owner.fetch(DIGESTS, tenant.tenant_id)] == [EVENTS_OF_A_DAY] * 4
    assert await problems(cluster, tenant.tenant_id, tmp_path) == []


@pytest.mark.system
async def test_a_day_of_many_events_has_several_checkpoints(
    cluster: Cluster, tenant: Tenant, owner: Connection, tmp_path: Path
) -> None:
    past = datetime.now(UTC).replace(hour=1) - timedelta(days=3)
    rows = [(tenant.tenant_id, new_id(past + timedelta(seconds=number)), "t", past) for number in range(4_100)]
    await owner.executemany(INSERT, rows)
    async with cluster.direct("auth") as channel:
        worker = await worker_of(channel, tenant.tenant_id)
        # As a worker that ends after its first step leaves it.
        await worker.ChainAuditEvents(auth_pb2.ChainAuditEventsRequest())

    await chain(cluster, tenant.tenant_id)

    assert [row[0] for row in await owner.fetch(DIGESTS, tenant.tenant_id)] == [2_000, 2_000, 100]
    assert await problems(cluster, tenant.tenant_id, tmp_path) == []
    await owner.execute("DELETE FROM auth.audit_events WHERE audit_event_id = $1", rows[2_500][1])
    [found] = await problems(cluster, tenant.tenant_id, tmp_path)
    assert f"event {rows[2_500][1]}: the event was removed" in found
