from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from fix_metrics import sample

from skein_kit.backup_folder import find_newest_backup
from skein_worker.measure.measurements import set_backup_metrics

AT = datetime(2026, 11, 21, 3, 0, 5, tzinfo=UTC)


def backup(folder: Path, name: str, text: str) -> None:
    place = folder / "backups" / name
    place.mkdir(parents=True)
    (place / "backup.json").write_text(text, "utf-8")


def description(at: datetime, *sizes: int) -> str:
    files = {f"file {number}": {"bytes": size} for number, size in enumerate(sizes)}
    return json.dumps({"finish_time": at.isoformat(), "files": files})


def shown(name: str) -> float | None:
    return sample(name)


def test_the_newest_whole_backup_is_shown(tmp_path: Path) -> None:
    backup(tmp_path, "new", description(AT, 1000, 24))
    backup(tmp_path, "old", description(AT.replace(day=20), 9))
    backup(tmp_path, "broken", "{")
    backup(tmp_path, ".part-unfinished", description(AT.replace(day=22), 9))

    set_backup_metrics(find_newest_backup(tmp_path), ttl_seconds=60)

    assert shown("skein_backup_last_success_timestamp_seconds") == AT.timestamp()
    assert shown("skein_backup_bytes") == 1024


def test_without_a_backup_nothing_is_shown(tmp_path: Path) -> None:
    set_backup_metrics(find_newest_backup(tmp_path / "nowhere"), ttl_seconds=60)

    assert shown("skein_backup_last_success_timestamp_seconds") is None
    assert shown("skein_backup_bytes") is None
