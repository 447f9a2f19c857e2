"""`skein tenants`: the operator creates, lists and deletes tenants."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.tenancy.v1 import members_pb2, tenancy_pb2
from skein_cluster.api.client import as_operator
from skein_cluster.api.tenants import create_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.pagination import list_first
from skein_cluster.commands.members import invite_command, members_command

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def tenants_command() -> None:
    """Create, list and delete tenants, and manage their members (as the operator)."""


tenants_command.add_command(members_command, "members")
tenants_command.add_command(invite_command, "invite")


@tenants_command.command("create")
@click.argument("name")
@options.cluster_options
@options.json_option
def create(name: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Create a tenant called NAME and an API key with all permissions in it; the key is shown only once."""
    tenant_id, api_key = asyncio.run(_create(environment, name))
    if as_json:
        output.print_json({"tenant_id": tenant_id, "api_key": api_key})
        return
    output.echo(f"tenant   {tenant_id}\napi key  {api_key}")
    output.stderr_console().print(Text("The key is shown only once. Use it as SKEIN_API_KEY."))


@tenants_command.command("list")
@options.limit_option
@options.cluster_options
@options.json_option
def list_(limit: int, environment: dict[str, str], *, as_json: bool) -> None:
    """List tenants, newest first."""
    tenants = asyncio.run(_list(environment, limit))
    if as_json:
        output.print_json({"tenants": [output.message_to_dict(tenant) for tenant in tenants]})
        return
    lines = [
        (tenant.tenant_id, tenant.display_name, tenant.slug, output.format_time(tenant.create_time))
        for tenant in tenants
    ]
    output.print_table(
        output.table("tenant", "name", "slug", "created", ids=("tenant",)), lines, empty="There are no tenants."
    )


@tenants_command.command("delete")
@click.argument("tenant_id")
@click.option("--days", type=click.FloatRange(0, 365), help="Days until its rows are purged; default: a setting.")
@options.cluster_options
@options.json_option
def delete(tenant_id: str, days: float | None, environment: dict[str, str], *, as_json: bool) -> None:
    """Delete TENANT_ID. Calls are refused at once; after the grace all its rows are purged."""
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=tenant_id)
    if days is not None:
        request.grace.FromTimedelta(timedelta(days=days))
    _show(asyncio.run(_delete(environment, request)), as_json=as_json)


@tenants_command.command("undelete")
@click.argument("tenant_id")
@options.cluster_options
@options.json_option
def undelete(tenant_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Undelete TENANT_ID, before the purge of its rows begins."""
    _show(asyncio.run(_undelete(environment, tenant_id)), as_json=as_json)


@tenants_command.command("deletion")
@click.argument("tenant_id")
@options.cluster_options
@options.json_option
def deletion_(tenant_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """Show the progress of the deletion of TENANT_ID, and the numbers of purged rows."""
    _show(asyncio.run(_deletion(environment, tenant_id)), as_json=as_json)


def _show(deletion: members_pb2.Deletion, *, as_json: bool) -> None:
    if as_json:
        output.print_json(output.message_to_dict(deletion))
        return
    state = members_pb2.DeletionState.Name(deletion.state).removeprefix("DELETION_STATE_").lower()
    output.echo(f"state    {state} {deletion.stage}".rstrip())
    output.echo(f"purge    {output.format_time(deletion.purge_time)}")
    for table, rows in sorted(deletion.deleted_counts.items()):
        output.echo(f"{rows:>8} {table}")


async def _delete(environment: Mapping[str, str], request: tenancy_pb2.DeleteTenantRequest) -> members_pb2.Deletion:
    async with as_operator(environment) as api:
        return (await api.tenancy.DeleteTenant(request)).deletion


async def _undelete(environment: Mapping[str, str], tenant_id: str) -> members_pb2.Deletion:
    async with as_operator(environment) as api:
        request = members_pb2.UndeleteTenantRequest(tenant_id=tenant_id)
        return (await api.tenancy.UndeleteTenant(request)).deletion


async def _deletion(environment: Mapping[str, str], tenant_id: str) -> members_pb2.Deletion:
    async with as_operator(environment) as api:
        return (await api.tenancy.GetDeletion(members_pb2.GetDeletionRequest(tenant_id=tenant_id))).deletion


async def _create(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    async with as_operator(environment) as api:
        return await create_tenant(api, name)


async def _list(environment: Mapping[str, str], limit: int) -> list[tenancy_pb2.Tenant]:
    async with as_operator(environment) as api:
        request = tenancy_pb2.ListTenantsRequest(page_size=limit)
        return await list_first(limit, api.tenancy.ListTenants, request, "tenants")
