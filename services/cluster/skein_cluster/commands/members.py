"""`skein tenants members` and `skein tenants invite`: the operator's commands for members of a tenant."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import click
from rich.text import Text

from skein.auth.v1 import accounts_pb2
from skein.tenancy.v1 import members_pb2
from skein_client.client import Client
from skein_cluster.api.client import open_client, operator_connection
from skein_cluster.api.tenants import find_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first

_ROLES = {
    "viewer": members_pb2.ROLE_VIEWER,
    "member": members_pb2.ROLE_MEMBER,
    "admin": members_pb2.ROLE_ADMIN,
    "owner": members_pb2.ROLE_OWNER,
}
_NAMES = {value: name for name, value in _ROLES.items()}
_role = click.argument("role", type=click.Choice(list(_ROLES)))
_tenant = click.argument("tenant_id", metavar="TENANT")
_account = click.argument("account")


@click.group()
def members_command() -> None:
    """List, add, change and remove members of a tenant. ACCOUNT is an e-mail address or id, TENANT an id or slug."""


@members_command.command("list")
@_tenant
@options.limit_option
@options.cluster_answer
async def list_(tenant_id: str, limit: int, environment: dict[str, str]) -> options.Answer:
    """List the members of TENANT in order of joining."""
    async with _as_operator_in(environment, tenant_id) as api:
        members = await list_first(
            limit, api.tenancy.ListMembers, members_pb2.ListMembersRequest(page_size=limit), "members"
        )
    yield {"members": members}
    lines = [
        (member.account_id, member.email, _NAMES[member.role], output.format_time(member.create_time))
        for member in members
    ]
    output.print_table(
        output.table("account", "address", "role", "joined", ids=("account",)),
        lines,
        empty="The tenant has no members.",
    )


@members_command.command("add")
@_tenant
@_account
@_role
@options.cluster_answer
async def add(tenant_id: str, account: str, role: str, environment: dict[str, str]) -> options.Answer:
    """Add ACCOUNT to TENANT as a member, without an invitation."""
    async with _as_operator_in(environment, tenant_id) as api:
        request = members_pb2.AddMemberRequest(account_id=await _id_of(api, account), role=_ROLES[role])
        response = (await api.tenancy.AddMember(request)).member
    yield response
    _show(response)


@members_command.command("role")
@_tenant
@_account
@_role
@options.cluster_answer
async def role_(tenant_id: str, account: str, role: str, environment: dict[str, str]) -> options.Answer:
    """Change the role of a member of TENANT; the last owner cannot lose this role."""
    async with _as_operator_in(environment, tenant_id) as api:
        request = members_pb2.UpdateMemberRequest(account_id=await _id_of(api, account), role=_ROLES[role])
        response = (await api.tenancy.UpdateMember(request)).member
    yield response
    _show(response)


@members_command.command("remove")
@_tenant
@_account
@options.cluster_options
@options.asynchronous
async def remove(tenant_id: str, account: str, environment: dict[str, str]) -> None:
    """Remove a member from TENANT; the last owner cannot be removed."""
    async with _as_operator_in(environment, tenant_id) as api:
        account_id = await _id_of(api, account)
        await api.tenancy.RemoveMember(members_pb2.RemoveMemberRequest(account_id=account_id))
    output.echo(f"Removed {account_id}.")


@click.command()
@_tenant
@click.argument("email")
@_role
@click.option("--days", type=click.IntRange(1, 30), default=7, show_default=True, help="Days until it expires.")
@options.cluster_answer
async def invite_command(
    tenant_id: str, email: str, role: str, days: int, environment: dict[str, str]
) -> options.Answer:
    """Invite EMAIL to TENANT. Without a configured mail server, the link is shown once instead of mailed."""
    request = members_pb2.CreateInvitationRequest(email=email, role=_ROLES[role])
    request.lifetime.FromSeconds(days * 86400)
    async with _as_operator_in(environment, tenant_id) as api:
        response = await api.tenancy.CreateInvitation(request)
    yield response
    if not response.token:
        output.echo(f"Mailed to {response.invitation.email}.")
        return
    # A cluster of an earlier version returns no link.
    output.echo(response.link or response.token)
    expire_time = output.format_time(response.invitation.expire_time)
    message = (
        f"Send the link to {response.invitation.email}. It works once, until {expire_time} UTC, and is shown only now."
    )
    output.stderr_console().print(Text(message))


def _show(member: members_pb2.Member) -> None:
    output.echo(f"{member.email or member.account_id} is {_NAMES[member.role]}.")


@asynccontextmanager
async def _as_operator_in(environment: Mapping[str, str], tenant_id: str) -> AsyncIterator[Client]:
    """Open a client of the operator that acts in a tenant."""
    connection = operator_connection(environment)
    async with open_client(connection) as operator:
        resolved_id = await find_tenant(operator, tenant_id)
    async with open_client(dataclasses.replace(connection, tenant_id=resolved_id)) as acting:
        yield acting


async def _id_of(api: Client, account: str) -> str:
    """Return the id of an account that is named by its address or its id."""
    if "@" not in account:
        return account
    return (await api.auth.GetAccount(accounts_pb2.GetAccountRequest(email=account))).account.account_id
