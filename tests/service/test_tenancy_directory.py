from __future__ import annotations

import asyncio
import uuid

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from grpc import aio

from skein.tenancy.v1 import tenancy_pb2 as pb

MISSING_ID = str(uuid.UUID(int=7))


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:12]}"


def facts(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


@pytest.fixture
async def organization(cluster: Cluster) -> pb.Organization:
    """An organization of the test's own."""
    request = pb.CreateOrganizationRequest(organization=pb.Organization(display_name=unique("Home")))
    return (await cluster.operator.tenancy.CreateOrganization(request)).organization


async def tenant_in(
    organization: pb.Organization, cluster: Cluster, *, display_name: str = "", slug: str = ""
) -> pb.Tenant:
    message = pb.Tenant(organization_id=organization.organization_id, display_name=display_name, slug=slug)
    return (await cluster.operator.tenancy.CreateTenant(pb.CreateTenantRequest(tenant=message))).tenant


# Organizations


async def test_an_organization_comes_back_as_it_was_made(cluster: Cluster) -> None:
    slug = unique("acme")
    message = pb.Organization(display_name="Acme & Söhne", slug=slug, metadata=facts(plan="home", seats=3))

    made = await cluster.operator.tenancy.CreateOrganization(pb.CreateOrganizationRequest(organization=message))
    organization_id = made.organization.organization_id
    read = await cluster.operator.tenancy.GetOrganization(pb.GetOrganizationRequest(organization_id=organization_id))

    assert read.organization == made.organization
    assert (read.organization.display_name, read.organization.slug) == ("Acme & Söhne", slug)
    assert read.organization.metadata == message.metadata
    assert read.organization.revision == 1
    assert read.organization.create_time == read.organization.update_time


async def test_a_slug_that_was_chosen_is_never_altered(cluster: Cluster, organization: pb.Organization) -> None:
    message = pb.Organization(display_name="Another", slug=organization.slug)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "ORGANIZATION_EXISTS"):
        await cluster.operator.tenancy.CreateOrganization(pb.CreateOrganizationRequest(organization=message))


async def test_an_organization_needs_a_name_or_a_slug(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await cluster.operator.tenancy.CreateOrganization(
            pb.CreateOrganizationRequest(organization=pb.Organization(display_name="  "))
        )


async def test_organizations_are_paged_newest_first(cluster: Cluster) -> None:
    made = []
    for _ in range(3):
        request = pb.CreateOrganizationRequest(organization=pb.Organization(display_name=unique("Paged")))
        made.append((await cluster.operator.tenancy.CreateOrganization(request)).organization.organization_id)

    seen: list[str] = []
    token = ""
    while not set(made) <= set(seen):
        page = await cluster.operator.tenancy.ListOrganizations(
            pb.ListOrganizationsRequest(page_size=2, page_token=token)
        )
        seen += [organization.organization_id for organization in page.organizations]
        token = page.next_page_token
        assert token or set(made) <= set(seen)

    assert len(set(seen)) == len(seen)
    assert sorted(seen, reverse=True) == seen


async def test_an_organization_cannot_take_the_slug_of_another(cluster: Cluster, organization: pb.Organization) -> None:
    other = await cluster.operator.tenancy.CreateOrganization(
        pb.CreateOrganizationRequest(organization=pb.Organization(display_name=unique("Other")))
    )
    message = pb.Organization(organization_id=other.organization.organization_id, slug=organization.slug)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "ORGANIZATION_EXISTS"):
        await cluster.operator.tenancy.UpdateOrganization(
            pb.UpdateOrganizationRequest(organization=message, update_mask=FieldMask(paths=["slug"]))
        )


async def test_fields_that_the_service_sets_cannot_be_updated(cluster: Cluster, organization: pb.Organization) -> None:
    message = pb.Organization(organization_id=organization.organization_id)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await cluster.operator.tenancy.UpdateOrganization(
            pb.UpdateOrganizationRequest(organization=message, update_mask=FieldMask(paths=["create_time"]))
        )


@over("organization_id", [MISSING_ID, "not-an-id"])
async def test_an_unknown_organization_is_not_updated(cluster: Cluster, organization_id: str) -> None:
    message = pb.Organization(organization_id=organization_id, display_name="x", slug="x")

    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await cluster.operator.tenancy.UpdateOrganization(pb.UpdateOrganizationRequest(organization=message))


async def test_a_deleted_organization_is_gone_and_its_slug_free(
    cluster: Cluster, organization: pb.Organization
) -> None:
    tenancy = cluster.operator.tenancy
    organization_id = organization.organization_id
    await tenancy.DeleteOrganization(pb.DeleteOrganizationRequest(organization_id=organization_id))

    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenancy.GetOrganization(pb.GetOrganizationRequest(organization_id=organization_id))
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenancy.DeleteOrganization(pb.DeleteOrganizationRequest(organization_id=organization_id))
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenant_in(organization, cluster, display_name="Late")
    message = pb.Organization(display_name="Next", slug=organization.slug)
    await tenancy.CreateOrganization(pb.CreateOrganizationRequest(organization=message))


async def test_an_organization_with_tenants_is_not_deleted(cluster: Cluster, organization: pb.Organization) -> None:
    tenancy = cluster.operator.tenancy
    request = pb.DeleteOrganizationRequest(organization_id=organization.organization_id)
    tenant = await tenant_in(organization, cluster, display_name="Resident")

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "ORGANIZATION_NOT_EMPTY"):
        await tenancy.DeleteOrganization(request)

    await tenancy.DeleteTenant(pb.DeleteTenantRequest(tenant_id=tenant.tenant_id))
    await tenancy.DeleteOrganization(request)


async def test_a_tenant_never_appears_in_an_organization_that_is_being_deleted(cluster: Cluster) -> None:
    tenancy = cluster.operator.tenancy
    for _ in range(5):
        made = await tenancy.CreateOrganization(
            pb.CreateOrganizationRequest(organization=pb.Organization(display_name=unique("Race")))
        )

        deleted, created = await asyncio.gather(
            tenancy.DeleteOrganization(pb.DeleteOrganizationRequest(organization_id=made.organization.organization_id)),
            tenant_in(made.organization, cluster, display_name="Racer"),
            return_exceptions=True,
        )

        assert isinstance(deleted, aio.AioRpcError) != isinstance(created, aio.AioRpcError)


# Tenants


async def test_a_tenant_comes_back_as_it_was_made(cluster: Cluster, organization: pb.Organization) -> None:
    message = pb.Tenant(
        organization_id=organization.organization_id,
        display_name="Kitchen",
        slug="kitchen",
        metadata=facts(floor="ground"),
    )

    made = await cluster.operator.tenancy.CreateTenant(pb.CreateTenantRequest(tenant=message))
    read = await cluster.operator.tenancy.GetTenant(pb.GetTenantRequest(tenant_id=made.tenant.tenant_id))

    assert read.tenant == made.tenant
    assert read.tenant.organization_id == organization.organization_id
    assert (read.tenant.display_name, read.tenant.slug, read.tenant.revision) == ("Kitchen", "kitchen", 1)
    assert read.tenant.metadata == message.metadata


async def test_a_tenant_without_an_organization_joins_the_oldest(cluster: Cluster) -> None:
    oldest, token = "", "first"
    while token:
        page = await cluster.operator.tenancy.ListOrganizations(
            pb.ListOrganizationsRequest(page_size=1000, page_token=token.removeprefix("first"))
        )
        oldest, token = page.organizations[-1].organization_id, page.next_page_token

    made = await cluster.operator.tenancy.CreateTenant(
        pb.CreateTenantRequest(tenant=pb.Tenant(display_name=unique("Guest")))
    )

    assert made.tenant.organization_id == oldest


async def test_a_slug_is_made_from_the_name_and_kept_unique(cluster: Cluster, organization: pb.Organization) -> None:
    made = await asyncio.gather(*(tenant_in(organization, cluster, display_name="Das Büro!") for _ in range(6)))

    slugs = {tenant.slug for tenant in made}
    assert len(slugs) == 6
    assert "das-buro" in slugs
    assert all(slug.startswith("das-buro") for slug in slugs)


async def test_a_chosen_slug_is_unique_in_its_organization_alone(
    cluster: Cluster, organization: pb.Organization
) -> None:
    elsewhere = await cluster.operator.tenancy.CreateOrganization(
        pb.CreateOrganizationRequest(organization=pb.Organization(display_name=unique("Else")))
    )
    await tenant_in(organization, cluster, slug="attic")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "TENANT_EXISTS"):
        await tenant_in(organization, cluster, slug="attic")
    assert (await tenant_in(elsewhere.organization, cluster, slug="attic")).slug == "attic"


async def test_concurrent_repeats_of_a_request_make_one_tenant(cluster: Cluster, organization: pb.Organization) -> None:
    message = pb.Tenant(organization_id=organization.organization_id, display_name="Once")
    request = pb.CreateTenantRequest(tenant=message, request_id=unique("r"))

    answers = await asyncio.gather(*(cluster.operator.tenancy.CreateTenant(request) for _ in range(8)))
    listed = await cluster.operator.tenancy.ListTenants(
        pb.ListTenantsRequest(organization_id=organization.organization_id)
    )

    assert all(answer == answers[0] for answer in answers)
    assert list(listed.tenants) == [answers[0].tenant]


async def test_a_refused_request_can_be_corrected_under_its_id(cluster: Cluster, organization: pb.Organization) -> None:
    await tenant_in(organization, cluster, slug="taken")
    message = pb.Tenant(organization_id=organization.organization_id, slug="taken")
    request = pb.CreateTenantRequest(tenant=message, request_id=unique("r"))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "TENANT_EXISTS"):
        await cluster.operator.tenancy.CreateTenant(request)
    request.tenant.slug = "free"

    made = await cluster.operator.tenancy.CreateTenant(request)

    assert made.tenant.slug == "free"


async def test_a_tenant_of_an_unknown_organization_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "ORGANIZATION_NOT_FOUND"):
        await tenant_in(pb.Organization(organization_id=MISSING_ID), cluster, display_name="Lost")


async def test_text_that_cannot_be_stored_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await cluster.operator.tenancy.CreateTenant(
            pb.CreateTenantRequest(tenant=pb.Tenant(display_name="nul \0 inside", slug=unique("nul")))
        )


async def test_a_slug_with_other_characters_is_refused(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await cluster.operator.tenancy.CreateTenant(pb.CreateTenantRequest(tenant=pb.Tenant(slug="No Spaces")))


async def test_tenants_of_an_organization_are_paged_newest_first(
    cluster: Cluster, organization: pb.Organization
) -> None:
    made = [(await tenant_in(organization, cluster, display_name=f"T{number}")).tenant_id for number in range(5)]
    request = pb.ListTenantsRequest(page_size=2, organization_id=organization.organization_id)

    seen: list[list[str]] = []
    while True:
        page = await cluster.operator.tenancy.ListTenants(request)
        seen.append([tenant.tenant_id for tenant in page.tenants])
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break

    assert [len(part) for part in seen] == [2, 2, 1]
    assert [tenant_id for part in seen for tenant_id in part] == sorted(made, reverse=True)


async def test_a_tenant_renames_itself_once_for_each_request(tenant: Tenant) -> None:
    message = pb.Tenant(tenant_id=str(tenant.tenant_id), display_name="Renamed", metadata=facts(a=1), revision=1)
    request = pb.UpdateTenantRequest(
        tenant=message, update_mask=FieldMask(paths=["display_name", "metadata"]), request_id="r"
    )

    first = await tenant.tenancy.UpdateTenant(request)
    again = await tenant.tenancy.UpdateTenant(request)

    assert again == first
    assert (first.tenant.display_name, first.tenant.revision) == ("Renamed", 2)
    assert first.tenant.metadata == message.metadata


async def test_one_of_concurrent_updates_of_one_revision_wins(tenant: Tenant) -> None:
    def update(number: int) -> pb.UpdateTenantRequest:
        message = pb.Tenant(tenant_id=str(tenant.tenant_id), display_name=f"N{number}", revision=1)
        return pb.UpdateTenantRequest(tenant=message, update_mask=FieldMask(paths=["display_name"]))

    results = await asyncio.gather(
        *(tenant.tenancy.UpdateTenant(update(number)) for number in range(6)), return_exceptions=True
    )

    won = [result for result in results if isinstance(result, pb.UpdateTenantResponse)]
    lost = [result.code() for result in results if isinstance(result, aio.AioRpcError)]
    assert len(won) == 1
    assert lost == [grpc.StatusCode.ABORTED] * 5


async def test_an_operator_s_update_without_a_mask_must_not_empty_the_slug(cluster: Cluster, tenant: Tenant) -> None:
    message = pb.Tenant(tenant_id=str(tenant.tenant_id), display_name="Only this")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await cluster.operator.tenancy.UpdateTenant(pb.UpdateTenantRequest(tenant=message))


async def test_a_tenant_learns_no_slug_of_its_neighbours(cluster: Cluster, tenant: Tenant) -> None:
    own = (await tenant.tenancy.GetTenant(pb.GetTenantRequest())).tenant
    neighbour = await tenant_in(pb.Organization(organization_id=own.organization_id), cluster, display_name="Next door")

    for slug in (neighbour.slug, unique("free"), own.slug):
        message = pb.Tenant(tenant_id=own.tenant_id, slug=slug)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
            await tenant.tenancy.UpdateTenant(
                pb.UpdateTenantRequest(tenant=message, update_mask=FieldMask(paths=["slug"]))
            )


async def test_a_tenant_s_update_without_a_mask_leaves_its_slug_alone(cluster: Cluster, tenant: Tenant) -> None:
    own = (await tenant.tenancy.GetTenant(pb.GetTenantRequest())).tenant
    neighbour = await tenant_in(pb.Organization(organization_id=own.organization_id), cluster, display_name="Next door")
    message = pb.Tenant(tenant_id=own.tenant_id, display_name="Renamed", slug=neighbour.slug, metadata=facts(a=1))

    updated = (await tenant.tenancy.UpdateTenant(pb.UpdateTenantRequest(tenant=message))).tenant

    assert (updated.slug, updated.display_name, updated.metadata) == (own.slug, "Renamed", message.metadata)


async def test_the_operator_changes_a_slug(cluster: Cluster, tenant: Tenant) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    for operator in (cluster.operator, acting):
        slug = unique("moved")
        message = pb.Tenant(tenant_id=str(tenant.tenant_id), slug=slug)

        updated = await operator.tenancy.UpdateTenant(
            pb.UpdateTenantRequest(tenant=message, update_mask=FieldMask(paths=["slug"]))
        )

        assert updated.tenant.slug == slug


async def test_a_tenant_cannot_take_the_slug_of_another(cluster: Cluster, organization: pb.Organization) -> None:
    await tenant_in(organization, cluster, slug="cellar")
    other = await tenant_in(organization, cluster, slug="garage")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "TENANT_EXISTS"):
        await cluster.operator.tenancy.UpdateTenant(
            pb.UpdateTenantRequest(
                tenant=pb.Tenant(tenant_id=other.tenant_id, slug="cellar"), update_mask=FieldMask(paths=["slug"])
            )
        )


async def test_the_organization_of_a_tenant_cannot_be_updated(tenant: Tenant) -> None:
    message = pb.Tenant(tenant_id=str(tenant.tenant_id), organization_id=MISSING_ID)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await tenant.tenancy.UpdateTenant(
            pb.UpdateTenantRequest(tenant=message, update_mask=FieldMask(paths=["organization_id"]))
        )


async def test_a_deleted_tenant_is_gone_from_every_list(cluster: Cluster, organization: pb.Organization) -> None:
    tenancy = cluster.operator.tenancy
    made = await tenant_in(organization, cluster, display_name="Brief")
    await tenancy.DeleteTenant(pb.DeleteTenantRequest(tenant_id=made.tenant_id))

    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.GetTenant(pb.GetTenantRequest(tenant_id=made.tenant_id))
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.DeleteTenant(pb.DeleteTenantRequest(tenant_id=made.tenant_id))
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await tenancy.UpdateTenant(
            pb.UpdateTenantRequest(tenant=pb.Tenant(tenant_id=made.tenant_id, display_name="x", slug="x"))
        )
    listed = await tenancy.ListTenants(pb.ListTenantsRequest(organization_id=organization.organization_id))
    assert not listed.tenants


async def test_an_operator_in_no_tenant_has_none_of_its_own(cluster: Cluster) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await cluster.operator.tenancy.GetTenant(pb.GetTenantRequest())
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await cluster.operator.tenancy.ListAgents(pb.ListAgentsRequest())
