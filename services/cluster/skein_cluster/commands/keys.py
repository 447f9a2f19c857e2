"""`skein keys`: the API keys of the tenant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import click
from rich.text import Text

from skein.auth.v1 import accounts_pb2, auth_pb2
from skein_auth.api_keys.model import PREFIX
from skein_client.client import Client
from skein_client.pagination import iterate_pages
from skein_cluster.api import credentials
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.output import list_first
from skein_kit.identity.bearer_token import public_prefix
from skein_kit.identity.permissions import ROLE_PERMISSIONS
from skein_kit.ids import parse_id

_KEY_COLUMN = "key, beginning of its secret"
_PAGE = 1000
# Keys listed in an error message.
_SHOWN = 5
# Least characters that select a key by its id or secret.
_MIN_PREFIX_CHARACTERS = 4
# Characters of a secret that identify a key: "skein_", the tenant, and the creation time.
_SHOWN_PREFIX = 42


@click.group()
def keys_command() -> None:
    """Create, list, rotate and revoke API keys of the tenant."""


@keys_command.command("create")
@click.argument("name")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    help="Permission of the key (repeatable); default: all that you have, or with --agent what an agent needs.",
)
@click.option("--agent", default="", help="Agent as which calls with this key act.")
@click.option("--days", type=click.IntRange(1), help="Days until it expires; default: never.")
@options.cluster_answer
async def create(
    name: str, permissions: tuple[str, ...], agent: str, days: int | None, environment: dict[str, str]
) -> options.Answer:
    """Create a key called NAME; its secret is shown only once."""
    request = auth_pb2.CreateApiKeyRequest(display_name=name, permissions=permissions, agent_id=agent)
    if days is not None:
        request.expire_time.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    async with as_tenant(environment) as api:
        response = await api.auth.CreateApiKey(request)
    yield {"api_key_id": response.api_key.api_key_id, "api_key": response.secret}
    output.echo(response.secret)
    output.stderr_console().print(Text("The key is shown only once. Use it as SKEIN_API_KEY."))


@keys_command.command("list")
@options.limit_option
@options.cluster_answer
async def list_(limit: int, environment: dict[str, str]) -> options.Answer:
    """List keys, newest first, including revoked ones."""
    keys, prefixes = await _list(environment, limit)
    rows = [{**output.message_to_dict(key), "secret_prefix": prefixes[key.api_key_id]} for key in keys]
    yield {"api_keys": rows}
    lines = [
        (
            f"{key.api_key_id}\n{prefixes[key.api_key_id]}…",
            f"{key.display_name}\n{_permissions(key)}",
            _state(key),
            "\n".join(
                (
                    output.format_time(key.create_time),
                    output.format_time(key.use_time) if key.HasField("use_time") else "never",
                )
            ),
        )
        for key in keys
    ]
    table = output.table(_KEY_COLUMN, "name, permissions", "state", "created, last used", ids=(_KEY_COLUMN,))
    output.print_table(table, lines, empty="There are no keys.")


@keys_command.command("rotate")
@click.argument("key")
@click.option(
    "--overlap-hours",
    type=click.IntRange(0, 720),
    help="Hours that the old key stays valid; default: 24.",
)
@options.cluster_answer
async def rotate(key: str, overlap_hours: int | None, environment: dict[str, str]) -> options.Answer:
    """Replace KEY by a new key; its secret is shown only once. KEY is an id or the beginning of the secret."""
    request = accounts_pb2.RotateApiKeyRequest()
    if overlap_hours is not None:
        request.overlap.FromTimedelta(timedelta(hours=overlap_hours))
    async with as_tenant(environment) as api:
        request.api_key_id = await _find_key(api, key)
        rotated = await api.auth.RotateApiKey(request)
    path = credentials.replace_key(environment, rotated.replaced.api_key_id, rotated.secret)
    yield {"api_key_id": rotated.api_key.api_key_id, "api_key": rotated.secret, "replaced": rotated.replaced}
    output.echo(rotated.secret)
    expire_time = output.format_time(rotated.replaced.expire_time)
    output.stderr_console().print(Text(f"The key is shown only once. The old key is valid until {expire_time}."))
    if path is not None:
        output.echo(f"{path} has the new key. A running `skein up` uses it after its next start.", err=True)


@keys_command.command("revoke")
@click.argument("key")
@options.cluster_answer
async def revoke(key: str, environment: dict[str, str]) -> options.Answer:
    """Revoke KEY, an id or the beginning of the secret; calls with it are refused within seconds."""
    async with as_tenant(environment) as api:
        request = auth_pb2.RevokeApiKeyRequest(api_key_id=await _find_key(api, key))
        revoked = (await api.auth.RevokeApiKey(request)).api_key
    yield revoked
    output.echo(f"Revoked {revoked.api_key_id} ({revoked.display_name}).")


def _state(key: auth_pb2.ApiKey) -> str:
    if key.HasField("revoke_time"):
        return "revoked"
    if key.HasField("expire_time"):
        is_expired = key.expire_time.ToDatetime(tzinfo=UTC) <= datetime.now(UTC)
        return "expired" if is_expired else f"until {output.format_time(key.expire_time)}"
    return "valid"


async def _list(environment: Mapping[str, str], limit: int) -> tuple[list[auth_pb2.ApiKey], dict[str, str]]:
    """Return keys, and the beginning of each secret by key id."""
    async with as_tenant(environment) as api:
        request = auth_pb2.ListApiKeysRequest(page_size=limit)
        keys = await list_first(limit, api.auth.ListApiKeys, request, "api_keys")
        tenant_id = await _own_tenant(api)
    return keys, {key.api_key_id: _prefix_of(key, tenant_id)[:_SHOWN_PREFIX] for key in keys}


async def _find_key(api: Client, text: str) -> str:
    """Return the id of the key whose id or secret begins with `text`. Raises CommandError for none and for several.

    The message repeats nothing of the text, which may be a secret.
    """
    if parse_id(text) is not None:
        return text
    key_prefix = text.strip().removesuffix("…").lower()
    tenant_id = await _own_tenant(api)
    matches = []
    async for key in iterate_pages(api.auth.ListApiKeys, auth_pb2.ListApiKeysRequest(page_size=_PAGE), "api_keys"):
        prefix = _prefix_of(key, tenant_id)
        # A longer text is a secret or most of it.
        if key.api_key_id.startswith(key_prefix) or prefix.startswith(key_prefix[: len(prefix)]):
            matches.append(key)
    if len(key_prefix) >= _MIN_PREFIX_CHARACTERS and len(matches) == 1:
        return str(matches[0].api_key_id)
    if len(key_prefix) >= _MIN_PREFIX_CHARACTERS and matches:
        ids = ", ".join(f"{key.api_key_id} ({key.display_name})" for key in matches[:_SHOWN])
        message = f"{len(matches)} keys match; name one by its id: {ids}{', …' if len(matches) > _SHOWN else ''}."
    else:
        message = "No key has this id or a secret with this beginning: `skein keys list` shows both."
    raise CommandError(message, ExitCode.REFUSED)


async def _own_tenant(api: Client) -> UUID:
    """Return the tenant of the call; the nil id for an operator without one."""
    tenant_id = (await api.auth.GetMe(auth_pb2.GetMeRequest())).tenant_id
    return UUID(tenant_id) if tenant_id else UUID(int=0)


def _prefix_of(key: auth_pb2.ApiKey, tenant_id: UUID) -> str:
    return public_prefix(PREFIX, tenant_id, UUID(key.api_key_id))


def _permissions(key: auth_pb2.ApiKey) -> str:
    return "all of an owner" if ROLE_PERMISSIONS["owner"] <= {*key.permissions} else ", ".join(key.permissions)
