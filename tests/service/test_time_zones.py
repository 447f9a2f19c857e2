"""Days of conditions: they are those of the tenant's time zone, at every door that takes a condition."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit import filters
from skein_kit.filters.expression import And, Compare

# Noon of the fourth in Greenwich is the first hour of the fifth in Auckland.
MOMENT = datetime(2026, 3, 4, 12, tzinfo=UTC)
ON_FOURTH, ON_FIFTH = "valid_from_time = 2026-03-04", "valid_from_time = 2026-03-05"


async def set_zone(tenant: Tenant, name: str) -> None:
    request = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(time_zone=name), update_mask=FieldMask(paths=["time_zone"])
    )
    await tenant.tenancy.UpdatePolicy(request)


async def tea(tenant: Tenant) -> pb.Memory:
    memory = pb.Memory(content="Tea is served")
    memory.valid_from_time.FromDatetime(MOMENT)
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory


async def listed(tenant: Tenant, where: str) -> int:
    response = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=pb.MemoryFilter(where=where)))
    return len(response.memories)


@pytest.mark.system
@pytest.mark.parametrize(("zone", "where"), [("", ON_FOURTH), ("Pacific/Auckland", ON_FIFTH)])
async def test_a_day_is_that_of_the_tenants_zone_at_every_door(tenant: Tenant, zone: str, where: str) -> None:
    await set_zone(tenant, zone)
    memory = await tea(tenant)
    other = ON_FIFTH if where == ON_FOURTH else ON_FOURTH

    lists = [await listed(tenant, day) for day in (where, other)]
    recalls = [
        len((await tenant.gateway.Recall(
            gateway_pb2.RecallRequest(query="tea", filter=pb.MemoryFilter(where=day), min_relevance=0)
        )).hits)
        for day in (where, other)
    ]  # fmt: skip
    similar = [
        len((await tenant.recall.FindSimilar(
            recall_pb2.FindSimilarRequest(item_id=memory.memory_id, filter=pb.MemoryFilter(where=day))
        )).hits)
        for day in (where, other)
    ]  # fmt: skip
    purges = [
        await tenant.memory.PurgeMemories(
            pb.PurgeMemoriesRequest(selection=pb.MemorySelection(filter=pb.MemoryFilter(where=day)), dry_run=True)
        )
        for day in (where, other)
    ]
    deleted = await tenant.memory.DeleteMemories(
        pb.DeleteMemoriesRequest(selection=pb.MemorySelection(filter=pb.MemoryFilter(where=other)))
    )

    assert (lists, recalls) == ([1, 0], [1, 0])
    # The item itself is no hit.
    assert similar == [0, 0]
    assert [len(purge.receipt.memory_ids) for purge in purges] == [1, 0]
    assert not deleted.memory_ids


async def person(tenant: Tenant, subject_id: str, zone: str) -> None:
    subject = subjects_pb2.Subject(subject_id=subject_id, timezone=zone)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))


@pytest.mark.system
@pytest.mark.parametrize(
    ("zone", "where"), [("Pacific/Auckland", ON_FIFTH), ("", ON_FOURTH), ("America/New_York", ON_FOURTH)]
)
async def test_a_day_is_that_of_the_person_whom_a_filter_names(tenant: Tenant, zone: str, where: str) -> None:
    await person(tenant, "anna", zone)
    memory = pb.Memory(content="Tea is served", subject_id="anna")
    memory.valid_from_time.FromDatetime(MOMENT)
    await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))
    other = ON_FIFTH if where == ON_FOURTH else ON_FOURTH
    filters_ = [pb.MemoryFilter(where=day, subject_id="anna") for day in (where, other)]

    lists = [len((await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=each))).memories) for each in filters_]
    purges = [
        len((await tenant.memory.PurgeMemories(
            pb.PurgeMemoriesRequest(selection=pb.MemorySelection(filter=each), dry_run=True)
        )).receipt.memory_ids)
        for each in filters_
    ]  # fmt: skip
    recalls = [
        len((await tenant.gateway.Recall(
            gateway_pb2.RecallRequest(query="tea", filter=pb.MemoryFilter(where=day), subject_id="anna")
        )).hits)
        for day in (where, other)
    ]  # fmt: skip

    assert (lists, purges, recalls) == ([1, 0], [1, 0], [1, 0])
    # Nobody is named, so it is the tenant's day.
    assert [await listed(tenant, day) for day in (ON_FOURTH, ON_FIFTH)] == [1, 0]


@pytest.mark.system
async def test_a_question_names_the_days_of_the_person_whom_it_is_about(tenant: Tenant) -> None:
    await person(tenant, "anna", "Pacific/Auckland")
    await person(tenant, "ben", "")
    now = datetime.now(UTC).replace(microsecond=0)
    for subject_id in ("anna", "ben"):
        memory = pb.Memory(content="Tea with the neighbours", subject_id=subject_id)
        memory.create_time.FromDatetime(now.replace(day=1, hour=12) - timedelta(days=20))
        await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))
    of_auckland = (memory.create_time.ToDatetime(UTC)).astimezone(ZoneInfo("Pacific/Auckland")).date()

    async def nearness(subject_id: str, day: date, as_of_time: datetime | None = None) -> float:
        query = f"Tea with whom on {day.isoformat()}?"
        request = gateway_pb2.RecallRequest(query=query, subject_id=subject_id, min_relevance=0)
        if as_of_time is not None:
            request.as_of_time.FromDatetime(as_of_time)
        response = await tenant.gateway.Recall(request)
        (hit,) = response.hits
        return next(part.value for part in hit.components if part.signal == "date")

    assert await nearness("anna", of_auckland) == 1
    before = datetime.now(UTC)
    await tenant.tenancy.UpdateSubject(
        subjects_pb2.UpdateSubjectRequest(
            subject=subjects_pb2.Subject(subject_id="anna", timezone="America/New_York"),
            update_mask=FieldMask(paths=["timezone"]),
        )
    )
    assert await nearness("anna", of_auckland) < 1
    assert await nearness("anna", of_auckland, before) == 1
    assert await nearness("ben", of_auckland) < 1
    assert await nearness("ben", of_auckland - timedelta(days=1)) == 1


async def test_a_time_has_a_zone_of_its_own(tenant: Tenant) -> None:
    await set_zone(tenant, "Pacific/Auckland")
    await tea(tenant)

    assert await listed(tenant, "valid_from_time <= 2026-03-04T12:00:00Z") == 1
    assert await listed(tenant, "valid_from_time < 2026-03-04T12:00:00Z") == 0


@pytest.mark.parametrize("name", ["Mars/Olympus", "localtime", "europe/rome", "../etc/passwd"])
async def test_a_zone_that_is_none_is_refused(tenant: Tenant, name: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await set_zone(tenant, name)


@over(
    ("zone", "day", "hours"),
    [
        ("UTC", date(2026, 3, 29), 24),
        ("Europe/Rome", date(2026, 3, 29), 23),
        ("Europe/Rome", date(2026, 10, 25), 25),
        # The clocks of Havana go back from one o'clock to midnight, and those of Asunción did from midnight.
        ("America/Havana", date(2026, 11, 1), 25),
        ("America/Asuncion", date(2024, 3, 23), 25),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),
    ],
)
def test_a_day_is_as_long_as_its_zone_makes_it(zone: str, day: date, hours: int) -> None:
    condition = filters.parse(f"create_time = {day}", zone=ZoneInfo(zone))

    assert isinstance(condition, And)
    first, last = condition.parts
    assert isinstance(first, Compare)
    assert isinstance(last, Compare)
    assert isinstance(first.value, datetime)
    assert isinstance(last.value, datetime)
    assert round((last.value - first.value).total_seconds()) == hours * 3600


@over(("zone", "day"), [("Asia/Tokyo", "0001-01-01"), ("America/New_York", "9999-12-31")])
def test_the_first_and_the_last_day_that_exist_are_days_in_every_zone(zone: str, day: str) -> None:
    expression = filters.parse(f"create_time = {day}", zone=ZoneInfo(zone))

    assert isinstance(expression, And)
    first, last = (part.value for part in expression.parts if isinstance(part, Compare))
    assert {datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)} & {first, last}
