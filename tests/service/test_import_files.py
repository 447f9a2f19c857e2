"""Files of Skein's own formats, imported and compared like any source."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_moving import changed, move_in, outcome, remaining_counts

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2, snapshots_pb2


def some_of_the_sample(path: Path) -> str:
    """Write the first session of the sample, and all memories and links."""
    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as sample:
        lines = sample.read_text("utf-8").splitlines()
    kept = lines[:12] + [line for line in lines[12:] if json.loads(line)["record"] in {"memory", "link"}]
    path.write_text("\n".join(kept), "utf-8")
    return str(path)


@pytest.mark.system
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


@pytest.mark.system
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
    ("arguments", "message"),
    [
        (("skein", "x", "--all"), "has no realms"),
        (("jsonl", "x", "--compare", "--dry-run"), "--compare writes nothing"),
        (("jsonl", "x", "--vectors", "y"), "--vectors does not apply to jsonl"),
        (("jsonl", "x", "--realm", "a", "--all"), "either --realm or --all"),
        (("skein", "x", "--prefix", "a"), "--prefix does not apply to skein"),
        (("jsonl", "x", "--prefix", "a b"), "without spaces"),
        (("teletext", "x"), "'teletext' is not one of"),
    ],
)
async def test_options_that_do_not_go_together_are_refused(
    cluster: Cluster, tenant: Tenant, arguments: tuple[str, ...], message: str
) -> None:
    ended = await move_in(cluster, tenant, *arguments)

    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize("form", ["jsonl", "locomo", "skein", "duyetbot-d1", "jarvis-memory"])
async def test_a_file_that_is_not_there_is_a_wrong_command_line(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, form: str
) -> None:
    ended = await move_in(cluster, tenant, form, str(tmp_path / "absent"))

    assert ended.code == 2
    assert "does not exist" in ended.err


EXPIRED = "2020-01-02T00:00:00Z"


def jsonl(path: Path, *records: dict[str, Any]) -> str:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return str(path)


def memory(name: str, **fields: Any) -> dict[str, Any]:
    return {"record": "memory", "external_id": name, "content": f"Note {name}", **fields}


def link(one: str, other: str) -> dict[str, Any]:
    return {"record": "link", "from": one, "to": other}


async def test_a_key_that_may_not_keep_times_leaves_what_has_expired(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="w", permissions=["memory.read", "memory.write"])
    )
    writer = replace(tenant, api_key=made.secret)
    memories = [memory(f"m{n}", **({"expire_time": EXPIRED} if n % 3 == 0 else {})) for n in range(9)]
    source = jsonl(tmp_path / "m.jsonl", *memories, link("m1", "m2"), link("m0", "m1"))

    done = await move_in(cluster, writer, "jsonl", source)
    again = await move_in(cluster, writer, "jsonl", source)

    assert (done.code, done.json["refused"]) == (0, []), done.err
    assert outcome(done.json, "memory") == (9, 6, 0)
    assert outcome(done.json, "link") == (2, 1, 0)
    assert done.json["left"] == [
        {"table": "link", "why": "one of its memories has expired", "count": 1},
        {"table": "memory", "why": "expired: the key lacks tenant.write to keep times", "count": 3},
    ]
    assert sum(changed(done.json, "memory", "times").values()) == 6
    assert (again.code, outcome(again.json, "memory"), again.json["refused"]) == (0, (9, 0, 6), []), again.err


async def test_links_of_memories_that_have_expired_stay_behind_each_time(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    memories = [memory("a", expire_time=EXPIRED), memory("b"), memory("c")]
    source = jsonl(tmp_path / "m.jsonl", *memories, link("a", "b"), link("b", "a"), link("b", "c"), link("b", "no"))

    done = await move_in(cluster, tenant, "jsonl", source)
    again = await move_in(cluster, tenant, "jsonl", source)

    assert outcome(done.json, "memory") == (3, 3, 0)
    for report, counts in ((done.json, (4, 1, 0)), (again.json, (4, 0, 1))):
        assert outcome(report, "link") == counts
        assert remaining_counts(report) == {"link": 2}
        assert [entry["where"] for entry in report["refused"] if entry["kind"] == "link"] == ["line 7"]


@pytest.mark.parametrize(
    "text",
    ["{", '{"memories": [{"content": "x", "n": NaN}]}', '{"memories": [{"content": "x", "n": 1e9999999999999999999}]}'],
)
async def test_a_document_with_a_number_that_json_lacks_is_refused_before_any_write(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "vault.json"
    path.write_text(text, "utf-8")

    ended = await move_in(cluster, tenant, "memoryvault", str(path))

    assert ended.code == 1
    assert "The file is no JSON" in ended.err
