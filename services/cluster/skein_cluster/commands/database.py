"""`skein migrate` and `skein bootstrap`: prepare a database for the services."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import click
from rich.text import Text

from skein_auth.api_keys.bootstrap import ensure_operator_key
from skein_client.connection import Connection, read_ca_file
from skein_cluster import registry
from skein_cluster.api.client import RETRIES, TIMEOUT_SECONDS, OperatorSettings, open_client
from skein_cluster.api.tenants import ensure_legacy_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_importers.organizations import LEGACY_SLUG
from skein_kit.database.connection_settings import service_url
from skein_kit.database.schema_migrations import LOCK_SECONDS, Migration, migrate
from skein_kit.settings import ProcessSettings, SettingInvalid

# The table, schema or role is missing.
_NOT_MIGRATED = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.InvalidParameterValueError)


@click.command()
@options.json_option
@click.option(
    "--lock-seconds",
    type=click.FloatRange(min=0.001),
    default=LOCK_SECONDS,
    show_default=True,
    help="Longest wait of a migration for table locks; later calls queue behind it.",
)
@click.option(
    "--citus",
    is_flag=True,
    help="Prepare for Citus: let skein_owner log in and bypass row-level security, and set the database's settings.",
)
@options.asynchronous
async def migrate_command(lock_seconds: float, *, citus: bool, as_json: bool) -> None:
    """Migrate the database SKEIN_DATABASE_URL to the newest schema; safe to repeat.

    The URL names a superuser or a role that may create roles, which also creates the roles and the extension, or the
    owner role. If SKEIN_<SERVICE>_DATABASE_PASSWORD (or …_FILE) is set, it becomes the password of that service's role.
    """
    refuse_unknown_settings(os.environ)
    migrations = registry.migrations()
    applied = await _migrate(database_url(), migrations, lock_seconds, citus=citus)
    if output.print_if_json(
        {
            "version": migrations[-1].number,
            "applied": [{"number": migration.number, "name": migration.name} for migration in applied],
        },
        as_json=as_json,
    ):
        return
    for migration in applied:
        output.echo(f"applied {migration.number:04d} {migration.name}")
    output.echo(f"The schema is at version {migrations[-1].number}{'' if applied else ' already'}.")


@click.command()
@options.json_option
@click.option("--name", default="bootstrap", show_default=True, help="Name of the key.")
@click.option(
    "--legacy-tenant",
    default=LEGACY_SLUG,
    show_default=True,
    metavar="SLUG",
    help="Tenant for callers of an earlier system; created with --legacy-token-file.",
)
@click.option(
    "--legacy-token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the bearer token that these callers share; they act as members of the legacy tenant.",
)
@options.asynchronous
async def bootstrap_command(name: str, legacy_tenant: str, legacy_token_file: Path | None, *, as_json: bool) -> None:
    """Create an operator key in the database SKEIN_DATABASE_URL, and print it once.

    Set it as SKEIN_OPERATOR_KEY to create tenants and their keys with `skein tenants create`. A legacy token is
    stored through the cluster at SKEIN_ENDPOINT, with SKEIN_OPERATOR_KEY if set, else with the new key.
    """
    refuse_unknown_settings(os.environ)
    token = None if legacy_token_file is None else _token(legacy_token_file)
    configured_key = OperatorSettings.read(os.environ).operator_key if token else ""
    key = configured_key or await _bootstrap(database_url(), name)
    document = {} if configured_key else {"operator_key": key}
    if token:
        document["legacy_tenant_id"] = await _ensure_legacy_tenant(key, legacy_tenant, token)
    if output.print_if_json(document, as_json=as_json):
        return
    if not configured_key:
        output.echo(key)
        output.stderr_console().print(Text("The key is shown only once. Use it as SKEIN_OPERATOR_KEY."))
    if token:
        output.stderr_console().print(
            Text(f"The legacy token acts in the tenant {legacy_tenant} ({document['legacy_tenant_id']}).")
        )


def database_url() -> str:
    """Return SKEIN_DATABASE_DIRECT_URL, else SKEIN_DATABASE_URL, or raise SettingInvalid."""
    settings = ProcessSettings.read()
    url = settings.database_direct_url or settings.database_url
    if not url:
        raise SettingInvalid("SKEIN_DATABASE_URL is needed: the Postgres to use, as postgresql://…")
    return url


async def _migrate(url: str, migrations: list[Migration], lock_seconds: float, *, citus: bool) -> list[Migration]:
    try:
        return await migrate(
            url,
            migrations,
            registry.WITH_DATABASE,
            passwords=registry.role_passwords(os.environ),
            lock_seconds=lock_seconds,
            citus=citus,
        )
    except (OSError, TimeoutError) as error:
        raise _unreachable(error) from error


async def _bootstrap(url: str, name: str) -> str:
    try:
        return await ensure_operator_key(service_url(url, "auth", os.environ), display_name=name)
    except _NOT_MIGRATED as error:
        raise CommandError(
            "The database has no schema yet: run `skein migrate` first.", ExitCode.CANNOT_START
        ) from error
    except (OSError, TimeoutError) as error:
        raise _unreachable(error) from error


def _token(path: Path) -> str:
    try:
        token = path.read_text("utf-8").strip()
    except OSError as error:
        raise SettingInvalid(f"The legacy token cannot be read from {path}: {error.strerror}.") from None
    if not token:
        raise SettingInvalid(f"{path} contains no legacy token.")
    return token


async def _ensure_legacy_tenant(key: str, slug: str, token: str) -> str:
    endpoint = os.environ.get("SKEIN_ENDPOINT", "127.0.0.1:50050")
    ca_file = read_ca_file(os.environ)
    connection = Connection(endpoint=endpoint, api_key=key, ca_file=ca_file, timeout=TIMEOUT_SECONDS, retries=RETRIES)
    async with open_client(connection) as operator:
        return await ensure_legacy_tenant(operator, slug, token)


def _unreachable(error: Exception) -> CommandError:
    message = f"The database of SKEIN_DATABASE_URL does not answer ({error or 'no answer in time'})."
    return CommandError(message, ExitCode.UNREACHABLE)
