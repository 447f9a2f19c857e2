"""A cluster's database on a server that others run: the one of SKEIN_DATABASE_URL."""

from __future__ import annotations

from collections.abc import Mapping

from skein_cluster import registry
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.database_check import check_database, max_connections
from skein_kit.database.schema_migrations import MigrationNotAllowed, migrate
from skein_kit.settings import ProcessSettings


async def prepare(url: str, environment: Mapping[str, str], counts: Mapping[str, int]) -> None:
    """Migrate the database as `skein migrate` does, if the user of `url` may; then check what the services need of it.

    `counts` has the number of processes of each service. Raises MigrationError, and CommandError with what the database
    lacks or when it does not answer.
    """
    try:
        await migrate(
            url, registry.migrations(), registry.WITH_DATABASE, passwords=registry.role_passwords(environment)
        )
    except MigrationNotAllowed:
        # Another user migrates; whether that has been done is checked below.
        pass
    except (OSError, TimeoutError) as error:
        message = f"The database of SKEIN_DATABASE_URL does not answer ({error or 'no answer in time'})."
        raise CommandError(message, ExitCode.UNREACHABLE) from error
    pool_size = ProcessSettings.read(environment).pool_size
    connections = sum(count * max_connections([name], pool_size) for name, count in counts.items())
    problems = (await check_database(registry.NAMES, environment, connections=connections)).problems
    if problems:
        raise CommandError(" ".join(problems), ExitCode.CANNOT_START)
