"""Files of cold storage: whole or not there, and gone when they are to be."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from skein_kit.cold_storage import ColdFiles
from skein_kit.errors import ArchiveDamaged

SYNC = os.fsync
LINES = ['{"table": "entries"}', '{"row": "ünï – 雨"}']


async def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path / "files"), uuid4(), uuid4()

    written = await cold.write(tenant_id, archive_id, LINES)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert await cold.read(tenant_id, archive_id, written) == LINES
    assert file.stat().st_size == written.byte_count
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


async def test_an_archive_without_lines_is_read_without_lines(tmp_path: Path) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path), uuid4(), uuid4()

    written = await cold.write(tenant_id, archive_id, [])

    assert await cold.read(tenant_id, archive_id, written) == []


@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
async def test_a_changed_archive_file_is_refused(tmp_path: Path, damage: str) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path), uuid4(), uuid4()
    written = await cold.write(tenant_id, archive_id, LINES)
    (file,) = tmp_path.rglob("*.gz")
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(whole[:-1] if damage == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))

    with pytest.raises(ArchiveDamaged) as refusal:
        await cold.read(tenant_id, archive_id, written)

    assert refusal.value.metadata == {"archive_id": str(archive_id)}


async def test_a_tenant_cannot_read_the_file_of_another(tmp_path: Path) -> None:
    cold, archive_id = ColdFiles(tmp_path), uuid4()
    written = await cold.write(uuid4(), archive_id, LINES)

    with pytest.raises(ArchiveDamaged):
        await cold.read(uuid4(), archive_id, written)


async def test_an_archive_may_have_two_files_of_which_one_goes(tmp_path: Path) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path), uuid4(), uuid4()
    first = await cold.write(tenant_id, archive_id, LINES)
    second = await cold.write(tenant_id, archive_id, LINES[:1])

    for _ in range(2):
        await cold.delete(tenant_id, archive_id, first.checksum)

    assert await cold.read(tenant_id, archive_id, second) == LINES[:1]
    assert len(list(tmp_path.rglob("*.gz"))) == 1


async def test_a_tenant_s_files_go_together_with_those_that_were_cut_off(tmp_path: Path) -> None:
    cold, tenant_id, other = ColdFiles(tmp_path), uuid4(), uuid4()
    await cold.write(tenant_id, uuid4(), LINES)
    await cold.write(other, uuid4(), LINES)
    (tmp_path / str(tenant_id) / "cut.off.part").write_bytes(b"half")

    assert (await cold.delete_tenant(tenant_id), await cold.delete_tenant(tenant_id)) == (2, 0)
    assert [path.parent.name for path in tmp_path.rglob("*") if path.is_file()] == [str(other)]


async def test_a_file_that_was_written_in_part_goes_with_it(tmp_path: Path) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path), uuid4(), uuid4()
    packed, written = cold.pack(LINES)
    await cold.write_packed(tenant_id, archive_id, packed, written)
    (file,) = tmp_path.rglob("*.gz")
    file.rename(file.with_suffix(".part"))

    await cold.delete(tenant_id, archive_id, written.checksum)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return what is brought to the disk, in order, files under the names that they have then."""
    results: list[Path] = []

    def sync(descriptor: int) -> None:
        results.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        SYNC(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return results


async def test_a_new_file_is_on_the_disk_with_every_folder_that_was_made_for_it(
    tmp_path: Path, synced: list[Path]
) -> None:
    tenant_id = uuid4()

    await ColdFiles(tmp_path / "files").write(tenant_id, uuid4(), LINES)

    assert {tmp_path, tmp_path / "files", tmp_path / "files" / str(tenant_id)} <= set(synced)


async def test_a_file_that_was_removed_does_not_come_back_with_the_power(tmp_path: Path, synced: list[Path]) -> None:
    cold, tenant_id, archive_id = ColdFiles(tmp_path), uuid4(), uuid4()
    written = await cold.write(tenant_id, archive_id, LINES)
    synced.clear()

    await cold.delete(tenant_id, archive_id, written.checksum)
    await cold.delete(tenant_id, archive_id, written.checksum)

    assert synced == [tmp_path / str(tenant_id)]
