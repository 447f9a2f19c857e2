from __future__ import annotations

import uuid

import grpc
import pytest
from fix_cluster import refused
from fix_database import TestDatabase
from fix_tenancy import OPERATOR, ROLES, Person, Tenancy, key_of, serving
from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.identity import permissions
from skein_kit.identity.identity_token import Caller


def create(
    name: str = "Mine", *, request_id: str = "", slug: str = "", organization_id: str = ""
) -> pb.CreateTenantRequest:
    tenant = pb.Tenant(display_name=name, slug=slug, organization_id=organization_id)
    return pb.CreateTenantRequest(tenant=tenant, request_id=request_id)


def application(person: Person, tenant_id: uuid.UUID, role: str) -> Caller:
    """Return an application that a member let into one tenant."""
    return Caller(
        principal=f"account:{person.account_id}",
        tenant_id=tenant_id,
        permissions=frozenset({"tenant.read", "memory.read"}),
        account_id=person.account_id,
        client_id="app",
        role=role,
    )


async def visible_tenants(tenancy: Tenancy, who: Caller) -> dict[str, members_pb2.Role]:
    listed = await tenancy.calls(who).ListTenants(pb.ListTenantsRequest(page_size=1000))
    return {tenant.tenant_id: tenant.role for tenant in listed.tenants}


# What accounts see


@pytest.mark.system
async def test_an_account_sees_the_tenants_that_it_is_a_member_of_and_its_roles(tenancy: Tenancy) -> None:
    person = Person.new()
    mine, also_mine, not_mine = [await tenancy.new_tenant() for _ in range(3)]
    await tenancy.joined(mine, "owner", person)
    await tenancy.joined(also_mine, "viewer", person)
    await tenancy.joined(not_mine, "owner")

    read = await tenancy.calls(person.caller()).GetTenant(pb.GetTenantRequest(tenant_id=str(mine)))
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.calls(person.caller()).GetTenant(pb.GetTenantRequest(tenant_id=str(not_mine)))

    assert (read.tenant.tenant_id, read.tenant.role) == (str(mine), ROLES["owner"])
    assert await visible_tenants(tenancy, person.caller()) == {
        str(mine): ROLES["owner"],
        str(also_mine): ROLES["viewer"],
    }
    assert await visible_tenants(tenancy, Person.new().caller()) == {}


@pytest.mark.system
async def test_an_account_that_acts_in_a_tenant_sees_that_one(tenancy: Tenancy) -> None:
    person = Person.new()
    here, elsewhere = [await tenancy.new_tenant() for _ in range(2)]
    await tenancy.joined(here, "admin", person)
    await tenancy.joined(elsewhere, "admin", person)
    acting = person.caller(here, "admin")

    read = await tenancy.calls(acting).GetTenant(pb.GetTenantRequest())
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.calls(acting).GetTenant(pb.GetTenantRequest(tenant_id=str(elsewhere)))

    assert (read.tenant.tenant_id, read.tenant.role) == (str(here), ROLES["admin"])
    assert await visible_tenants(tenancy, acting) == {str(here): ROLES["admin"]}


async def test_an_application_sees_the_tenant_that_it_was_let_into(tenancy: Tenancy) -> None:
    person = Person.new()
    here, elsewhere = [await tenancy.new_tenant() for _ in range(2)]
    await tenancy.joined(here, "member", person)
    await tenancy.joined(elsewhere, "member", person)

    assert await visible_tenants(tenancy, application(person, here, "member")) == {str(here): ROLES["member"]}
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.calls(application(person, here, "member")).GetTenant(
            pb.GetTenantRequest(tenant_id=str(elsewhere))
        )


async def test_keys_and_operators_have_no_role(tenancy: Tenancy) -> None:
    tenant_id = await tenancy.new_tenant()
    await tenancy.joined(tenant_id, "owner")

    assert await visible_tenants(tenancy, key_of(tenant_id)) == {str(tenant_id): members_pb2.ROLE_UNSPECIFIED}
    assert set((await visible_tenants(tenancy, OPERATOR)).values()) == {members_pb2.ROLE_UNSPECIFIED}


async def test_deleted_tenants_are_gone_from_an_account_s_list(tenancy: Tenancy) -> None:
    tenant_id = await tenancy.new_tenant()
    person = await tenancy.joined(tenant_id, "owner")

    await tenancy.calls(OPERATOR).DeleteTenant(pb.DeleteTenantRequest(tenant_id=str(tenant_id)))

    assert await visible_tenants(tenancy, person.caller()) == {}
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.calls(person.caller()).GetTenant(pb.GetTenantRequest(tenant_id=str(tenant_id)))


@pytest.mark.system
async def test_an_account_pages_through_its_tenants_newest_first(tenancy: Tenancy) -> None:
    person = Person.new()
    tenant_ids = [await tenancy.new_tenant() for _ in range(5)]
    for tenant_id in tenant_ids:
        await tenancy.joined(tenant_id, "viewer", person)

    results: list[str] = []
    request = pb.ListTenantsRequest(page_size=2)
    while True:
        page = await tenancy.calls(person.caller()).ListTenants(request)
        results += [tenant.tenant_id for tenant in page.tenants]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token

    assert results == [str(tenant_id) for tenant_id in reversed(tenant_ids)]


async def test_an_account_changes_the_tenant_in_which_it_acts_but_not_its_slug(tenancy: Tenancy) -> None:
    person = Person.new()
    here, elsewhere = [await tenancy.new_tenant() for _ in range(2)]
    await tenancy.joined(here, "admin", person)
    await tenancy.joined(elsewhere, "admin", person)
    acting = tenancy.calls(person.caller(here, "admin"))

    changed = await acting.UpdateTenant(
        pb.UpdateTenantRequest(
            tenant=pb.Tenant(tenant_id=str(here), display_name="new"), update_mask=FieldMask(paths=["display_name"])
        )
    )
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await acting.UpdateTenant(
            pb.UpdateTenantRequest(
                tenant=pb.Tenant(tenant_id=str(elsewhere), display_name="new"),
                update_mask=FieldMask(paths=["display_name"]),
            )
        )
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await acting.UpdateTenant(
            pb.UpdateTenantRequest(
                tenant=pb.Tenant(tenant_id=str(here), slug="s"), update_mask=FieldMask(paths=["slug"])
            )
        )

    assert changed.tenant.display_name == "new"


# What accounts make


async def test_an_account_owns_the_tenant_that_it_makes(tenancy: Tenancy) -> None:
    person = Person.new()

    made = await tenancy.calls(person.caller()).CreateTenant(create())

    tenant_id = uuid.UUID(made.tenant.tenant_id)
    assert made.tenant.role == ROLES["owner"]
    assert await tenancy.roles(tenant_id) == {person.account_id: "owner"}
    assert await visible_tenants(tenancy, person.caller()) == {made.tenant.tenant_id: ROLES["owner"]}
    response = await tenancy.internal().GetMembership(
        members_pb2.GetMembershipRequest(tenant_id=str(tenant_id), account_id=str(person.account_id))
    )
    assert response.role == ROLES["owner"]


async def test_the_maker_of_a_tenant_is_counted_among_its_members(tenancy: Tenancy) -> None:
    made = await tenancy.calls(Person.new().caller()).CreateTenant(create())

    async with tenancy.database.superuser() as connection:
        counted = await connection.fetch("SELECT tenant_id, kind, amount FROM tenancy.usage")
    assert [tuple(row) for row in counted] == [(uuid.UUID(made.tenant.tenant_id), "members", 1)]


async def test_an_account_does_not_learn_which_slugs_are_taken(tenancy: Tenancy) -> None:
    slugs = [
        (await tenancy.calls(Person.new().caller()).CreateTenant(create(f"Name {uuid.uuid4().hex[:8]}"))).tenant.slug
        for _ in range(2)
    ]

    assert all(len(slug) == len("name-01234567-012345") for slug in slugs)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenancy.calls(Person.new().caller()).CreateTenant(create(slug="wanted"))


async def test_an_account_owns_no_more_tenants_than_its_limit(database: TestDatabase) -> None:
    """Each tenant brings allowances of calls: with as many as one likes there would be no limit on calls."""
    person, other = Person.new(), Person.new()
    async with serving(database, SKEIN_ADVANCED_ACCOUNTS_MAX_TENANTS="2") as tenancy:
        await tenancy.calls(OPERATOR).CreateOrganization(
            pb.CreateOrganizationRequest(organization=pb.Organization(slug="default"))
        )
        first = await tenancy.calls(person.caller()).CreateTenant(create(request_id="1"))
        await tenancy.calls(person.caller()).CreateTenant(create())

        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
            await tenancy.calls(person.caller()).CreateTenant(create())

        assert await tenancy.calls(person.caller()).CreateTenant(create(request_id="1")) == first
        assert len(await visible_tenants(tenancy, person.caller())) == 2
        await tenancy.calls(other.caller()).CreateTenant(create())


async def test_an_account_chooses_neither_the_organization_nor_another_owner(tenancy: Tenancy) -> None:
    acting = tenancy.calls(Person.new().caller())

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await acting.CreateTenant(create(organization_id=str(uuid.uuid4())))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await acting.CreateTenant(
            pb.CreateTenantRequest(tenant=pb.Tenant(display_name="x"), owner_account_id=str(uuid.uuid4()))
        )


async def test_an_account_without_the_right_makes_no_tenant(tenancy: Tenancy) -> None:
    person = Person.new()
    tenant_id = await tenancy.new_tenant()
    may_not = Caller(
        principal=f"account:{person.account_id}",
        tenant_id=None,
        permissions=frozenset({permissions.ACCOUNT, "tenant.read"}),
        account_id=person.account_id,
    )

    for who in (may_not, key_of(tenant_id)):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await tenancy.calls(who).CreateTenant(create())


async def test_tenants_of_accounts_belong_to_the_organization_of_the_settings(database: TestDatabase) -> None:
    async with serving(database, SKEIN_ACCOUNTS_ORGANIZATION="people") as tenancy:
        with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
            await tenancy.calls(Person.new().caller()).CreateTenant(create())
        organizations = [
            (
                await tenancy.calls(OPERATOR).CreateOrganization(
                    pb.CreateOrganizationRequest(organization=pb.Organization(slug=slug))
                )
            ).organization.organization_id
            for slug in ("default", "people")
        ]

        theirs = await tenancy.calls(Person.new().caller()).CreateTenant(create())
        operators = await tenancy.calls(OPERATOR).CreateTenant(create())

    assert [operators.tenant.organization_id, theirs.tenant.organization_id] == organizations


@pytest.mark.system
async def test_a_tenant_whose_insert_deadlocks_is_created_all_the_same(tenancy: Tenancy) -> None:
    async with tenancy.database.superuser() as connection:
        await connection.execute(
            """
            CREATE SEQUENCE public.tries;
            GRANT USAGE ON public.tries TO PUBLIC;
            CREATE FUNCTION public.give_way() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('public.tries') < 3 THEN RAISE deadlock_detected; END IF; RETURN NEW; END $$;
            CREATE TRIGGER give_way BEFORE INSERT ON tenancy.tenants
                FOR EACH ROW EXECUTE FUNCTION public.give_way();
            """
        )

    made = await tenancy.calls(Person.new().caller()).CreateTenant(create(request_id="r"))

    assert made.tenant.tenant_id
