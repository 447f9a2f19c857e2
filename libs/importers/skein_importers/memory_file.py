"""Export of a tenant's whole memory as one file (skein_export_v1), and import of such files or MemoryVault's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from skein.memory.v1 import snapshots_pb2 as pb
from skein_client.client import Client
from skein_client.errors import SkeinError
from skein_importers.budget import ImportBudget
from skein_importers.errors import SourceInvalid
from skein_kit.json_values import exact

FORMS = {"skein": pb.IMPORT_FORMAT_SKEIN_EXPORT_V1, "memoryvault": pb.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1}
MODES = {
    "merge": pb.IMPORT_MODE_MERGE,
    "overwrite": pb.IMPORT_MODE_OVERWRITE,
    "skip-existing": pb.IMPORT_MODE_SKIP_EXISTING,
}
_PAGE = 1000
_LINES = 500
# One call takes 3 MiB; each line adds one byte.
_BYTES = 3_000_000


@dataclass(kw_only=True, slots=True)
class ImportCounts:
    """Counts of a file's items by kind, and the refused ones with their line, or their number in a list."""

    created: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Items of one call."""

    # The line of the first item, or its number in a list.
    first: int
    # Items, or lines.
    count: int
    text: str


async def export_memory(api: Client, write: Callable[[str], object]) -> int:
    """Write the tenant's memory as of now; return the number of items."""
    request, count = pb.ExportDataRequest(page_size=_PAGE), 0
    while True:
        page = await api.snapshots.ExportData(request)
        write(page.lines)
        count += page.item_count
        if not page.next_page_token:
            return count
        request.page_token = page.next_page_token


async def import_memory(api: Client, text: str, form: str, mode: str, *, dry_run: bool) -> ImportCounts:
    """Import a file's items in batches. Repeating it changes nothing.

    Each batch waits while the tenant's imports are paused or limited; a dry run writes nothing and does not wait.
    """
    counts, budget = ImportCounts(), ImportBudget(api)
    try:
        for batch in _lines(text) if form == "skein" else _documents(text):
            if not dry_run:
                await budget.take(batch.count)
            response = await api.snapshots.ImportData(
                pb.ImportDataRequest(lines=batch.text, format=FORMS[form], mode=MODES[mode], dry_run=dry_run)
            )
            budget.add_done(batch.count)
            counts.created.update(response.counts.created)
            counts.updated.update(response.counts.updated)
            counts.unchanged.update(response.counts.unchanged)
            counts.refused += [(batch.first + error.line - 1, error.kind, error.reason) for error in response.errors]
    finally:
        if not dry_run:
            # The end is only shown; an error of this call does not fail the import.
            with suppress(SkeinError):
                await budget.finish()
    return counts


def _lines(text: str) -> Iterator[_Batch]:
    """Split lines into batches for one call."""
    lines: list[str] = []
    first, size = 1, 0
    for number, line in enumerate(text.split("\n"), 1):
        length = len(line.encode()) + 1
        if lines and (len(lines) == _LINES or size + length > _BYTES):
            yield _Batch(first, len(lines), "\n".join(lines))
            lines, first, size = [], number, 0
        lines.append(line)
        size += length
    if any(line.strip() for line in lines):
        yield _Batch(first, len(lines), "\n".join(lines))


def _documents(text: str) -> Iterator[_Batch]:
    """Split MemoryVault's document into smaller documents, memories first. Raises SourceInvalid."""
    try:
        document = exact.loads(text)
        # Find invalid numbers before the first batch is stored.
        exact.dumps(document)
    except (ValueError, ArithmeticError, RecursionError):
        raise SourceInvalid(
            "The file is no JSON: make the export again, and check that it is complete and holds no NaN."
        ) from None
    data = document.get("data") if isinstance(document, dict) else None
    lists = data if isinstance(data, dict) else document
    if not isinstance(lists, dict):
        # The service reports the error.
        yield _Batch(1, 1, text)
        return
    head = {name: value for name, value in document.items() if isinstance(value, str)}
    names = sorted(
        (name for name, value in lists.items() if isinstance(value, list)), key=lambda name: name != "memories"
    )
    for name in names:
        rows: list[object] = []
        first, size = 1, 0
        for number, row in enumerate(lists[name], 1):
            length = len(exact.dumps(row).encode()) + 2
            if rows and (len(rows) == _LINES or size + length > _BYTES):
                yield _Batch(first, len(rows), exact.dumps({**head, name: rows}))
                rows, first, size = [], number, 0
            rows.append(row)
            size += length
        if rows:
            yield _Batch(first, len(rows), exact.dumps({**head, name: rows}))
