"""What a person reads of an import."""

from __future__ import annotations

import pytest

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_cluster.commands.import_report import show_report
from skein_importers.records import Kind, Record
from skein_importers.report import Report


def a_report() -> Report:
    report = Report()
    memory = Record(where="rows 1", kind=Kind.MEMORY, item=memory_pb2.Memory(external_id="m" * 300), table="rows")
    report.count_read(memory)
    report.refuse(memory, "is too long.")
    report.notes.count_converted("rows", "tags", "a duplicate tag was removed", "rows 1")
    return report


def test_a_dry_run_says_that_it_was_one_and_names_ids_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(a_report(), dry_run=True, as_json=False, tenants={})

    output = capsys.readouterr()
    assert "already present" not in output.out
    assert "tags        1   a duplicate tag was removed   1" in output.out
    assert output.err.splitlines() == [
        "Dry run: nothing was written.",
        f"rows 1: memory {'m' * 59}…: is too long.",
    ]


def test_recomputed_vectors_have_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    report = a_report()
    put = recall_pb2.PutEmbeddingRequest(external_id="m", model="theirs")
    vector = Record(where="rows 1", kind=Kind.EMBEDDING, item=put, table="rows")
    report.count_read(vector)
    report.recompute(vector, "theirs is no model of this cluster")

    show_report(report, dry_run=False, as_json=False, tenants={})

    assert "recomputed" in capsys.readouterr().out.splitlines()[1]
