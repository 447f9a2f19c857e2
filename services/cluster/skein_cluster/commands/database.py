"""`skein migrate`, `skein upgrade` and `skein bootstrap`: prepare a database for the services."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import asyncpg
import click
from rich.text import Text

from skein_auth.api_keys.bootstrap import ensure_operator_key
from skein_client.connection import Connection, read_ca_file
from skein_cluster import registry
from skein_cluster.api.client import RETRIES, TIMEOUT_SECONDS, OperatorSettings, open_client
from skein_cluster.api.tenants import ensure_legacy_tenant
from skein_cluster.backup.source import open_embedded_server
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_cluster.config.upgrade_plan import UpgradePlan, plan_upgrade
from skein_cluster.processes.single_process import prepare_database
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
    applied = await _migrate(database_url(), registry.migrations(), lock_seconds, citus=citus)
    _show_applied(applied, as_json=as_json)


@click.command()
@click.option("--check", "is_check", is_flag=True, help="Only say what would be done; the exit code is 1 if any.")
@options.data_dir_option
@options.json_option
@options.asynchronous
async def upgrade_command(data_dir: Path, *, is_check: bool, as_json: bool) -> None:
    """Migrate the database SKEIN_DATABASE_URL, else that of the data folder, to the schema of this version.

    With --check nothing changes. It shows each migration that would run, the calls that wait for it, and the disk that
    it needs. The exit code is 0 if there is nothing to do, 1 if there are migrations to run, and 3 if this version
    cannot upgrade the data: too old, too new, or of another program; the message says what to do. A stopped data
    folder's Postgres is started for it and stopped again.
    """
    environment = {**os.environ, "SKEIN_DATA_DIR": str(data_dir)}
    refuse_unknown_settings(environment)
    if is_check:
        try:
            plan = await plan_upgrade(data_dir, environment)
        except (OSError, TimeoutError) as error:
            raise _unreachable(error) from error
        _show_plan(plan, as_json=as_json)
        sys.exit(ExitCode.REFUSED if plan.migrations else ExitCode.OK)
    settings = ProcessSettings.read(environment)
    if settings.database_direct_url or settings.database_url:
        applied = await _migrate(database_url(), registry.migrations(), LOCK_SECONDS, citus=False)
    else:
        async with open_embedded_server(data_dir, environment) as server:
            applied = await prepare_database(server)
    _show_applied(applied, as_json=as_json)


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


def _show_applied(applied: list[Migration], *, as_json: bool) -> None:
    newest = registry.migrations()[-1].number
    names = [{"number": migration.number, "name": migration.name} for migration in applied]
    if output.print_if_json({"version": newest, "applied": names}, as_json=as_json):
        return
    for migration in applied:
        output.echo(f"applied {migration.number:04d} {migration.name}")
    output.echo(f"The schema is at version {newest}{'' if applied else ' already'}.")


def _show_plan(plan: UpgradePlan, *, as_json: bool) -> None:
    document = {
        "schema_version": plan.schema_version,
        "newest_version": plan.newest,
        "migrations": [
            {
                "number": planned.migration.number,
                "name": planned.migration.name,
                "tables": [
                    {
                        "table": table.effect.table,
                        "waits": table.effect.waits,
                        "is_written": table.effect.is_written,
                        "bytes": table.byte_count,
                    }
                    for table in planned.tables
                ],
            }
            for planned in plan.migrations
        ],
        "disk_bytes": plan.disk_bytes,
        "free_bytes": plan.free_bytes,
    }
    if output.print_if_json(document, as_json=as_json):
        return
    if plan.schema_version is None:
        output.echo("There is no database yet: the first start creates one.")
        return
    if not plan.migrations:
        output.echo(f"Nothing to do: the schema is at version {plan.schema_version}, which this version serves.")
        return
    table = output.table("migration", "table", "calls that wait", "rows or indexes", "MB", numbers=("MB",))
    lines = [
        (
            f"{planned.migration.number:04d} {planned.migration.name}",
            each.effect.table,
            each.effect.waits or "none",
            "written" if each.effect.is_written else "",
            f"{each.byte_count / 1e6:.1f}",
        )
        for planned in plan.migrations
        for each in planned.tables
    ]
    lines += [
        (f"{one.migration.number:04d} {one.migration.name}", "none", "none", "", "")
        for one in plan.migrations
        if not one.tables
    ]
    output.print_table(table, sorted(lines), empty="")
    free = "" if plan.free_bytes is None else f"; {plan.free_bytes / 1e6:.1f} MB are free"
    output.echo(
        f"The schema goes from version {plan.schema_version} to {plan.newest}, with up to"
        f" {plan.disk_bytes / 1e6:.1f} MB more on the disk{free}."
    )


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
