"""Prints the mapping report and the comparison of `skein import`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from skein_cluster.cli import output
from skein_importers.comparison import Comparison
from skein_importers.records import FIELDS, Kind
from skein_importers.report import Outcome, Report
from skein_importers.sources.base import CountWithSamples

# Refusals in the printed report; --json has more.
_SHOWN = 20
# Printed characters of an id.
_NAME = 60


def show_report(report: Report, *, dry_run: bool, as_json: bool, tenants: Mapping[str, str]) -> None:
    """Print the mapping report."""
    if output.print_if_json({**_as_json(report), "dry_run": dry_run, "tenants": dict(tenants)}, as_json=as_json):
        return
    _show_records(report, dry_run=dry_run)
    _show_notes(report)
    for realm, tenant_id in tenants.items():
        output.echo(f"realm {realm}: tenant {tenant_id}")
    if dry_run:
        output.echo("Dry run: nothing was written.", err=True)
    if report.pending:
        output.echo(
            f"{report.pending} have no vector yet: only keyword search finds them.",
            err=True,
        )
    for entry in report.refused[:_SHOWN]:
        name = f"{entry.kind} {output.shorten(entry.name, _NAME)}: " if entry.kind else ""
        output.echo(f"{entry.where}: {name}{entry.reason}", err=True)
    if report.refused_count > _SHOWN:
        output.echo(f"… and {report.refused_count - _SHOWN} more; --json lists them.", err=True)
    for hint in dict.fromkeys(entry.hint for entry in report.refused if entry.hint):
        output.echo(hint, err=True)


def show_comparison(comparison: Comparison, threshold: float, *, as_json: bool) -> None:
    """Print the missing and the different records."""
    passes = comparison.share <= threshold
    if output.print_if_json(
        {
            "in_source": dict(comparison.in_source),
            "in_skein": dict(comparison.in_skein),
            "missing": {kind: asdict(tally) for kind, tally in comparison.missing.items()},
            "different": [
                {"kind": kind, "fields": fields.split(", "), **asdict(tally)}
                for (kind, fields), tally in comparison.different.items()
            ],
            "unchecked": dict(comparison.unchecked),
            "unreadable": comparison.unreadable,
            "without_tenant": comparison.without_tenant,
            "inconsistency": comparison.share,
            "threshold": threshold,
            "passes": passes,
        },
        as_json=as_json,
    ):
        return
    numbers = ("in the source", "in Skein", "missing", "different")
    lines = []
    for kind in sorted(comparison.in_source, key=_place):
        missing = comparison.missing.get(kind)
        different = sum(tally.count for (other, _), tally in comparison.different.items() if other == kind)
        counts = (comparison.in_source[kind], comparison.in_skein[kind], missing.count if missing else 0, different)
        lines.append((_plural(kind), *counts))
    output.print_table(output.table("", *numbers, numbers=numbers), lines, empty="The source has no records.")
    if comparison.without_tenant:
        realms = ", ".join(comparison.without_tenant[:_SHOWN])
        more = ", …" if len(comparison.without_tenant) > _SHOWN else ""
        output.echo(f"Realms without a tenant, whose records are all missing: {realms}{more}")
    for kind, tally in comparison.missing.items():
        output.echo(f"{tally.count} {_plural(kind)} missing, such as {_samples(tally)}")
    for (kind, fields), tally in comparison.different.items():
        output.echo(f"{tally.count} {_plural(kind)} different in {fields}, such as {_samples(tally)}")
    for kind, count in comparison.unchecked.items():
        output.echo(f"{count} {_plural(kind)} not compared: no RPC reads them")
    if comparison.unreadable:
        output.echo(
            f"{comparison.unreadable} rows not compared, because an import refuses them (--dry-run names the reasons)"
        )
    verdict = "within" if passes else "above"
    output.echo(f"{comparison.share:.4%} are inconsistent, {verdict} the threshold of {threshold:.4%}.")


def _show_records(report: Report, *, dry_run: bool) -> None:
    outcomes = {
        Outcome.WRITTEN: "written",
        Outcome.SKIPPED: "already present",
        Outcome.RECOMPUTED: "recomputed",
        Outcome.REFUSED: "refused",
    }
    if dry_run:
        outcomes = {Outcome.REFUSED: outcomes[Outcome.REFUSED]}
    elif not any(outcome is Outcome.RECOMPUTED for _, _, outcome in report.outcomes):
        del outcomes[Outcome.RECOMPUTED]
    numbers = ("read", *outcomes.values())
    lines = [
        (
            table,
            _plural(kind) if kind else "unreadable",
            count,
            *(report.outcomes[table, kind, outcome] for outcome in outcomes),
        )
        for (table, kind), count in _in_order(report)
    ]
    empty = "The source has no records."
    if all(not table for table, *_ in lines):
        output.print_table(output.table("", *numbers, numbers=numbers), [line[1:] for line in lines], empty=empty)
    else:
        output.print_table(output.table("from", "as", *numbers, numbers=numbers), lines, empty=empty)


def _show_notes(report: Report) -> None:
    changed: dict[str, list[tuple[object, ...]]] = {}
    for (table, column, conversion), tally in sorted(report.notes.conversions.items()):
        samples = ", ".join(sample.removeprefix(f"{table} ") for sample in tally.samples[:2])
        changed.setdefault(table, []).append((column, tally.count, conversion, samples))
    for table, lines in changed.items():
        output_table = output.table("column", "rows", "conversion", "examples", title=table, numbers=("rows",))
        output.print_table(output_table, lines, empty="")
    if report.notes.ignored:
        output_table = output.table("table", "rows", "ignored because", numbers=("rows",))
        rows = [(table, count, reason) for (table, reason), count in sorted(report.notes.ignored.items())]
        output.print_table(output_table, rows, empty="")


def _as_json(report: Report) -> dict[str, Any]:
    kinds = [*FIELDS, *(kind for kind in report.read if kind not in {*FIELDS, "unreadable"})]
    return {
        "read": {kind: report.read[kind] for kind in kinds},
        "written": {kind: report.written[kind] for kind in kinds},
        "skipped": {kind: report.skipped[kind] for kind in kinds},
        "pending_embedding_count": report.pending,
        "refused_count": report.refused_count,
        "refused": [asdict(refusal) for refusal in report.refused],
        "rows": dict(report.notes.rows),
        "records": [
            {
                "table": table,
                "kind": str(kind),
                "read": count,
                **{str(outcome): report.outcomes[table, kind, outcome] for outcome in Outcome},
            }
            for (table, kind), count in _in_order(report)
        ],
        "coerced": [
            {"table": table, "column": column, "how": how, "count": tally.count, "samples": tally.samples}
            for (table, column, how), tally in sorted(report.notes.conversions.items())
        ],
        "left": [
            {"table": table, "why": why, "count": count} for (table, why), count in sorted(report.notes.ignored.items())
        ],
    }


def _samples(tally: CountWithSamples) -> str:
    return ", ".join(output.shorten(sample, _NAME) for sample in tally.samples)


def _in_order(report: Report) -> list[tuple[tuple[str, str], int]]:
    """Return the records read, in the order of tables and kinds."""
    tables = list(dict.fromkeys(table for table, _ in report.records))
    return sorted(report.records.items(), key=lambda entry: (tables.index(entry[0][0]), _place(entry[0][1])))


def _place(kind: str) -> int:
    kinds = list(Kind)
    return kinds.index(Kind(kind)) if kind in kinds else len(kinds)


def _plural(kind: str) -> str:
    words = str(kind).replace("_", " ")
    return {"memory": "memories", "policy": "policies", "alias": "aliases", "trust": "trust"}.get(words, f"{words}s")
