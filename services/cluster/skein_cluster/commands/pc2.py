"""`skein pc2`: certificates that open the voice assistants' ports to other machines."""

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
    """Prepare the ports of the voice assistants."""


@pc2_command.command("certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--client", "clients", multiple=True, help="Admit a client and make its certificate (repeatable).")
@options.json_option
def certificates(folder: Path, clients: tuple[str, ...], *, as_json: bool) -> None:
    """Make certificates for SECURE_ZMQ=1 in FOLDER, which SKEIN_PC2_CERTIFICATES names then.

    The ports' own is made once and kept. Give each client its NAME.key_secret, and server.key; what must stay here is
    NAME.key, by which it is admitted from then on, without a restart. Remove that file to bar the client.
    """
    for name in clients:
        if name == curve.SERVER or not _NAME.fullmatch(name):
            message = (
                f"A client's name is of letters, digits, dots and dashes, and not {curve.SERVER}: {name!r} is not."
            )
            raise CommandError(message, ExitCode.USAGE)
    existing = [name for name in clients if curve.certificate_files(folder, name)]
    if existing or len(set(clients)) < len(clients):
        raise CommandError(
            f"There is a certificate for {existing[0] if existing else 'one of them'} already; nothing was made.",
            ExitCode.REFUSED,
        )
    names = [*([] if curve.certificate_files(folder, curve.SERVER) else [curve.SERVER]), *clients]
    try:
        paths = [str(curve.create_certificate(folder, name)) for name in names]
    except OSError as error:
        raise CommandError(f"The folder {folder} cannot be written: {error.strerror}.", ExitCode.CANNOT_START) from None
    if as_json:
        output.print_json({"folder": str(folder), "made": paths})
        return
    for path in paths:
        output.echo(path)
    if clients:
        output.stderr_console().print(
            Text("Move each client's .key_secret to the client, with server.key, and keep it there only.")
        )
