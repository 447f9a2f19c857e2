"""What a folder of backups leads to, and what of it may go: timelines, gaps, and who uses it at the same time."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skein_cluster.backup import cold_storage, retention
from skein_cluster.backup.repository import Backup, BackupRepository
from skein_cluster.backup.source import open_source
from skein_cluster.backup.wal_archive import WalArchive
from skein_cluster.cli.exit_codes import CommandError

SEGMENT_BYTES = 1 << 24
MORNING = datetime(2026, 11, 21, 8, tzinfo=UTC)


def place(segment: int, share: float = 0.0) -> str:
    """Return a place in the log: in a segment, and how far in it."""
    return f"0/{int((segment + share) * SEGMENT_BYTES):X}"


def name(timeline: int, segment: int) -> str:
    return f"{timeline:08X}{0:08X}{segment:08X}"


@pytest.fixture
def folder(tmp_path: Path) -> BackupRepository:
    result = BackupRepository(tmp_path / "backups")
    result.make()
    result.wal.mkdir()
    return result


def add_log(folder: BackupRepository, timeline: int, *segments: int) -> None:
    for segment in segments:
        (folder.wal / f"{name(timeline, segment)}.gz").write_bytes(gzip.compress(b""))


def add_history(folder: BackupRepository, timeline: int, *branches: tuple[int, str]) -> None:
    lines = "".join(f"{parent}\t{until}\tno recovery target specified\n" for parent, until in branches)
    (folder.wal / f"{timeline:08X}.history.gz").write_bytes(gzip.compress(lines.encode()))


def add_backup(folder: BackupRepository, backup_id: str, *, hours: int, segment: int, timeline: int = 1) -> Backup:
    """Describe a backup that was made within one segment."""
    at = MORNING + timedelta(hours=hours)
    backup = Backup(
        backup_id=backup_id,
        start_time=at,
        finish_time=at + timedelta(minutes=1),
        timeline=timeline,
        start_lsn=place(segment, 0.25),
        stop_lsn=place(segment, 0.5),
        system_identifier="7",
        postgres_version="18.1",
        wal_segment_bytes=SEGMENT_BYTES,
        schema_version=1,
        skein_version="0.1.0",
        database="skein",
        superuser="postgres",
        data_dir="",
        has_log=True,
        database_bytes=1,
        files={},
        cold=(),
    )
    folder.of(backup).mkdir()
    (folder.of(backup) / "backup.json").write_text(backup.text(), "utf-8")
    return backup


def numbers(folder: BackupRepository, backup: Backup, timeline: int) -> list[tuple[int, int]]:
    wal_range = WalArchive(folder, SEGMENT_BYTES).wal_range(backup, timeline)
    return sorted((segment.timeline, segment.number) for segment in wal_range.files)


def test_a_timeline_does_not_include_writes_after_its_branch(folder: BackupRepository) -> None:
    backup = add_backup(folder, "first", hours=0, segment=2)
    add_log(folder, 1, 2, 3, 4, 5, 6, 7, 8)
    add_log(folder, 2, 4, 5)
    add_history(folder, 2, (1, place(4, 0.5)))

    timeline = numbers(folder, backup, 2)
    wal_range = WalArchive(folder, SEGMENT_BYTES).wal_range(backup, 2)

    assert timeline == [(1, 2), (1, 3), (2, 4), (2, 5)]
    assert (wal_range.missing, wal_range.end) == ([], 5)
    assert [number for _, number in numbers(folder, backup, 1)] == [2, 3, 4, 5, 6, 7, 8]


def test_a_gap_is_not_filled_with_another_timeline_s_segments(folder: BackupRepository) -> None:
    backup = add_backup(folder, "first", hours=0, segment=2)
    add_log(folder, 1, 2, 3, 4, 5, 6, 7)
    add_log(folder, 2, 4, 6, 7)
    add_history(folder, 2, (1, place(4)))

    wal_range = WalArchive(folder, SEGMENT_BYTES).wal_range(backup, 2)

    assert [segment.number for segment in wal_range.files] == [2, 3, 4]
    assert (wal_range.missing, wal_range.end) == ([name(2, 5)], 7)


def test_pruning_keeps_the_log_of_a_newer_backup_that_begins_earlier(folder: BackupRepository) -> None:
    """After a restore to an earlier moment the log goes on from there, on a timeline of its own."""
    add_backup(folder, "pruned", hours=0, segment=2)
    add_backup(folder, "before the restore", hours=1, segment=9)
    newer = add_backup(folder, "after the restore", hours=2, segment=5, timeline=2)
    add_log(folder, 1, *range(2, 12))
    add_log(folder, 2, 4, 5, 6, 7)
    add_history(folder, 2, (1, place(4, 0.5)))

    pruned = retention.prune_backups(folder, 2)

    assert list(pruned.backup_ids) == ["pruned"]
    assert [number for _, number in numbers(folder, newer, 2)] == [5, 6, 7]
    assert not (folder.wal / f"{name(1, 4)}.gz").exists()


def test_pruning_takes_what_postgres_noted_of_segments_with_them(folder: BackupRepository) -> None:
    add_backup(folder, "kept", hours=0, segment=5)
    add_log(folder, 1, 4, 5)
    notes = [
        folder.wal / f"{name(1, segment)}.{kind}.gz" for segment in (4, 5) for kind in ("00000028.backup", "partial")
    ]
    for note in notes:
        note.write_bytes(b"")

    retention.prune_backups(folder, 1)

    assert [note.exists() for note in notes] == [False, False, True, True]


async def test_the_newest_backup_along_the_timeline_is_taken(folder: BackupRepository) -> None:
    early = add_backup(folder, "early", hours=0, segment=2)
    late = add_backup(folder, "late", hours=2, segment=9)
    again = add_backup(folder, "again", hours=4, segment=5, timeline=2)
    add_log(folder, 1, *range(2, 12))
    add_log(folder, 2, 4, 5, 6)
    add_history(folder, 2, (1, place(4, 0.5)))
    log, every = WalArchive(folder, SEGMENT_BYTES), [early, late, again]

    assert retention.newest_backup(log, every, 1, None) == late
    assert retention.newest_backup(log, every, 2, None) == again
    # Of before this moment is the late one too, and it does not lead there.
    assert retention.newest_backup(log, every, 2, MORNING + timedelta(hours=3)) == early
    with pytest.raises(CommandError, match="No backup leads to timeline 3; known timelines: 1, 2"):
        await retention.choose_timeline(log, every, 3)


def test_nothing_is_removed_during_a_restore(folder: BackupRepository) -> None:
    with folder.read_lock(), folder.read_lock(), pytest.raises(CommandError, match="Another `skein backup` is running"):
        folder.write_lock().__enter__()

    with folder.write_lock(), pytest.raises(CommandError, match="Another `skein backup` is running"):
        folder.read_lock().__enter__()


def test_half_a_file_of_cold_storage_does_not_stay(folder: BackupRepository) -> None:
    half = folder.cold / "memory" / "tenant" / "letters-0123456789abcdef.jsonl.part"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"what is purged by now")

    with folder.write_lock():
        assert not half.exists()


def test_copies_of_cold_storage_are_their_owner_s_alone(folder: BackupRepository, tmp_path: Path) -> None:
    file = tmp_path / "data" / "archives" / "memory" / "tenant" / "letters-0123456789abcdef.jsonl.gz"
    environment = {"SKEIN_DATA_DIR": str(tmp_path / "data")}
    file = cold_storage.archive_folders(environment)["memory"] / "tenant" / file.name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"packed")

    names = cold_storage.copy_files(folder, environment)

    assert names == {f"memory/tenant/{file.name}"}
    made = [folder.cold, *folder.cold.rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in made} == {0}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s%40crt@db:5433/skein?sslmode=require",
        "postgresql://me@db:5433/skein?password=s%40crt&sslmode=require",
    ],
)
async def test_a_password_is_not_seen_in_the_list_of_processes(tmp_path: Path, url: str) -> None:
    async with open_source(tmp_path, {"SKEIN_DATABASE_URL": url}) as source:
        assert list(source.arguments) == ["--dbname=postgresql://me@db:5433/skein?sslmode=require"]
        assert source.environment == {"PGPASSWORD": "s@crt"}
        assert "s@crt" not in repr(source)
