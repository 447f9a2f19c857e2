"""Files of Skein's own formats, imported and compared like any source."""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import move_in

from skein.memory.v1 import memory_pb2, snapshots_pb2

if TYPE_CHECKING:
    from pathlib import Path


def some_of_the_sample(path: Path) -> str:
    """Write the first session of the sample, and all memories and links."""
    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as sample:
        lines = sample.read_text("utf-8").splitlines()
    kept = lines[:12] + [line for line in lines[12:] if json.loads(line)["record"] in {"memory", "link"}]
    path.write_text("\n".join(kept), "utf-8")
    return str(path)


async def test_records_that_were_imported_are_found_again_by_a_comparison(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = some_of_the_sample(tmp_path / "some.jsonl")

    done = await move_in(cluster, tenant, "jsonl", source)
    same = await move_in(cluster, tenant, "jsonl", source, "--compare")
    links = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text("utf-8").splitlines()]
    link = next(one for one in links if one["record"] == "link")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=link["from"]))
    other = await move_in(cluster, tenant, "jsonl", source, "--compare")

    assert done.code == 0, done.err
    assert (same.code, same.json["missing"], same.json["different"]) == (0, {}, []), same.out
    assert same.json["in_skein"] == {kind: count for kind, count in done.json["written"].items() if count}
    assert other.code == 1
    assert other.json["missing"]["memory"] == {"count": 1, "samples": [link["from"]]}
    assert other.json["missing"]["link"]["count"] >= 1


async def test_a_whole_memory_is_compared_too(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    memories = [memory_pb2.Memory(content=f"Note {n}", external_id=f"e{n}") for n in range(4)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    file = tmp_path / "whole.jsonl"
    file.write_text((await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest())).lines, "utf-8")

    before = await move_in(cluster, other_tenant, "skein", str(file), "--compare")
    await move_in(cluster, other_tenant, "skein", str(file))
    same = await move_in(cluster, other_tenant, "skein", str(file), "--compare")
    changed = memory_pb2.Memory(memory_id="e1", content="Note one")
    request = memory_pb2.UpdateMemoryRequest(memory=changed)
    request.update_mask.paths.append("content")
    await other_tenant.memory.UpdateMemory(request)
    other = await move_in(cluster, other_tenant, "skein", str(file), "--compare")

    assert (before.code, before.json["inconsistency"]) == (1, 1.0)
    assert (same.code, same.json["inconsistency"]) == (0, 0.0)
    assert (other.code, [entry["count"] for entry in other.json["different"]]) == (1, [1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("skein", "x", "--all"), "has no realms"),
        (("jsonl", "x", "--compare", "--dry-run"), "--compare writes nothing"),
        (("jsonl", "x", "--vectors", "y"), "--vectors is not for jsonl"),
        (("jsonl", "x", "--realm", "a", "--all"), "either --realm or --all"),
        (("skein", "x", "--prefix", "a"), "--prefix is not for skein"),
        (("jsonl", "x", "--prefix", "a b"), "without spaces"),
        (("teletext", "x"), "'teletext' is not one of"),
    ],
)
async def test_options_that_do_not_go_together_are_refused(
    cluster: Cluster, tenant: Tenant, arguments: tuple[str, ...], said: str
) -> None:
    ended = await move_in(cluster, tenant, *arguments)

    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize("form", ["jsonl", "locomo", "skein", "duyetbot-d1", "jarvis-memory"])
async def test_a_file_that_is_not_there_is_a_wrong_command_line(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, form: str
) -> None:
    ended = await move_in(cluster, tenant, form, str(tmp_path / "absent"))

    assert ended.code == 2
    assert "does not exist" in ended.err
