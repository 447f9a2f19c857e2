"""`skein mtls`: the certificates by which the services of a cluster know each other."""

from __future__ import annotations

from pathlib import Path

import click

from skein_cluster import registry
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.service_certificates import authority


@click.group()
def mtls_command() -> None:
    """Make the certificates by which the services of a cluster know each other."""


@mtls_command.command("certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@options.json_option
def certificates(folder: Path, *, as_json: bool) -> None:
    """Make or renew a certificate for each service in FOLDER, with an authority of its own.

    FOLDER/SERVICE has tls.crt, tls.key and ca.crt, for SKEIN_MTLS_CERTIFICATE, SKEIN_MTLS_KEY and SKEIN_MTLS_CA. Give a
    service its own folder alone. FOLDER/authority signs: no service needs it. Repeat the command each month: it
    replaces what is old, and services read changed files without a restart. `skein cluster` does all of it by itself.
    """
    try:
        authority.issue(folder, {name: [name] for name in registry.NAMES})
    except OSError as error:
        raise CommandError(f"The folder {folder} is not usable: {error.strerror}.", ExitCode.CANNOT_START) from None
    paths = {name: str(folder / name) for name in registry.NAMES}
    if output.print_if_json({"folder": str(folder), "services": paths}, as_json=as_json):
        return
    for path in paths.values():
        output.echo(path)
