"""Files that are small and unpack to much, or whose names lead elsewhere: cold storage, backups, imports.

Attack: a file of cold storage, of a backup or of an import is replaced by one that inflates, never ends or escapes.
May be seen: a refusal that names the file or the archive.
May be spent: no more memory and disk than the file that was written would have taken.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import os
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant, refused
from fix_odd_values import JSON_TEXTS, STRUCTS, TEXTS
from grpc import aio

from skein.memory.v1 import archives_pb2, memory_pb2, snapshots_pb2
from skein_cluster.backup import extraction, wal_archive
from skein_cluster.backup.repository import BASE, POSTGRES_MANIFEST, WAL_OF_BASE, BackupDamaged
from skein_importers.errors import SourceInvalid
from skein_importers.records import UnreadableRecord, read_jsonl
from skein_importers.sources import FORMATS
from skein_importers.sources.base import Notes

MEBIBYTE = 1024 * 1024
INFLATED = attack_size(256, 8192) * MEBIBYTE
# What a refusal may take of memory: far from what any of the bombs holds.
BOUND = 96 * MEBIBYTE
SEGMENT = 16 * MEBIBYTE


@functools.cache
def bomb() -> bytes:
    """Return packed zeros, which have a thousandth of their size."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    zeros = bytes(MEBIBYTE)
    return b"".join(packer.compress(zeros) for _ in range(INFLATED // MEBIBYTE)) + packer.flush()


def endless(path: Path) -> None:
    """Let a file be so long that nothing can hold it, and take no room on the disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 40)


def pipe(path: Path) -> None:
    """Let a file be a pipe that no process writes to."""
    path.unlink()
    os.mkfifo(path)


def memory_used(run: Callable[[], Any]) -> int:
    """Return by how many bytes the process was larger, at its largest, while it ran."""
    before = start_peak()
    run()
    return peak() - before


def start_peak() -> int:
    """Let the peak be what is in use now, and return that."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return peak()


def peak() -> int:
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.system
@pytest.mark.parametrize(
    "replace",
    [lambda path: path.write_bytes(bomb()), endless, pipe, lambda path: (path.unlink(), path.mkdir())],
    ids=["bomb", "endless", "pipe", "folder"],
)
async def test_a_replaced_file_of_cold_storage_is_refused_unread(
    cluster: Cluster, tenant: Tenant, replace: Callable[[Path], None]
) -> None:
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="the heron")))
    created = await tenant.history.ArchiveMemories(
        archives_pb2.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC))
    )
    archive_id = created.archive.archive_id
    (file,) = Path(cluster.environment["SKEIN_DATA_DIR"]).rglob(f"{archive_id}-*.gz")
    whole = file.read_bytes()
    replace(file)
    before = start_peak()

    with refused(grpc.StatusCode.DATA_LOSS, "ARCHIVE_DAMAGED"):
        await tenant.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))
    used = peak() - before

    assert used < BOUND
    file.rmdir() if file.is_dir() else file.unlink()
    file.write_bytes(whole)
    restored = await tenant.history.UnarchiveMemories(archives_pb2.UnarchiveMemoriesRequest(archive_id=archive_id))
    assert restored.unarchived_count == 1


def test_a_segment_of_the_log_unpacks_to_no_more_than_a_segment(tmp_path: Path) -> None:
    segment = tmp_path / "000000010000000000000001.gz"
    segment.write_bytes(bomb())

    def read() -> None:
        with pytest.raises(BackupDamaged, match=rf"{segment.name} unpacks to more than {SEGMENT} bytes"):
            wal_archive.read_compressed(segment, SEGMENT)

    assert memory_used(read) < BOUND


def packed_archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as written:
        for member, content in members:
            member.size = len(content)
            written.addfile(member, io.BytesIO(content))
    return gzip.compress(made.getvalue())


def backup(
    folder: Path, base: bytes, sizes: dict[str, int] | None = None, *, log: bytes = b""
) -> dict[str, dict[str, Any]]:
    """Make the files of a backup, with every checksum right; return the list of them."""
    files = [
        {"Path": name, "Size": size, "Checksum": hashlib.sha256(bytes(size)).hexdigest()}
        for name, size in (sizes or {}).items()
    ]
    ranges = [{"Timeline": 1, "Start-LSN": "0/1", "End-LSN": "0/2"}]
    head = json.dumps({"Files": files, "WAL-Ranges": ranges})[:-1].encode() + b",\n"
    mark = b'"Manifest-Checksum": "' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'
    contents = {BASE: base, WAL_OF_BASE: log or packed_archive(), POSTGRES_MANIFEST: head + mark}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member


def block(name: str, kind: bytes, size: int) -> bytes:
    """Return the header of a member whose bytes are still to come."""
    return header(name, kind, size).tobuf(tarfile.USTAR_FORMAT)


def unpack(folder: Path, files: dict[str, dict[str, Any]], to: Path) -> None:
    extraction.extract(folder, files, to, lambda _path: None, lambda _count: None)


def test_a_backup_whose_checksums_are_right_is_unpacked(tmp_path: Path) -> None:
    files = backup(tmp_path, packed_archive((header("PG_VERSION"), bytes(3))), {"PG_VERSION": 3})

    unpack(tmp_path, files, tmp_path / "data")

    assert extraction.file_problems(tmp_path) == []
    assert (tmp_path / "data" / "PG_VERSION").read_bytes() == bytes(3)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_announces_a_long_text_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    files = backup(tmp_path, gzip.compress(block("x", kind, INFLATED)) + bomb())

    def read() -> None:
        (problem,) = extraction.file_problems(tmp_path)
        assert "neither a file nor a folder" in problem
        with pytest.raises(BackupDamaged, match="neither a file nor a folder"):
            unpack(tmp_path, files, tmp_path / "data")

    assert memory_used(read) < BOUND


@pytest.mark.parametrize("name", ["PG_VERSION", "stranger"])
def test_a_member_that_is_larger_than_it_was_is_refused_before_it_is_written(tmp_path: Path, name: str) -> None:
    files = backup(tmp_path, gzip.compress(block(name, tarfile.REGTYPE, INFLATED)) + bomb(), {"PG_VERSION": 3})

    with pytest.raises(BackupDamaged, match=name):
        unpack(tmp_path, files, tmp_path / "data")

    assert [path for path in (tmp_path / "data").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/../../escaped", "a/../b"])
@pytest.mark.parametrize("place", [BASE, WAL_OF_BASE])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, place: str, name: str) -> None:
    harmful = packed_archive((header(name), b"x"))
    files = backup(tmp_path, harmful, {name: 1}) if place == BASE else backup(tmp_path, packed_archive(), log=harmful)
    results = set(tmp_path.rglob("*"))

    with pytest.raises(BackupDamaged, match="is outside the folder"):
        unpack(tmp_path, files, tmp_path / "data")

    assert {path for path in tmp_path.rglob("*") if path.is_file()} <= results
    assert not Path("/escaped").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_a_link_or_a_device_in_a_backup_is_refused(tmp_path: Path, kind: bytes) -> None:
    link = header("pg_wal", kind)
    link.linkname = ".."
    files = backup(tmp_path, packed_archive((link, b"")))

    with pytest.raises(BackupDamaged, match="neither a file nor a folder"):
        unpack(tmp_path, files, tmp_path / "data")

    assert not (tmp_path / "data" / "pg_wal").exists()


@pytest.mark.parametrize("name", [WAL_OF_BASE, POSTGRES_MANIFEST])
def test_a_file_of_a_backup_that_is_on_no_other_list_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    files = backup(tmp_path, packed_archive())
    (tmp_path / name).write_bytes(bomb())

    def read() -> None:
        with pytest.raises(BackupDamaged, match=f"{name} was changed"):
            unpack(tmp_path, files, tmp_path / "data")

    assert memory_used(read) < BOUND
    assert not (tmp_path / "data").exists()


@pytest.mark.system
def test_a_line_of_an_import_that_never_ends_is_read_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    with file.open("wb") as written:
        written.truncate(INFLATED)
        written.seek(0, os.SEEK_END)
        written.write(b'\n{"content": "kettle"}\n')

    results: list[Any] = []
    used = memory_used(lambda: results.extend(read_jsonl(file)))

    assert used < BOUND
    assert [isinstance(one, UnreadableRecord) for one in results] == [True, False]
    assert results[1].where == "line 2"


@pytest.mark.system
def test_an_archive_of_an_import_that_inflates_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    zeros = bytes(MEBIBYTE)
    with zipfile.ZipFile(tmp_path / "bank.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("documents/000000.json", "w", force_zip64=True) as member:
            for _ in range(INFLATED // MEBIBYTE + 1):
                member.write(zeros)
        archive.writestr("manifest.json", '{"schema_version": 1, "source_bank_id": "b"}')

    def read() -> None:
        with FORMATS["hindsight-zip"].open(str(tmp_path / "bank.zip")) as source:
            list(source.records(source.tenants()[0], Notes()))

    def refused_read() -> None:
        with pytest.raises(SourceInvalid, match=r"more than 100 times its size"):
            read()

    assert memory_used(refused_read) < BOUND


def odd_imports() -> list[str]:
    """Return documents and lines with values of any kind as header, as a list, as an item and as a field of one."""
    values = [*JSON_TEXTS, *STRUCTS, *(json.dumps(text) for text in TEXTS), "9" * 4000, "1e400", '"\\ud800"', "-0.0"]
    forms = (
        "%s",
        '{"format": %s}',
        '{"format": "memoryvault_export_v1", "memories": %s}',
        '{"format": "memoryvault_export_v1", "memories": [%s]}',
        '{"data": {"memories": [{"id": "m", "content": "tea", "created_at": %s, "tags": %s}]}}',
        '{"memory": %s}',
        '{"memory": {"memory_id": "m", "content": %s}}',
        '{"memory": {"content": "tea", "data_json": %s, "create_time": %s}}',
        '{"link": {"from_memory_id": %s, "weight": %s}}',
    )
    return [form.replace("%s", value) for form in forms for value in values]


@pytest.mark.system
@pytest.mark.parametrize(
    "form", [snapshots_pb2.IMPORT_FORMAT_SKEIN_EXPORT_V1, snapshots_pb2.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1]
)
async def test_an_import_of_any_shape_is_read_or_refused(tenant: Tenant, form: snapshots_pb2.ImportFormat) -> None:
    every = odd_imports()
    chosen = random.Random(0).sample(every, min(attack_size(120, len(every)), len(every)))
    faults = []
    for lines in chosen:
        call = tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=lines, format=form, dry_run=True))
        try:
            answer = await call
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                faults.append((error.code().name, lines[:200]))
        else:
            faults += [(one.reason, lines[:200]) for one in answer.errors if one.reason in {"", "INTERNAL"}]

    assert faults == []
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


@pytest.mark.parametrize(
    "name",
    [
        "postgresql.auto.conf",
        "postgresql.conf",
        "pg_hba.conf",
        "conf.d/more.conf",
        "recovery.signal",
        "tablespace_map",
        "skein_wal_checksums/x",
    ],
)
def test_configuration_in_a_backup_is_compared_and_not_written(tmp_path: Path, name: str) -> None:
    files = backup(
        tmp_path, packed_archive((header("PG_VERSION"), bytes(3)), (header(name), bytes(9))), {"PG_VERSION": 3, name: 9}
    )

    unpack(tmp_path, files, tmp_path / "data")

    assert extraction.file_problems(tmp_path) == []
    assert [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()] == ["PG_VERSION"]
