"""Subjects: what comes back, what is found by its properties, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_database import TestDatabase, vacuum
from fix_json import with_texts
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct, Value

from skein.tenancy.v1 import subjects_pb2 as pb
from skein_tenancy.queries import QUERIES
from skein_tenancy.subjects.store import property_parameters


def facts(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


def match(path: str, value: Any) -> pb.PropertyMatch:
    return pb.PropertyMatch(path=path, value=json_format.ParseDict(value, Value()))


async def make(tenant: Tenant, subject_id: str, **values: Any) -> pb.Subject:
    subject = pb.Subject(subject_id=subject_id, **values)
    return (await tenant.tenancy.CreateSubject(pb.CreateSubjectRequest(subject=subject))).subject


async def matching_ids(tenant: Tenant, *properties: pb.PropertyMatch, **values: Any) -> list[str]:
    request = pb.ListSubjectsRequest(properties=properties, **values)
    return [subject.subject_id for subject in (await tenant.tenancy.ListSubjects(request)).subjects]


async def test_a_subject_comes_back_as_it_was_made(tenant: Tenant) -> None:
    subject = pb.Subject(
        subject_id="anna",
        display_name="Anna",
        status=pb.SUBJECT_STATUS_INACTIVE,
        timezone="Europe/Vienna",
        profile=facts(name="Anna", height=1.7),
        preferences=facts(languages=["de", "en"]),
        account_id=str(uuid.uuid4()),
    )

    made = await make(tenant, "anna", **{name.name: value for name, value in subject.ListFields() if name.number > 1})
    read = await tenant.tenancy.GetSubject(pb.GetSubjectRequest(subject_id="anna"))

    assert read.subject == made
    subject.revision, subject.created_by, subject.updated_by = 1, made.created_by, made.created_by
    subject.writers.append(made.created_by)
    subject.create_time.CopyFrom(made.create_time)
    subject.update_time.CopyFrom(made.create_time)
    with_texts(subject)
    assert made == subject


async def test_a_subject_of_few_words_is_active_in_the_tenant_s_zone_and_gets_an_id(tenant: Tenant) -> None:
    made = await make(tenant, "")

    assert uuid.UUID(made.subject_id).version == 7
    assert (made.status, made.timezone) == (pb.SUBJECT_STATUS_ACTIVE, "")


@pytest.mark.parametrize("name", ["Mars/Olympus", "CEST+2", "../etc/passwd", "europe/vienna", "localtime"])
async def test_a_time_zone_that_is_not_in_the_database_is_refused(tenant: Tenant, name: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await make(tenant, "a", timezone=name)


async def test_a_profile_of_more_than_256_kib_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await make(tenant, "a", profile=facts(text="x" * 257 * 1024))


@pytest.mark.system
async def test_more_than_500_values_are_refused(tenant: Tenant) -> None:
    await make(tenant, "full", profile=facts(numbers=list(range(250))), preferences=facts(numbers=list(range(250))))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await make(tenant, "over", profile=facts(numbers=list(range(250))), preferences=facts(n=list(range(251))))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.tenancy.UpdateSubject(
            pb.UpdateSubjectRequest(
                subject=pb.Subject(subject_id="full", profile=facts(numbers=list(range(251)))),
                update_mask=FieldMask(paths=["profile"]),
            )
        )
    assert await matching_ids(tenant, match("profile.numbers", 249)) == ["full"]


async def test_an_id_belongs_to_one_subject_of_a_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    await make(tenant, "same")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "SUBJECT_EXISTS"):
        await make(tenant, "same")
    assert (await make(other_tenant, "same")).subject_id == "same"


async def test_subjects_are_found_by_all_of_the_properties_asked(tenant: Tenant) -> None:
    await make(tenant, "a", profile=facts(city="Graz", age=40), preferences=facts(languages=["de", "en"]))
    await make(tenant, "b", profile=facts(city="Graz", age=41), preferences=facts(languages=["de"]))
    await make(tenant, "c", profile=facts(city="Wien", vip=True, inner={"age": 40}))

    assert await matching_ids(tenant, match("profile.city", "Graz")) == ["a", "b"]
    assert await matching_ids(tenant, match("profile.city", "Graz"), match("profile.age", 40)) == ["a"]
    assert await matching_ids(tenant, match("preferences.languages", "de"), match("preferences.languages", "en")) == [
        "a"
    ]
    assert await matching_ids(tenant, match("profile.inner.age", 40.0)) == ["c"]
    assert await matching_ids(tenant, match("profile.vip", True)) == ["c"]  # noqa: FBT003 - the value that is looked for.
    assert await matching_ids(tenant, match("profile.vip", 1)) == []
    assert await matching_ids(tenant, match("profile.age", "40")) == []
    five = [match("profile.city", "Graz"), match("profile.age", 41), match("preferences.languages", "de")]
    assert await matching_ids(tenant, *five, *five[:2]) == ["b"]


async def test_wildcards_in_a_value_are_letters(tenant: Tenant) -> None:
    await make(tenant, "percent", profile=facts(code="100%", pattern="a_c"))
    await make(tenant, "other", profile=facts(code="1000", pattern="abc"))

    assert await matching_ids(tenant, match("profile.code", "100%")) == ["percent"]
    assert await matching_ids(tenant, match("profile.pattern", "a_c")) == ["percent"]
    assert await matching_ids(tenant, match("profile.code", "%")) == []


async def test_long_values_are_found_whole(tenant: Tenant) -> None:
    await make(tenant, "ü" * 255, profile=facts(**{"ü" * 490: "漢" * 4000}))

    assert await matching_ids(tenant, match("profile." + "ü" * 490, "漢" * 4000)) == ["ü" * 255]
    assert await matching_ids(tenant, match("profile." + "ü" * 490, "漢" * 3999)) == []


async def test_a_property_that_is_no_scalar_cannot_be_searched(tenant: Tenant) -> None:
    for value in ({"a": 1}, [1], None):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await matching_ids(tenant, match("profile.a", value))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await matching_ids(tenant, match("metadata.a", 1))


async def test_an_updated_subject_is_found_by_what_it_has_now(tenant: Tenant) -> None:
    await make(tenant, "a", profile=facts(city="Graz"), preferences=facts(tea=True))

    updated = await tenant.tenancy.UpdateSubject(
        pb.UpdateSubjectRequest(
            subject=pb.Subject(subject_id="a", profile=facts(city="Linz"), display_name="ignored", revision=1),
            update_mask=FieldMask(paths=["profile"]),
        )
    )

    assert (updated.subject.revision, updated.subject.display_name) == (2, "")
    assert await matching_ids(tenant, match("profile.city", "Graz")) == []
    assert await matching_ids(tenant, match("profile.city", "Linz"), match("preferences.tea", True)) == ["a"]  # noqa: FBT003


async def test_a_deleted_subject_is_gone_and_its_id_is_free_once_it_is_purged(tenant: Tenant) -> None:
    await make(tenant, "a", profile=facts(city="Graz"))
    delete = pb.DeleteSubjectRequest(subject_id="a", request_id="r")

    await tenant.tenancy.DeleteSubject(delete)
    await tenant.tenancy.DeleteSubject(delete)

    with refused(grpc.StatusCode.NOT_FOUND, "SUBJECT_NOT_FOUND"):
        await tenant.tenancy.DeleteSubject(pb.DeleteSubjectRequest(subject_id="a"))
    assert await matching_ids(tenant, match("profile.city", "Graz")) == []
    with refused(grpc.StatusCode.ALREADY_EXISTS, "SUBJECT_DELETED"):
        await make(tenant, "a")
    await tenant.tenancy.PurgeSubject(pb.PurgeSubjectRequest(subject_id="a"))
    assert (await make(tenant, "a")).revision == 1


async def test_subjects_are_paged_by_id_and_filtered_by_status(tenant: Tenant) -> None:
    names = ["b", "a", "ä", "C", "a/1"]
    for name in names:
        await make(tenant, name, profile=facts(kind="x"), status=pb.SUBJECT_STATUS_ACTIVE)
    await make(tenant, "aa", profile=facts(kind="x"), status=pb.SUBJECT_STATUS_INACTIVE)

    for properties in ([], [match("profile.kind", "x")]):
        seen: list[str] = []
        request = pb.ListSubjectsRequest(page_size=2, properties=properties, status=pb.SUBJECT_STATUS_ACTIVE)
        while True:
            page = await tenant.tenancy.ListSubjects(request)
            seen += [subject.subject_id for subject in page.subjects]
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert seen == sorted(names)
    assert await matching_ids(tenant, status=pb.SUBJECT_STATUS_INACTIVE) == ["aa"]


TENANT = uuid.UUID(int=1)
FILL = """
    SET session_replication_role = replica;
    INSERT INTO tenancy.subjects
        (tenant_id, subject_id, display_name, status, create_time, update_time, created_by, updated_by, writers)
    SELECT lpad(to_hex(1 + n % 5), 32, '0')::uuid, 'subject ' || n, '', 'active', now(), now(), 'test', 'test', '{}'
    FROM generate_series(1, 5000) AS n;
    INSERT INTO tenancy.subject_properties (tenant_id, path, value, subject_id)
    SELECT tenant_id, 'profile.p' || p, to_json('v' || (hashtext(subject_id) & 255) / p)::text, subject_id
    FROM tenancy.subjects, generate_series(1, 40) AS p;
"""


@pytest.mark.system
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_search_by_properties_reads_the_key_of_properties_alone(database: TestDatabase, count: int) -> None:
    async with database.superuser() as superuser:
        await superuser.execute(FILL)
        await vacuum(superuser)
    properties = [(f"profile.p{number}", '"v7"') for number in range(1, count + 1)]
    query = QUERIES["list_subjects_with_properties"]
    page = {
        "tenant_id": TENANT,
        "status": None,
        "show_deleted": False,
        "after": "",
        "after_space_id": uuid.UUID(int=0),
        "size": 51,
    }
    values = {**page, **property_parameters(properties)}

    async with database.role("tenancy") as connection:
        await connection.execute(f"SET skein.tenant_id = '{TENANT}'")
        rows = await connection.fetch(f"EXPLAIN {query.text}", *query.bind(values))

    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan, plan
    # Whether a subject that was found by its key is deleted, and in which space it lies, is read from its row.
    filters = [line for line in plan.splitlines() if line.strip().startswith("Filter: ")]
    assert not any(column in line for line in filters for column in ("path", "value", "subject_id")), plan
    assert "subject_properties_pkey" in plan, plan


async def test_properties_go_with_the_change_that_was_refused(cluster: Cluster, tenant: Tenant) -> None:
    await make(tenant, "a", profile=facts(city="Graz"))

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await tenant.tenancy.UpdateSubject(
            pb.UpdateSubjectRequest(subject=pb.Subject(subject_id="a", profile=facts(city="Li\0nz")))
        )

    async with cluster.superuser() as connection:
        rows = await connection.fetch(
            "SELECT path, value FROM tenancy.subject_properties WHERE tenant_id = $1", tenant.tenant_id
        )
    assert [tuple(row) for row in rows] == [("profile.city", '"Graz"')]
