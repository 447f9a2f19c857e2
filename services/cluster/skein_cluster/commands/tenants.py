"""`skein tenants`: the operator creates, lists and deletes tenants."""

from __future__ import annotations

from datetime import timedelta

import click
from rich.text import Text

from skein.tenancy.v1 import members_pb2, tenancy_pb2
from skein_cluster.api.client import as_operator
from skein_cluster.api.tenants import create_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_cluster.commands.members import invite_command, members_command


@click.group()
def tenants_command() -> None:
    """Create, list and delete tenants, and manage their members (as the operator)."""


tenants_command.add_command(members_command, "members")
tenants_command.add_command(invite_command, "invite")


@tenants_command.command("create")
@click.argument("name")
@options.cluster_answer
async def create(name: str, environment: dict[str, str]) -> options.Answer:
    """Create a tenant called NAME and an API key with all permissions in it; the key is shown only once."""
    async with as_operator(environment) as api:
        tenant_id, api_key = await create_tenant(api, name)
    yield {"tenant_id": tenant_id, "api_key": api_key}
    output.echo(f"tenant   {tenant_id}\napi key  {api_key}")
    output.stderr_console().print(Text("The key is shown only once. Use it as SKEIN_API_KEY."))


@tenants_command.command("list")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str]) -> options.Answer:
    """List tenants, newest first."""
    async with as_operator(environment) as api:
        request = tenancy_pb2.ListTenantsRequest(page_size=limit)
        tenants = await list_first(limit, api.tenancy.ListTenants, request, "tenants")
    yield {"tenants": tenants}
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
@options.cluster_answer
async def delete(tenant_id: str, days: float | None, environment: dict[str, str]) -> options.Answer:
    """Delete TENANT_ID. Calls are refused at once; after the grace all its rows are purged."""
    request = tenancy_pb2.DeleteTenantRequest(tenant_id=tenant_id)
    if days is not None:
        request.grace.FromTimedelta(timedelta(days=days))
    async with as_operator(environment) as api:
        response = (await api.tenancy.DeleteTenant(request)).deletion
    yield response
    _show(response)


@tenants_command.command("undelete")
@click.argument("tenant_id")
@options.cluster_answer
async def undelete(tenant_id: str, environment: dict[str, str]) -> options.Answer:
    """Undelete TENANT_ID, before the purge of its rows begins."""
    async with as_operator(environment) as api:
        request = members_pb2.UndeleteTenantRequest(tenant_id=tenant_id)
        response = (await api.tenancy.UndeleteTenant(request)).deletion
    yield response
    _show(response)


@tenants_command.command("deletion")
@click.argument("tenant_id")
@options.cluster_answer
async def deletion_(tenant_id: str, environment: dict[str, str]) -> options.Answer:
    """Show the progress of the deletion of TENANT_ID, and the numbers of purged rows."""
    async with as_operator(environment) as api:
        response = (await api.tenancy.GetDeletion(members_pb2.GetDeletionRequest(tenant_id=tenant_id))).deletion
    yield response
    _show(response)


def _show(deletion: members_pb2.Deletion) -> None:
    state = members_pb2.DeletionState.Name(deletion.state).removeprefix("DELETION_STATE_").lower()
    output.echo(f"state    {state} {deletion.stage}".rstrip())
    output.echo(f"purge    {output.format_time(deletion.purge_time)}")
    for table, rows in sorted(deletion.deleted_counts.items()):
        output.echo(f"{rows:>8} {table}")
