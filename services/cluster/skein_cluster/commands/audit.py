"""`skein audit`: the trail of audit events, and its verification."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from skein_cluster.audit_trail import trail
from skein_cluster.audit_trail.trail import Verification
from skein_cluster.backup.source import open_source
from skein_cluster.certificates import event_log
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode

_MAX_SHOWN = 50


@click.group()
def audit_command() -> None:
    """Save and verify the trail of audit events.

    Auth signs the events of each day that is over. `verify` names what was changed, removed, inserted or reordered
    since. The database is that of SKEIN_DATABASE_URL if set, else that of the data folder, running or not. It needs a
    superuser, who sees the rows of all tenants.
    """


@audit_command.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.data_dir_option
@options.asynchronous
async def export(file: Path, data_dir: Path) -> None:
    """Save all events and checkpoints to FILE, which `verify` reads without a database."""
    count = await _export(data_dir, file)
    output.echo(f"{file}: {count} lines")


@audit_command.command("verify")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Published keys, as `skein certificates keys` writes them. Save them while you trust the cluster.",
)
@click.option(
    "--heads",
    "heads_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Heads of an earlier verification: each chain must still have them.",
)
@click.option(
    "--save-heads",
    "new_heads_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the newest checkpoint of each chain to this file, to be kept elsewhere.",
)
@options.data_dir_option
@options.json_option
@options.asynchronous
async def verify(
    file: Path | None,
    keys_file: Path,
    heads_file: Path | None,
    new_heads_file: Path | None,
    data_dir: Path,
    *,
    as_json: bool,
) -> None:
    """Verify the trail of a database, or of FILE without one. Ends with 1 and names what does not fit."""
    keys = event_log.read_published_keys(keys_file)
    result = await _verify(file, data_dir, keys)
    if heads_file is not None:
        result.compare_heads(_read_heads(heads_file))
    document = {
        "valid": not result.problems,
        "problems": [str(problem) for problem in result.problems],
        "chains": len(result.heads),
        "verified_events": result.verified_count,
        "unsigned_events": result.open_count,
        "erased_names": result.erased_count,
        "complete_through": "" if result.closed_day is None else result.closed_day.isoformat(),
    }
    if not output.print_if_json(document, as_json=as_json):
        for problem in result.problems[:_MAX_SHOWN]:
            output.echo(str(problem))
        if len(result.problems) > _MAX_SHOWN:
            output.echo(f"and {len(result.problems) - _MAX_SHOWN} more")
        output.echo(f"events     {result.verified_count} as they were signed, in {len(result.heads)} chains")
        output.echo(f"unsigned   {result.open_count}, of days without a checkpoint yet")
        output.echo(f"erased     {result.erased_count} names of purged people")
        through = "no day yet" if result.closed_day is None else f"{result.closed_day}, in all tenants"
        output.echo(f"complete   through {through}")
    if result.problems:
        raise CommandError(f"The trail does not fit: {result.problems[0]}.", ExitCode.REFUSED)
    if new_heads_file is not None:
        new_heads_file.write_text(json.dumps(result.heads, indent=2) + "\n", "utf-8")  # noqa: ASYNC240 - nothing else runs.


def _read_heads(file: Path) -> dict[str, str]:
    try:
        heads = json.loads(file.read_text("utf-8"))
        return {str(tenant_id): str(digest) for tenant_id, digest in heads.items()}
    except (ValueError, AttributeError):
        message = "The file of heads is none that `skein audit verify --save-heads` wrote."
        raise CommandError(message, ExitCode.REFUSED) from None


async def _export(data_dir: Path, file: Path) -> int:
    count = 1
    environment = {**os.environ, "SKEIN_DATA_DIR": str(data_dir)}
    async with open_source(data_dir, environment) as source, source.connection() as connection:
        any_connection: Any = connection
        with file.open("w", encoding="utf-8") as lines:
            lines.write(json.dumps({"format": trail.FORMAT}) + "\n")
            async for kind, row in trail.read_database(any_connection):
                lines.write(trail.to_line(kind, row) + "\n")
                count += 1
    return count


async def _verify(file: Path | None, data_dir: Path, keys: Mapping[str, Ed25519PublicKey]) -> Verification:
    if file is not None:
        with file.open(encoding="utf-8") as lines:
            return await trail.verify(trail.read_lines(lines), keys)
    environment = {**os.environ, "SKEIN_DATA_DIR": str(data_dir)}
    async with open_source(data_dir, environment) as source, source.connection() as connection:
        any_connection: Any = connection
        return await trail.verify(trail.read_database(any_connection), keys)
