"""`skein import` and `skein export`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from skein.memory.v1 import archives_pb2
from skein_client.pages import items
from skein_cluster import console, options
from skein_cluster.calling import as_tenant
from skein_cluster.exits import Exit, Failure
from skein_cluster.transfer.exporting import export
from skein_cluster.transfer.importing import Importer, Report, check
from skein_cluster.transfer.locomo import read_locomo
from skein_cluster.transfer.records import Kind, RecordInvalid, read_jsonl
from skein_cluster.transfer.whole import FORMS, MODES, Done, export_whole, import_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from skein_cluster.calling import Api
    from skein_cluster.transfer.records import Record, Unreadable

_FORMATS: Mapping[str, Callable[[Path], Iterator[Record | Unreadable]]] = {"jsonl": read_jsonl, "locomo": read_locomo}
# Refusals that a person wants to see at once; --json has all.
_SHOWN = 20


@click.command()
@click.argument("form", metavar="FORMAT", type=click.Choice([*_FORMATS, *FORMS]))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check the file and write nothing; jsonl and locomo call nobody.")
@click.option(
    "--mode", type=click.Choice(list(MODES)), default="merge", show_default=True, help="What to do with what is there."
)
@options.caller
@options.as_json
def import_command(
    form: str, file: Path, mode: str, environment: dict[str, str], *, dry_run: bool, as_json: bool
) -> None:
    """Import FILE into the tenant. Repeating it adds nothing twice.

    FORMAT is jsonl (sessions, messages, memories and links, one JSON object per line: what `skein export` writes),
    locomo (long conversations as snap-research/LoCoMo publishes them), skein (what `skein export --whole` writes) or
    memoryvault (its memoryvault_export_v1). --mode is for the last two. Ends with 1 when records were refused.
    """
    if form in FORMS:
        text = file.read_text("utf-8")
        _show_whole(asyncio.run(_import_whole(environment, text, form, mode, dry_run=dry_run)), as_json=as_json)
        return
    report = Report()
    try:
        records = list(_FORMATS[form](file))
    except RecordInvalid as error:
        raise Failure(str(error), Exit.REFUSED) from error
    with progress(f"{'checking' if dry_run else 'importing'} {file.name}", len(records)) as done:
        if dry_run:
            check(records, report, done)
        else:
            asyncio.run(_import(environment, records, report, done))
    _show(report, dry_run=dry_run, as_json=as_json)
    if report.refused:
        sys.exit(Exit.REFUSED)


@click.command()
@click.option("--output", "-o", type=click.File("w", encoding="utf-8", lazy=True), default="-", help="Default: stdout.")
@click.option("--whole", is_flag=True, help="The whole memory, without sessions, for `skein import skein`.")
@options.caller
def export_command(output: Any, environment: dict[str, str], *, whole: bool) -> None:
    """Write the tenant's sessions, messages, memories and links as JSON lines that `skein import jsonl` takes.

    With --whole: memories, links, trust, aliases, conflicts and blocks, as skein_export_v1.
    """
    if whole:
        count, left = asyncio.run(_export_whole(environment, output.write))
        console.err().print(f"Exported {count} items.")
    else:
        counts, left = asyncio.run(_export(environment, output.write))
        console.err().print(f"Exported {', '.join(f'{counts[kind]} {_plural(kind)}' for kind in Kind)}.")
    if left:
        click.echo(
            f"Without {left} memories that lie in cold storage: `skein archive list` names the archives, and "
            "`skein archive restore` brings one back.",
            err=True,
        )


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr when that is a terminal; yield what to call with the number of records done."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console.err(),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


async def _import(
    environment: Mapping[str, str],
    records: Sequence[Record | Unreadable],
    report: Report,
    done: Callable[[int], None],
) -> None:
    async with as_tenant(environment) as api:
        await Importer(api, report, done).run(records)


async def _export(environment: Mapping[str, str], write: Callable[[str], object]) -> tuple[Mapping[str, int], int]:
    async with as_tenant(environment) as api:
        return await export(api, write), await _stored(api)


async def _import_whole(environment: Mapping[str, str], text: str, form: str, mode: str, *, dry_run: bool) -> Done:
    async with as_tenant(environment) as api:
        return await import_whole(api, text, form, mode, dry_run=dry_run)


async def _export_whole(environment: Mapping[str, str], write: Callable[[str], object]) -> tuple[int, int]:
    async with as_tenant(environment) as api:
        return await export_whole(api, write), await _stored(api)


async def _stored(api: Api) -> int:
    """Return how many memories lie in cold storage, which no export reads."""
    request = archives_pb2.ListArchivesRequest(page_size=1000)
    return sum([archive.memory_count async for archive in items(api.history.ListArchives, request, "archives")])


def _show_whole(done: Done, *, as_json: bool) -> None:
    kinds = [*dict.fromkeys([*done.created, *done.updated, *done.unchanged])]
    if as_json:
        counts = {name: dict(getattr(done, name)) for name in ("created", "updated", "unchanged")}
        console.print_json({**counts, "refused": [list(entry) for entry in done.refused]})
    else:
        made = console.table("", "created", "updated", "unchanged", numbers=("created", "updated", "unchanged"))
        rows = [(_plural(kind), done.created[kind], done.updated[kind], done.unchanged[kind]) for kind in kinds]
        console.rows(made, rows, empty="The file holds nothing that could be stored.")
        for line, kind, reason in done.refused[:_SHOWN]:
            click.echo(f"{line}: {kind or 'unreadable'}: {reason}", err=True)
        if len(done.refused) > _SHOWN:
            click.echo(f"… and {len(done.refused) - _SHOWN} more; --json lists all.", err=True)
    if done.refused:
        sys.exit(Exit.REFUSED)


def _show(report: Report, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        console.print_json(
            {
                "dry_run": dry_run,
                "read": {kind: report.read[kind] for kind in Kind},
                "written": {kind: report.written[kind] for kind in Kind},
                "skipped": {kind: report.skipped[kind] for kind in Kind},
                "pending_embedding_count": report.pending,
                "refused": [asdict(refused) for refused in report.refused],
            }
        )
        return
    made = console.table("", "read", "written", "skipped", "refused", numbers=("read", "written", "skipped", "refused"))
    lines = []
    for kind in (*Kind, ""):
        refused = sum(1 for entry in report.refused if entry.kind == kind)
        read = report.read[kind or "unreadable"]
        if read:
            name = _plural(kind) if kind else "unreadable"
            lines.append((name, read, report.written[kind], report.skipped[kind], refused))
    console.rows(made, lines, empty="The file holds no records.")
    if report.pending:
        click.echo(f"{report.pending} are found by their words already, and by meaning soon.", err=True)
    for entry in report.refused[:_SHOWN]:
        name = f"{entry.kind} {entry.name}: " if entry.kind else ""
        click.echo(f"{entry.where}: {name}{entry.reason}", err=True)
    if len(report.refused) > _SHOWN:
        click.echo(f"… and {len(report.refused) - _SHOWN} more; --json lists all.", err=True)


def _plural(kind: str) -> str:
    return {"memory": "memories"}.get(kind, f"{kind}s")
