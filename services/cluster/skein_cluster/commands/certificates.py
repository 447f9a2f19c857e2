"""`skein certificates`: certificates of erasures, their verification and their proof."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from skein.auth.v1 import auth_pb2, certificates_pb2
from skein_client.client import Client
from skein_cluster.api.client import as_operator, as_tenant
from skein_cluster.backup.source import open_source
from skein_cluster.certificates import event_log, proof
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.cli.output import list_first
from skein_kit.erasure_certificates import document, key_set
from skein_kit.erasure_certificates.document import CertificateInvalid, VerifiedCertificate

_KINDS = ("subject", "memory", "block", "session", "message")
_tenant_option = click.option(
    "--tenant", "tenant_id", default="", help="As the operator: the certificates of this tenant, deleted or not."
)
_file_argument = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_keys_option = click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Published keys, as `skein certificates keys` writes them.",
)


@click.group()
def certificates_command() -> None:
    """List, save, verify and prove certificates of erasures.

    Forget ends in a certificate. `verify` needs the file and the published keys alone. `prove` reads the database of a
    running cluster or of a restored backup, and shows that nothing came back.
    """


@certificates_command.command("list")
@_tenant_option
@options.limit_option
@options.cluster_answer
async def list_(tenant_id: str, limit: int, environment: dict[str, str]) -> options.Answer:
    """List certificates, newest first."""
    request = certificates_pb2.ListErasureCertificatesRequest(tenant_id=tenant_id)
    async with _client(environment, tenant_id) as api:
        certificates = await list_first(limit, api.auth.ListErasureCertificates, request, "certificates")
    yield {"certificates": certificates}
    lines = [
        (
            certificate.certificate_id,
            output.format_time(certificate.create_time),
            certificate.kind,
            "complete" if certificate.complete else "INCOMPLETE",
            sum(certificate.deleted_counts.values()),
            certificate.tombstone_count,
            certificate.key_id,
        )
        for certificate in certificates
    ]
    output.print_table(
        output.table(
            "certificate",
            "when",
            "erasure",
            "",
            "rows",
            "tombstones",
            "key",
            numbers=("rows", "tombstones"),
            ids=("certificate",),
        ),
        lines,
        empty="There are no certificates.",
    )


@certificates_command.command("get")
@click.argument("certificate_id")
@click.option(
    "--output", "file", type=click.Path(path_type=Path, dir_okay=False), help="File to write; default: ID.json here."
)
@_tenant_option
@options.cluster_answer
async def get(certificate_id: str, file: Path | None, tenant_id: str, environment: dict[str, str]) -> options.Answer:
    """Save the file of a certificate."""
    request = certificates_pb2.GetErasureCertificateRequest(certificate_id=certificate_id, tenant_id=tenant_id)
    async with _client(environment, tenant_id) as api:
        certificate = (await api.auth.GetErasureCertificate(request)).certificate
    path = file or Path(f"{certificate.certificate_id}.json")
    path.write_bytes(certificate.document.encode())
    yield {"file": str(path), "complete": certificate.complete}
    output.echo(f"{path}: {'complete' if certificate.complete else 'INCOMPLETE'}")


@certificates_command.command("keys")
@click.option(
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("certificate-keys.json"),
    show_default=True,
    help="File to write.",
)
@options.cluster_options
@options.asynchronous
async def keys(file: Path, environment: dict[str, str]) -> None:
    """Save the published keys of certificates, also of replaced ones, as a JWK Set."""
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    async with as_tenant(environment) as api:
        response = await api.auth.ListSigningKeys(request)
    file.write_text(key_set.write([key.jwk for key in response.signing_keys]), "utf-8")  # noqa: ASYNC240 - nothing else runs.
    output.echo(str(file))


@certificates_command.command("verify")
@_file_argument
@_keys_option
@click.option("--log", "with_log", is_flag=True, help="Also find the purges in the event log of the tenant's cluster.")
@options.cluster_options
@options.json_option
@options.asynchronous
async def verify(file: Path, keys_file: Path, environment: dict[str, str], *, with_log: bool, as_json: bool) -> None:
    """Verify FILE with the published keys, without a cluster. Ends with 1 if it was changed or is incomplete.

    A certificate names its purges and the position at which the event log has them. With --log, the purges must be
    there: the command reads the log with a key of the tenant.
    """
    certificate = _verified(file, keys_file)
    statement = certificate.statement
    problem = event_log.position_problem(statement)
    if not problem and with_log:
        problem = await _log_problem(environment, statement)
    if problem:
        raise CommandError(f"The certificate is not valid: {problem}.", ExitCode.REFUSED)
    count = len(statement["receipt_ids"])
    if as_json:
        output.print_json(
            {"valid": True, "key_id": certificate.key_id, "in_event_log": with_log, "certificate": dict(statement)}
        )
    else:
        output.echo(f"The signature is valid (key {certificate.key_id}).")
        output.echo(f"tenant     {statement['tenant_id']}")
        output.echo(f"erasure    {statement['start_time']} to {statement['end_time']}")
        for table, count in sorted(statement["deleted_counts"].items()):
            output.echo(f"purged     {count} of {table}")
        listed = "all listed" if certificate.tombstones is not None else "not listed in the file"
        output.echo(f"tombstones {statement['tombstone_count']}, {listed}")
        found = "found in the event log" if with_log else "not looked up in the event log (--log)"
        output.echo(f"receipts   {count}, {found if count else 'sessions leave none'}")
        for name, value in statement.get("remains", {}).items():
            output.echo(f"{name}: {value}")
    _require_complete(certificate)


@certificates_command.command("prove")
@_file_argument
@_keys_option
@click.option(
    "--covers",
    "names",
    nargs=2,
    multiple=True,
    type=(click.Choice(_KINDS), str),
    metavar="KIND ID",
    help=f"Show that the certificate covers this id (repeatable). KIND is {', '.join(_KINDS)}.",
)
@options.data_dir_option
@options.json_option
@options.asynchronous
async def prove(
    file: Path, keys_file: Path, names: tuple[tuple[str, str], ...], data_dir: Path, *, as_json: bool
) -> None:
    """Show that nothing of what FILE certifies exists in the database. Ends with 1 otherwise.

    The database is that of SKEIN_DATABASE_URL if set, else that of the data folder, running or not. It compares digests
    of ids under the tenant's salt, and reads no content. It needs a superuser, who sees the rows of all tenants.
    """
    certificate = _verified(file, keys_file)
    _require_complete(certificate)
    if certificate.statement["kind"] == "tenant_deletion":
        message = "The tenant and its salts are gone; `skein tenants` and the tables show that no row names it."
        raise CommandError(message, ExitCode.REFUSED)
    environment = {**os.environ, "SKEIN_DATA_DIR": str(data_dir)}
    async with open_source(data_dir, environment) as source, source.connection() as connection:
        any_connection: Any = connection
        result = await proof.prove(any_connection, certificate, names)
    missing = [inclusion.name for inclusion in result.inclusions if inclusion.leaf is None]
    if as_json:
        output.print_json({**dataclasses.asdict(result), "proved": result.is_gone and not missing})
    else:
        output.echo(f"Compared {result.tombstone_count} tombstones with the ids of all items of the tenant.")
        if not result.is_settled:
            output.echo("The access log is not compared before settle_time: running calls may still be logged.")
        for kind, count in result.existing.items():
            output.echo(f"EXISTS: {count} {kind}")
        if result.missing_tombstones:
            output.echo(f"MISSING: {result.missing_tombstones} tombstones, so an import could bring items back")
        for inclusion in result.inclusions:
            state = "not covered" if inclusion.leaf is None else f"covered, leaf {inclusion.index}"
            output.echo(f"{inclusion.name}: {state}")
    if not result.is_gone:
        raise CommandError("Something of what was erased exists, or could come back.", ExitCode.REFUSED)
    if missing:
        raise CommandError(f"The certificate does not cover {', '.join(missing)}.", ExitCode.REFUSED)
    if not as_json:
        output.echo("Nothing of it exists.")


def _verified(file: Path, keys_file: Path) -> VerifiedCertificate:
    try:
        return document.verify(file.read_bytes(), event_log.read_published_keys(keys_file))
    except CertificateInvalid as error:
        raise CommandError(f"The certificate is not valid: {error}.", ExitCode.REFUSED) from None


def _require_complete(certificate: VerifiedCertificate) -> None:
    if certificate.statement.get("complete") is not True:
        raise CommandError("The erasure was not complete; the certificate says so.", ExitCode.REFUSED)


@asynccontextmanager
async def _client(environment: Mapping[str, str], tenant_id: str) -> AsyncIterator[Client]:
    async with as_operator(environment) if tenant_id else as_tenant(environment) as api:
        yield api


async def _log_problem(environment: Mapping[str, str], statement: Mapping[str, Any]) -> str:
    async with as_tenant(environment) as api:
        return await event_log.log_problem(api.history, statement)
