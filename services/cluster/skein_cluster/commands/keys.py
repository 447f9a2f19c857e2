"""`skein keys`: the API keys of the tenant."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_cluster import console, options
from skein_cluster.calling import as_tenant
from skein_cluster.listing import first

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.group()
def keys_command() -> None:
    """Make, list, rotate and revoke API keys of the tenant."""


@keys_command.command("create")
@click.argument("name")
@click.option(
    "--permission", "permissions", multiple=True, help="What it may do (repeatable); default: all that you may."
)
@click.option("--agent", default="", help="The agent that calls with this key act as.")
@click.option("--days", type=click.IntRange(1), help="Days until it expires; default: never.")
@options.caller
@options.as_json
def create(
    name: str, permissions: tuple[str, ...], agent: str, days: int | None, environment: dict[str, str], *, as_json: bool
) -> None:
    """Make a key for NAME; its secret is shown this one time."""
    request = auth_pb2.CreateApiKeyRequest(display_name=name, permissions=permissions, agent_id=agent)
    if days is not None:
        request.expire_time.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    made = asyncio.run(_create(environment, request))
    if as_json:
        console.print_json({"api_key_id": made.api_key.api_key_id, "api_key": made.secret})
        return
    click.echo(made.secret)
    console.err().print(Text("This is the only time that it is shown. Use it as SKEIN_API_KEY."))


@keys_command.command("list")
@options.limit
@options.caller
@options.as_json
def list_(limit: int, environment: dict[str, str], *, as_json: bool) -> None:
    """List keys, newest first, revoked ones included."""
    found = asyncio.run(_list(environment, limit))
    if as_json:
        console.print_json({"api_keys": [console.as_json(key) for key in found]})
        return
    lines = [
        (
            key.api_key_id,
            key.display_name,
            _state(key),
            console.when(key.create_time),
            console.when(key.use_time) if key.HasField("use_time") else "never",
            ", ".join(key.permissions),
        )
        for key in found
    ]
    table = console.table("key", "name", "state", "created", "last used", "permissions")
    console.rows(table, lines, empty="There are no keys.")


@keys_command.command("rotate")
@click.argument("api_key_id")
@click.option(
    "--overlap-hours",
    type=click.IntRange(0, 720),
    help="Hours that the old key goes on working; default: 24.",
)
@options.caller
@options.as_json
def rotate(api_key_id: str, overlap_hours: int | None, environment: dict[str, str], *, as_json: bool) -> None:
    """Make a successor of a key; its secret is shown this one time."""
    request = accounts_pb2.RotateApiKeyRequest(api_key_id=api_key_id)
    if overlap_hours is not None:
        request.overlap.FromTimedelta(timedelta(hours=overlap_hours))
    rotated = asyncio.run(_rotate(environment, request))
    until = console.when(rotated.replaced.expire_time)
    if as_json:
        key_id = rotated.api_key.api_key_id
        console.print_json(
            {"api_key_id": key_id, "api_key": rotated.secret, "replaced": console.as_json(rotated.replaced)}
        )
        return
    click.echo(rotated.secret)
    console.err().print(Text(f"This is the only time that it is shown. The old key works until {until}."))


@keys_command.command("revoke")
@click.argument("api_key_id")
@options.caller
@options.as_json
def revoke(api_key_id: str, environment: dict[str, str], *, as_json: bool) -> None:
    """End a key; calls with it are refused within seconds."""
    revoked = asyncio.run(_revoke(environment, api_key_id))
    if as_json:
        console.print_json(console.as_json(revoked))
        return
    click.echo(f"Revoked {revoked.api_key_id} ({revoked.display_name}).")


def _state(key: auth_pb2.ApiKey) -> str:
    if key.HasField("revoke_time"):
        return "revoked"
    if key.HasField("expire_time"):
        over = key.expire_time.ToDatetime(tzinfo=UTC) <= datetime.now(UTC)
        return "expired" if over else f"until {console.when(key.expire_time)}"
    return "valid"


async def _create(
    environment: Mapping[str, str], request: auth_pb2.CreateApiKeyRequest
) -> auth_pb2.CreateApiKeyResponse:
    async with as_tenant(environment) as api:
        return await api.auth.CreateApiKey(request)


async def _rotate(
    environment: Mapping[str, str], request: accounts_pb2.RotateApiKeyRequest
) -> auth_pb2.RotateApiKeyResponse:
    async with as_tenant(environment) as api:
        return await api.auth.RotateApiKey(request)


async def _list(environment: Mapping[str, str], limit: int) -> list[auth_pb2.ApiKey]:
    async with as_tenant(environment) as api:
        return await first(limit, api.auth.ListApiKeys, auth_pb2.ListApiKeysRequest(page_size=limit), "api_keys")


async def _revoke(environment: Mapping[str, str], api_key_id: str) -> auth_pb2.ApiKey:
    async with as_tenant(environment) as api:
        answer = await api.auth.RevokeApiKey(auth_pb2.RevokeApiKeyRequest(api_key_id=api_key_id))
        return answer.api_key
