"""`skein pc2`: CURVE certificates for access to the voice assistants' ports from other machines."""

from __future__ import annotations

import re
from pathlib import Path

import click
from rich.text import Text

from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_pc2.transport import curve

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@click.group()
def pc2_command() -> None:
    """Manage access to the ports of the voice assistants."""


@pc2_command.command("certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--client", "clients", multiple=True, help="Name of a client to create a certificate for (repeatable).")
@options.json_option
def certificates(folder: Path, clients: tuple[str, ...], *, as_json: bool) -> None:
    """Create certificates for SECURE_ZMQ=1 in FOLDER; set SKEIN_PC2_CERTIFICATES to this folder.

    The server's certificate is created once. Move NAME.key_secret to the client, with a copy of server.key. NAME.key
    stays here and admits the client at once, without a restart. Remove NAME.key to refuse the client.
    """
    for name in clients:
        if name == curve.SERVER or not _NAME.fullmatch(name):
            message = (
                f"{name!r} cannot name a client: use letters, digits, dots, dashes, underscores; not {curve.SERVER}."
            )
            raise CommandError(message, ExitCode.USAGE)
    existing = [name for name in clients if curve.certificate_files(folder, name)]
    if existing or len(set(clients)) < len(clients):
        raise CommandError(
            f"A certificate exists already for {existing[0]}; none was created."
            if existing
            else "A client is named twice; no certificate was created.",
            ExitCode.REFUSED,
        )
    names = [*([] if curve.certificate_files(folder, curve.SERVER) else [curve.SERVER]), *clients]
    try:
        paths = [str(curve.create_certificate(folder, name)) for name in names]
    except OSError as error:
        raise CommandError(f"The folder {folder} is not writable: {error.strerror}.", ExitCode.CANNOT_START) from None
    if output.print_if_json({"folder": str(folder), "created": paths}, as_json=as_json):
        return
    for path in paths:
        output.echo(path)
    if clients:
        output.stderr_console().print(
            Text("Move each .key_secret to its client, with a copy of server.key; keep no other copy of it.")
        )
