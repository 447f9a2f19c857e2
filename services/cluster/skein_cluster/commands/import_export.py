"""`skein import` and `skein export`."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from skein.memory.v1 import archives_pb2
from skein_client.client import Client
from skein_client.pagination import iterate_pages
from skein_cluster.api.client import as_operator, as_tenant, open_client, operator_connection
from skein_cluster.cli import options
from skein_cluster.cli import output as console
from skein_cluster.cli.error_messages import error_sentence
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.import_report import show_comparison, show_report
from skein_importers.comparison import Comparison
from skein_importers.exporter import export
from skein_importers.id_prefix import PREFIX, PrefixedSource
from skein_importers.interchange import export_mif
from skein_importers.memory_file import FORMS, MODES, ImportCounts, export_memory, import_memory
from skein_importers.realms import choose_realms, compare_all, compare_one, dry_run, import_all, import_into_tenant
from skein_importers.records import FIELDS, ITEMS
from skein_importers.report import Report
from skein_importers.sources import FORMATS
from skein_importers.sources.base import CountWithSamples, Notes, Realm, Source
from skein_importers.sources.files import READERS, open_file

_FORMS = (*READERS, *FORMS, *FORMATS)
# Differences that seed 004's plan allows a dual write: 0.1 %.
_THRESHOLD = 0.001
# Refusals in the printed report; --json lists all.
_SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """Options of `skein import`."""

    form: str
    source: str
    vectors: str
    realm: str
    is_all: bool
    is_dry: bool
    is_comparison: bool
    threshold: float
    prefix: str
    as_json: bool


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice(_FORMS))
@click.argument("source")
@click.option("--dry-run", "is_dry", is_flag=True, help="Read everything, write nothing and call no service.")
@click.option("--realm", default="", metavar="ID|SLUG", help="Realm of the source to import into your tenant.")
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="As the operator: import each realm into a tenant of its own, with its accounts.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Prefix of the ids of sessions, messages and memories.")
@click.option("--vectors", default="", metavar="FILE", help="For longterm-d1: a dump of the vectors as JSON lines.")
@click.option("--compare", "is_comparison", is_flag=True, help="Write nothing; report missing and different records.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=_THRESHOLD,
    show_default=True,
    help="With --compare: the largest share of differences for which the exit code is 0.",
)
@click.option(
    "--mode",
    type=click.Choice(list(MODES)),
    default="merge",
    show_default=True,
    help="For skein and memoryvault: how to treat existing items.",
)
@options.cluster_options
@options.json_option
def import_command(mode: str, environment: dict[str, str], **values: Any) -> None:
    """Import SOURCE into the tenant. A repeated import adds nothing twice, and resumes an interrupted one.

    \b
    FORMAT is one of
      jsonl                 output of `skein export`: a JSON object per line
      locomo                conversations in the format of snap-research/LoCoMo
      skein, memoryvault    complete files of skein_export_v1 and memoryvault_export_v1
      duyetbot-d1, memoryvault-d1, longterm-d1
                            D1 databases: an SQLite file or the SQL of an export
      memoryvault-json      memoryvault_export_v1, with a mapping report
      agentmem-pg, orchestrator-pg
                            the URL of a Postgres database
      session-memory-agent, contextual-memory, jarvis-memory
                            SQLite or JSON stores
      chatgpt-json, claude-json
                            the conversations.json of an export of ChatGPT or Claude
      mcp-memory-jsonl      the memory.jsonl of MCP's memory server
      openmemory-sqlite     the openmemory.db of OpenMemory
      mem0-json, mem0-pgvector
                            mem0: a file of get_all or of Qdrant's points; the URL of a Postgres database
      langgraph-pg          the URL of the Postgres database of LangGraph's store
      letta-af, letta-pg    an agent file of Letta; the URL of the Postgres database of a Letta server
      graphiti-json         a graph of Graphiti or Zep
      hindsight-zip         the transfer archive of a Hindsight bank
      mif                   the Memory Interchange Format 2, of Skein or another program

    The mapping report counts records that were read, written, already present, converted, ignored and refused. The
    exit code is 1 if records were refused, or if --compare finds more differences than the threshold.
    """  # noqa: D301 - click wants the backspace itself.
    import_options = ImportOptions(**values)
    _check(import_options)
    if import_options.form in FORMS:
        _import_file(environment, import_options, mode)
        return
    report = Report(describe_error=error_sentence)
    with _open_source(import_options) as plain_source:
        source = PrefixedSource(plain_source, import_options.prefix) if import_options.prefix else plain_source
        realms = choose_realms(source, import_options.realm, all_realms=import_options.is_all)
        if import_options.is_comparison:
            _compare(environment, import_options, source, realms, report)
            return
        tenants: dict[str, str] = {}
        with progress(
            f"{'checking' if import_options.is_dry else 'importing'} {import_options.form}", None
        ) as on_progress:
            if import_options.is_dry:
                dry_run(source, realms, report, on_progress, all_realms=import_options.is_all)
            else:
                tenants = _import_interruptible(environment, import_options, source, realms, report, on_progress)
        has_people = not import_options.is_all and _has_people(source)
    show_report(report, dry_run=import_options.is_dry, as_json=import_options.as_json, tenants=tenants)
    if has_people:
        console.echo("Accounts, clients and memberships are imported only with --all, as the operator.", err=True)
    if report.refused_count:
        sys.exit(ExitCode.REFUSED)


@click.command()
@click.option(
    "--output",
    "-o",
    type=click.File("w", encoding="utf-8", lazy=True),
    default="-",
    help="Output file; default: stdout.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "mif"]),
    default="jsonl",
    show_default=True,
    help="Format of the file.",
)
@click.option("--memory-only", is_flag=True, help="Only the memory, without sessions, for `skein import skein`.")
@options.cluster_options
def export_command(output: Any, form: str, environment: dict[str, str], *, memory_only: bool) -> None:
    """Write the tenant as JSON lines for `skein import jsonl`, or as a document that other programs read.

    The export has subjects, agents, tools, blocks, sessions, messages, items, agent states, memories, links, curation
    and the policy. With --format mif it is a document of the Memory Interchange Format 2, whose memories other
    programs read; `skein import mif` reads all of it. With --memory-only it has memories, links, trust, aliases,
    conflicts and blocks, as skein_export_v1.
    """
    if memory_only and form != "jsonl":
        raise click.UsageError("--memory-only has a format of its own; omit --format.")
    if memory_only:
        count, archived = asyncio.run(_export_file(environment, output.write))
        console.stderr_console().print(f"Exported {count} items.")
    else:
        counts, archived = asyncio.run(_export(environment, output.write, form))
        kinds = [*FIELDS, *(kind for kind in ITEMS if counts[kind])]
        console.stderr_console().print(f"Exported {', '.join(f'{counts[kind]} {_plural(kind)}' for kind in kinds)}.")
    if archived:
        console.echo(
            f"The export lacks {archived} archived memories: `skein archive list` lists the archives, and "
            "`skein archive unarchive` moves one back.",
            err=True,
        )


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr when that is a terminal; yield a function that takes the number of records counts."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console.stderr_console(),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def _check(import_options: ImportOptions) -> None:
    """Raise UsageError for options that exclude each other."""
    takes_vectors = import_options.form in FORMATS and FORMATS[import_options.form].has_vectors
    if import_options.vectors and not takes_vectors:
        raise click.UsageError(f"--vectors does not apply to {import_options.form}.")
    if import_options.realm and import_options.is_all:
        raise click.UsageError("Give either --realm or --all.")
    if import_options.is_comparison and import_options.is_dry:
        raise click.UsageError("--compare writes nothing; omit --dry-run.")
    if import_options.form in FORMS and (import_options.realm or import_options.is_all):
        raise click.UsageError(f"A file of the format {import_options.form} has no realms; omit --realm and --all.")
    if import_options.form in FORMS and import_options.prefix:
        raise click.UsageError(f"--prefix does not apply to {import_options.form}.")
    if import_options.prefix and not PREFIX.fullmatch(import_options.prefix):
        raise click.UsageError("--prefix takes 1 to 64 letters, digits and signs, without spaces.")
    files = [import_options.vectors] if import_options.vectors else []
    if import_options.form not in FORMATS or not FORMATS[import_options.form].is_url:
        files.insert(0, import_options.source)
    for file in files:
        # Permissions and content are checked when it is opened.
        click.Path(exists=True, readable=False).convert(file, None, None)


def _open_source(import_options: ImportOptions) -> AbstractContextManager[Source]:
    if import_options.form in READERS:
        return open_file(import_options.form, import_options.source)
    return FORMATS[import_options.form].open(import_options.source, import_options.vectors)


def _import_interruptible(
    environment: Mapping[str, str],
    import_options: ImportOptions,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    on_progress: Callable[[int], None],
) -> dict[str, str]:
    try:
        return asyncio.run(_import(environment, import_options, source, realms, report, on_progress))
    except KeyboardInterrupt:
        written = sum(report.written.values())
        raise CommandError(
            f"Interrupted. The {written} written records are kept; the same command resumes the import.",
            ExitCode.INTERRUPTED,
        ) from None


async def _import(
    environment: Mapping[str, str],
    import_options: ImportOptions,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    on_progress: Callable[[int], None],
) -> dict[str, str]:
    if import_options.is_all:
        async with as_operator(environment) as operator:
            return await import_all(operator, _tenant_client_factory(environment), source, realms, report, on_progress)
    async with as_tenant(environment) as api:
        await import_into_tenant(api, source, realms, report, on_progress)
    return {}


async def _compare_realms(
    environment: Mapping[str, str],
    import_options: ImportOptions,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
    on_progress: Callable[[int], None],
) -> Comparison:
    if import_options.is_all:
        async with as_operator(environment) as operator:
            return await compare_all(operator, _tenant_client_factory(environment), source, realms, report, on_progress)
    async with as_tenant(environment) as api:
        return await compare_one(api, source, realms, report, on_progress)


def _tenant_client_factory(environment: Mapping[str, str]) -> Callable[[str], AbstractAsyncContextManager[Client]]:
    """Return a function that opens the operator's client for a tenant."""
    connection = operator_connection(environment)
    return lambda tenant_id: open_client(dataclasses.replace(connection, tenant_id=tenant_id))


def _compare(
    environment: Mapping[str, str],
    import_options: ImportOptions,
    source: Source,
    realms: Sequence[Realm],
    report: Report,
) -> None:
    with progress(f"comparing {import_options.form}", None) as on_progress:
        comparison = asyncio.run(_compare_realms(environment, import_options, source, realms, report, on_progress))
    show_comparison(comparison, import_options.threshold, as_json=import_options.as_json)
    if import_options.is_all and _has_people(source):
        console.echo("Accounts, clients and memberships are not compared.", err=True)
    if comparison.share > import_options.threshold:
        sys.exit(ExitCode.REFUSED)


def _has_people(source: Source) -> bool:
    return next(iter(source.accounts(Notes())), None) is not None


def _import_file(environment: Mapping[str, str], import_options: ImportOptions, mode: str) -> None:
    """Import a file with the whole memory; a comparison is a dry run of overwriting."""
    try:
        text = Path(import_options.source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(
            f"{import_options.source} cannot be read ({reason}): check its name and permissions.", ExitCode.REFUSED
        ) from None
    if not import_options.is_comparison:
        counts = asyncio.run(_import_text(environment, text, import_options.form, mode, dry_run=import_options.is_dry))
        _show_counts(counts, as_json=import_options.as_json)
        return
    counts = asyncio.run(_import_text(environment, text, import_options.form, "overwrite", dry_run=True))
    comparison = Comparison(
        in_source=counts.created + counts.updated + counts.unchanged,
        in_skein=counts.updated + counts.unchanged,
        missing={kind: CountWithSamples(count) for kind, count in counts.created.items()},
        different={(kind, "some field"): CountWithSamples(count) for kind, count in counts.updated.items()},
        unreadable=len(counts.refused),
    )
    show_comparison(comparison, import_options.threshold, as_json=import_options.as_json)
    if comparison.share > import_options.threshold:
        sys.exit(ExitCode.REFUSED)


async def _export(
    environment: Mapping[str, str], write: Callable[[str], object], form: str
) -> tuple[Mapping[str, int], int]:
    async with as_tenant(environment) as api:
        if form == "mif":
            return await export_mif(api, write, datetime.now(UTC)), await _count_archived(api)
        return await export(api, write), await _count_archived(api)


async def _import_text(
    environment: Mapping[str, str], text: str, form: str, mode: str, *, dry_run: bool
) -> ImportCounts:
    async with as_tenant(environment) as api:
        return await import_memory(api, text, form, mode, dry_run=dry_run)


async def _export_file(environment: Mapping[str, str], write: Callable[[str], object]) -> tuple[int, int]:
    async with as_tenant(environment) as api:
        return await export_memory(api, write), await _count_archived(api)


async def _count_archived(api: Client) -> int:
    """Return the number of archived memories, which exports leave out."""
    request = archives_pb2.ListArchivesRequest(page_size=1000)
    return sum([archive.memory_count async for archive in iterate_pages(api.history.ListArchives, request, "archives")])


def _show_counts(import_counts: ImportCounts, *, as_json: bool) -> None:
    kinds = [*dict.fromkeys([*import_counts.created, *import_counts.updated, *import_counts.unchanged])]
    if as_json:
        counts = {name: dict(getattr(import_counts, name)) for name in ("created", "updated", "unchanged")}
        console.print_json({**counts, "refused": [list(entry) for entry in import_counts.refused]})
    else:
        counts_table = console.table("", "created", "updated", "unchanged", numbers=("created", "updated", "unchanged"))
        rows = [
            (_plural(kind), import_counts.created[kind], import_counts.updated[kind], import_counts.unchanged[kind])
            for kind in kinds
        ]
        console.print_table(counts_table, rows, empty="The file contains no items.")
        for line, kind, reason in import_counts.refused[:_SHOWN]:
            console.echo(f"{line}: {kind or 'unreadable'}: {reason}", err=True)
        if len(import_counts.refused) > _SHOWN:
            console.echo(f"… and {len(import_counts.refused) - _SHOWN} more; --json lists all.", err=True)
    if import_counts.refused:
        sys.exit(ExitCode.REFUSED)


def _plural(kind: str) -> str:
    irregular = {"memory": "memories", "alias": "aliases", "policy": "policies", "trust": "trusted sources"}
    return irregular.get(kind, f"{kind}s".replace("_", " "))
