"""`skein spaces`: spaces of a tenant, who sees them and until when, and moves between them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime

import click
from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import spaces_pb2
from skein_client.client import Client
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.output import list_first

_ROLES = {
    "reader": spaces_pb2.SPACE_ROLE_READER,
    "writer": spaces_pb2.SPACE_ROLE_WRITER,
    "manager": spaces_pb2.SPACE_ROLE_MANAGER,
}
_NAMES = {value: name for name, value in _ROLES.items()}
_DEFAULT, _DEFAULT_ID = "default", str(uuid.UUID(int=0))
_MAX_SPACES = 1000
_REASONS: Mapping[int, str] = {
    spaces_pb2.ACCESS_REASON_DEFAULT_SPACE: "It lies in the default space, and the principal is not bound to others.",
    spaces_pb2.ACCESS_REASON_GRANT: "By a grant.",
    spaces_pb2.ACCESS_REASON_BOUND: "It lies in the default space, and the principal is bound to others.",
    spaces_pb2.ACCESS_REASON_NO_GRANT: "The principal has no grant of the space.",
    spaces_pb2.ACCESS_REASON_GRANT_ENDED: "The grant has ended.",
    spaces_pb2.ACCESS_REASON_NOT_OPEN: "The grant shows the tenant's first space in a moment.",
    spaces_pb2.ACCESS_REASON_TOO_MANY: "The principal has more grants than an identity has room for.",
    spaces_pb2.ACCESS_REASON_CLIENT_NOT_GRANTED: "The person has a grant, and the application has none.",
}
_space = click.argument("space")
_principal = click.argument("principal")
_until = click.option("--until", "expire_time", type=options.Time(), help="End of the grant; none without it.")


@click.group()
def spaces_command() -> None:
    """List and create spaces, say who sees them, and move memories. SPACE is a name, an id or "default".

    PRINCIPAL is account:ID, api_key:ID, service_account:ID, agent:ID or client:ID.
    """


@spaces_command.command("list")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str]) -> options.Answer:
    """List the spaces that the key sees, oldest first; all for one with spaces.write."""
    async with as_tenant(environment) as api:
        spaces = await list_first(
            limit, api.tenancy.ListSpaces, spaces_pb2.ListSpacesRequest(page_size=limit), "spaces"
        )
    yield {"spaces": spaces}
    output.print_table(
        output.table("id", "name", "created", "description", ids=("id",)),
        [(one.space_id, one.display_name, output.format_time(one.create_time), one.description) for one in spaces],
        empty="There is no space beside the default one.",
    )


@spaces_command.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@options.cluster_answer
async def create(name: str, description: str, environment: dict[str, str]) -> options.Answer:
    """Create a space. Principals see it by grants alone."""
    async with as_tenant(environment) as api:
        request = spaces_pb2.CreateSpaceRequest(space=spaces_pb2.Space(display_name=name, description=description))
        response = (await api.tenancy.CreateSpace(request)).space
    yield response
    output.echo(response.space_id)


@spaces_command.command("delete")
@_space
@options.cluster_options
@options.asynchronous
async def delete(space: str, environment: dict[str, str]) -> None:
    """Delete a space without grants and memories."""
    async with as_tenant(environment) as api:
        space_id = await _id_of(api, space)
        await api.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=space_id))
    output.echo(f"Deleted {space_id}.")


@spaces_command.command("grants")
@_space
@options.limit_option
@options.cluster_answer
async def grants_(space: str, limit: int, environment: dict[str, str]) -> options.Answer:
    """List who sees a space."""
    async with as_tenant(environment) as api:
        request = spaces_pb2.ListSpaceGrantsRequest(space_id=await _id_of(api, space), page_size=limit)
        grants = await list_first(limit, api.tenancy.ListSpaceGrants, request, "grants")
    yield {"grants": grants}
    _print_grants(grants, "No principal sees the space.")


@spaces_command.command("grant")
@_space
@_principal
@click.argument("role", type=click.Choice(list(_ROLES)))
@_until
@click.option("--delegable", is_flag=True, help="The principal may pass it on, not wider and not longer.")
@options.cluster_answer
async def grant(
    space: str,
    principal: str,
    role: str,
    expire_time: datetime | None,
    environment: dict[str, str],
    *,
    delegable: bool,
) -> options.Answer:
    """Show a space to PRINCIPAL, in place of the grant of it that the principal has."""
    message = spaces_pb2.SpaceGrant(principal=principal, role=_ROLES[role], is_delegable=delegable)
    granted = await _grant(environment, space, message, expire_time, bind=False)
    yield granted
    output.echo(f"{granted.principal} is {_NAMES[granted.role]}.")


@spaces_command.command("bind")
@_space
@_principal
@click.argument("role", type=click.Choice(list(_ROLES)))
@_until
@options.cluster_answer
async def bind(
    space: str, principal: str, role: str, expire_time: datetime | None, environment: dict[str, str]
) -> options.Answer:
    """Show a space to PRINCIPAL, and hide the default space: it sees granted spaces alone, also when grants end."""
    message = spaces_pb2.SpaceGrant(principal=principal, role=_ROLES[role])
    granted = await _grant(environment, space, message, expire_time, bind=True)
    yield granted
    output.echo(f"{granted.principal} is {_NAMES[granted.role]}, and does not see the default space.")


@spaces_command.command("revoke")
@_space
@_principal
@click.option("--unbind", is_flag=True, help="Show the default space to the principal again.")
@options.cluster_options
@options.asynchronous
async def revoke(space: str, principal: str, environment: dict[str, str], *, unbind: bool) -> None:
    """End a grant, and what the principal passed on by it."""
    async with as_tenant(environment) as api:
        request = spaces_pb2.RevokeSpaceGrantRequest(
            space_id=await _id_of(api, space), principal=principal, unbind=unbind
        )
        await api.tenancy.RevokeSpaceGrant(request)
    output.echo(f"Revoked the grant of {principal}.")


@spaces_command.command("explain")
@click.argument("memory_id", required=False)
@click.option("--space", default="", help="Explain who sees this space instead of a memory.")
@click.option("--principal", default="", help="Whose access; the key's own without it.")
@click.option("--agent", default="", help="The agent to which the principal's credential is bound.")
@click.option("--client", default="", help="The application that acts for the principal.")
@options.cluster_answer
async def explain(
    memory_id: str | None, space: str, principal: str, agent: str, client: str, environment: dict[str, str]
) -> options.Answer:
    """Tell why a principal sees a memory or does not, by which grant and until when."""
    if bool(memory_id) == bool(space):
        message = "Name a memory, or a space with --space."
        raise click.UsageError(message)
    request = spaces_pb2.ExplainAccessRequest(principal=principal, agent_id=agent, client_id=client)
    async with as_tenant(environment) as api:
        if memory_id:
            request.memory_id = memory_id
        else:
            request.space_id = await _id_of(api, space)
        response = await api.tenancy.ExplainAccess(request)
    yield response
    output.echo(f"{'visible' if response.is_visible else 'hidden'}: {_REASONS[response.reason]}")
    where = "the default space" if response.space_id == _DEFAULT_ID else f"space {response.space_id}"
    role = f", as {_NAMES[response.role]}" if response.role else ""
    until = f", until {output.format_time(response.expire_time)}" if response.HasField("expire_time") else ""
    output.echo(f"It lies in {where}{role}{until}.")
    if response.grants:
        _print_grants(response.grants, "")


@spaces_command.command("move")
@click.argument("ids", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(["memory", "session", "block"]), default="memory", show_default=True)
@click.option("--from", "source", default=_DEFAULT, show_default=True, help="The space in which they lie.")
@click.option("--to", "target", required=True, help="The space to which they move.")
@options.cluster_options
@options.json_option
@options.asynchronous
async def move(
    ids: tuple[str, ...], kind: str, source: str, target: str, environment: dict[str, str], *, as_json: bool
) -> None:
    """Move memories, by id or external id, from one space to another, all or none; or sessions or blocks, each."""
    async with as_tenant(environment) as api:
        source_id, target_id = await _id_of(api, source), await _id_of(api, target)
    async with as_tenant(environment, space_id=source_id) as api:
        if kind != "memory":
            moved: list[Message] = []
            for item_id in ids:
                if kind == "session":
                    request = session_pb2.MoveSessionRequest(session_id=item_id, space_id=target_id)
                    moved.append(await api.sessions.MoveSession(request))
                else:
                    block_request = blocks_pb2.MoveBlockRequest(block_id=item_id, space_id=target_id)
                    moved.append(await api.blocks.MoveBlock(block_request))
                if not as_json:
                    output.echo(f"Moved {kind} {item_id}.")
            output.print_if_json({"moved": moved}, as_json=as_json)
            return
        response = await api.memories.MoveMemories(memory_pb2.MoveMemoriesRequest(memory_ids=ids, space_id=target_id))
    if not output.print_if_json(response, as_json=as_json):
        count = len(response.memory_ids)
        output.echo(f"Moved {count} {'memory' if count == 1 else 'memories'}.")


async def _grant(
    environment: Mapping[str, str],
    space: str,
    message: spaces_pb2.SpaceGrant,
    expire_time: datetime | None,
    *,
    bind: bool,
) -> spaces_pb2.SpaceGrant:
    if expire_time is not None:
        message.expire_time.FromDatetime(expire_time)
    async with as_tenant(environment) as api:
        message.space_id = await _id_of(api, space)
        request = spaces_pb2.GrantSpaceRequest(grant=message, bind=bind)
        return (await api.tenancy.GrantSpace(request)).grant


def _print_grants(grants: Iterable[spaces_pb2.SpaceGrant], empty: str) -> None:
    lines = [
        (
            one.principal,
            _NAMES[one.role],
            _end_of(one),
            ", ".join(("delegable",) * one.is_delegable + ("passed on",) * bool(one.delegating_grant_id)),
            one.created_by,
            one.grant_id,
        )
        for one in grants
    ]
    output.print_table(
        output.table("principal", "role", "until", "", "by", "grant", ids=("grant",)), lines, empty=empty
    )


def _end_of(one: spaces_pb2.SpaceGrant) -> str:
    if one.HasField("revoke_time"):
        return f"revoked {output.format_time(one.revoke_time)}"
    return output.format_time(one.expire_time) if one.HasField("expire_time") else ""


async def _id_of(api: Client, space: str) -> str:
    """Return the id of a space that is named by its name or its id. Raises CommandError for an unknown name."""
    if space == _DEFAULT:
        return _DEFAULT_ID
    try:
        return str(uuid.UUID(space))
    except ValueError:
        pass
    request = spaces_pb2.ListSpacesRequest(page_size=_MAX_SPACES)
    for one in await list_first(_MAX_SPACES, api.tenancy.ListSpaces, request, "spaces"):
        if one.display_name == space:
            return str(one.space_id)
    message = f'No space is named "{space}". `skein spaces list` shows those that the key sees.'
    raise CommandError(message, ExitCode.REFUSED)
