"""`skein backup` on a folder of backups: what it lists, what it finds wrong, and what it refuses in one sentence."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
import pytest
from click.testing import CliRunner, Result
from fix_cluster import test_environment
from fix_command import skein as run_skein
from fix_drill import backed_up, open_folder

from skein_cluster import embedded
from skein_cluster.backup import base_backup, retention, wal_archive
from skein_cluster.backup.repository import BackupRepository
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.backup.source import open_source
from skein_cluster.backup.wal_archive import WalArchive
from skein_cluster.cli.error_messages import command_error
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.commands.backup import _run
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.server import Server
from skein_cluster.main import skein
from skein_kit.backup_folder import find_newest_backup

pytestmark = pytest.mark.timeout(240)
PAGE = 8192


@dataclass(frozen=True, kw_only=True)
class BackupFolders:
    """A folder of backups, and a data folder without a cluster."""

    path: Path
    # Public keys that the commands trust.
    keys: tuple[str, ...] = ()

    @property
    def folder(self) -> BackupRepository:
        return BackupRepository(self.path / "backups")

    def run(self, *arguments: str) -> Result:
        environment = {
            **test_environment(),
            "SKEIN_BACKUP_DIR": str(self.folder.path),
            "SKEIN_DATA_DIR": str(self.path / "nothing"),
            "SKEIN_BACKUP_KEYS": ",".join(self.keys),
        }
        return CliRunner().invoke(skein, ["backup", *arguments], env=environment)

    def segment(self, folders: int) -> Path:
        """Return one of the log's segments."""
        return sorted(self.folder.wal.glob("0" * 7 + "1" + "?" * 16 + ".gz"))[folders]


async def change(server: Server, name: str) -> None:
    """Write something, and have the log go on in a new segment."""
    connection = await asyncpg.connect(**server.dsn())
    await connection.execute(f"CREATE TABLE {name} AS SELECT generate_series(1, 1000)")
    await connection.fetchval("SELECT pg_switch_wal()")
    await connection.close()


async def rename(server: Server, name: str, to: str) -> None:
    connection = await asyncpg.connect(**server.dsn(database="postgres"))
    await connection.execute(f"ALTER DATABASE {name} RENAME TO {to}")
    await connection.close()


@pytest.fixture(scope="module")
async def made() -> AsyncIterator[BackupFolders]:
    """Three backups with a log after each: of a cluster that was down, by the data folder, and by URL."""
    with open_folder() as path:
        folders, data_dir = BackupFolders(path=path), path / "first"
        values = {**test_environment(), "SKEIN_BACKUP_DIR": str(folders.folder.path), "SKEIN_DATA_DIR": str(data_dir)}
        wal_archive.prepare_archive(folders.folder)
        data_dir.mkdir()
        async with wal_archive.run_server(data_dir, folders.folder, durable=False) as server:
            await embedded.create_database(server, "skein")
        await backed_up(data_dir, values)
        async with wal_archive.run_server(data_dir, folders.folder, durable=False) as server:
            await backed_up(data_dir, values)
            for name in ("one", "two", "three"):
                await change(server, name)
            await rename(server, "skein", "elsewhere")
            url = server.url(user="postgres", database="elsewhere")
            await backed_up(path / "elsewhere", {**values, "SKEIN_DATABASE_URL": url})
            await rename(server, "elsewhere", "skein")
            for name in ("four", "five"):
                await change(server, name)
        keys = tuple(BackupKey.of(path / name).public for name in ("first", "elsewhere"))
        yield replace(folders, keys=keys)


@pytest.fixture
def folders(made: BackupFolders, tmp_path: Path) -> BackupFolders:
    """A copy that a test may damage."""
    shutil.copytree(made.folder.path, tmp_path / "backups")
    return BackupFolders(path=tmp_path, keys=made.keys)


@pytest.fixture
def open_place(made: BackupFolders) -> Iterator[BackupFolders]:
    """A copy that the database's user can reach as well."""
    account = Account.for_server()
    with open_folder() as path:
        shutil.copytree(made.folder.path, path / "backups")
        copy = BackupFolders(path=path, keys=made.keys)
        for file in (copy.folder.wal, *copy.folder.wal.iterdir()):
            account.chown(file)
        copy.folder.path.chmod(0o711)
        yield copy


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def flip_checksum(path: Path) -> None:
    """Change a byte that no content depends on: the last checksum of the packed file."""
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(bytes(content))


def edit(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace("0", "1", 1), "utf-8")


def flip_record(path: Path) -> None:
    """Change a byte of a record, so that the file still unpacks."""
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[PAGE + 100] ^= 1
    path.write_bytes(gzip.compress(bytes(content), 1))


def test_a_whole_backup_is_reported_as_whole(made: BackupFolders) -> None:
    backups = made.folder.backups()

    results = [made.run("verify", backup.backup_id) for backup in backups]

    assert [result.exit_code for result in results] == [ExitCode.OK] * 3, [result.output for result in results]
    assert results[0].output == f"{backups[0].backup_id} is complete and undamaged.\n"
    assert [bool(backup.data_dir) for backup in backups] == [True, True, False]
    assert [backup.has_log for backup in backups] == [True] * 3


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("base.tar.gz", cut),
        ("base.tar.gz", flip),
        ("pg_wal.tar.gz", flip),
        ("backup_manifest", edit),
        ("backup.json", edit),
        ("base.tar.gz", Path.unlink),
    ],
)
def test_a_problem_of_a_file_is_reported_with_its_name(
    folders: BackupFolders, name: str, damage: Callable[[Path], None]
) -> None:
    backup = folders.folder.backups()[0]
    damage(folders.folder.of(backup) / name)

    result = folders.run("verify", backup.backup_id, "--json")

    assert result.exit_code == ExitCode.REFUSED
    (problem,) = json.loads(result.stdout)["problems"]
    assert name in problem


def test_a_segment_that_is_missing_is_named_and_ends_the_range(folders: BackupFolders) -> None:
    whole = json.loads(folders.run("list", "--json").stdout)["backups"][0]
    gone = folders.segment(-3)
    gone.unlink()

    verified = folders.run("verify", whole["backup_id"])
    listed = json.loads(folders.run("list", "--json").stdout)["backups"][0]

    assert verified.exit_code == ExitCode.REFUSED
    assert f"wal: segment {gone.name.removesuffix('.gz')} is missing." in verified.output
    assert listed["missing_segment"] == gone.name.removesuffix(".gz")
    assert listed["until_time"] < whole["until_time"]


@pytest.mark.parametrize("damage", [cut, flip_record])
def test_an_unreadable_segment_is_reported(folders: BackupFolders, damage: Callable[[Path], None]) -> None:
    damage(folders.segment(-5))

    result = folders.run("verify", folders.folder.backups()[0].backup_id)

    assert result.exit_code == ExitCode.REFUSED
    assert "wal: " in result.output
    assert folders.run("list").exit_code == ExitCode.OK


def test_backups_are_listed_with_the_moments_that_they_lead_to(made: BackupFolders) -> None:
    first, _, second = json.loads(made.run("list", "--json").stdout)["backups"]
    table = made.run("list").stdout

    assert first["finish_time"] < second["finish_time"] < second["until_time"] == first["until_time"]
    assert first["backup_id"] in table
    assert second["backup_id"] in table
    on_progress = find_newest_backup(made.folder.path)
    assert on_progress is not None
    assert on_progress.finish_time.isoformat() == second["finish_time"]
    assert on_progress.byte_count == second["byte_count"]


def test_half_a_backup_is_no_backup(folders: BackupFolders) -> None:
    half = folders.folder.path / "backups" / ".part-20260101T000000Z"
    shutil.copytree(folders.folder.of(folders.folder.backups()[0]), half)

    listed = json.loads(folders.run("list", "--json").stdout)
    pruned = folders.run("prune", "--keep", "5")

    assert len(listed["backups"]) == 3
    assert pruned.exit_code == ExitCode.OK
    assert not half.exists()


def test_pruning_keeps_the_newest_and_the_log_that_it_needs(folders: BackupFolders) -> None:
    backup = folders.folder.backups()[-1]
    before = len(list(folders.folder.wal.iterdir()))

    result = folders.run("prune", "--keep", "1", "--json")

    assert json.loads(result.stdout)["removed"] != []
    assert [each.backup_id for each in folders.folder.backups()] == [backup.backup_id]
    assert len(list(folders.folder.wal.iterdir())) < before
    assert folders.run("verify", "--latest").exit_code == ExitCode.OK


def test_a_moment_out_of_range_is_refused_with_the_range(made: BackupFolders, tmp_path: Path) -> None:
    first = json.loads(made.run("list", "--json").stdout)["backups"][0]
    early = datetime.fromisoformat(first["start_time"])
    late = datetime.fromisoformat(first["until_time"]) + timedelta(hours=1)

    for moment in (early, late):
        result = made.run(
            "restore", first["backup_id"], "--to", moment.isoformat(), "--data-dir", str(tmp_path / "new")
        )
        assert result.exit_code == ExitCode.REFUSED, result.output
        assert "is outside the recovery window of" in result.output
        assert first["finish_time"][:19].replace("T", " ") in result.output
        assert first["until_time"][:19].replace("T", " ") in result.output
    assert not (tmp_path / "new" / "postgres").exists()


def test_a_data_folder_with_a_database_is_left_alone(made: BackupFolders) -> None:
    result = made.run("restore", "--latest", "--data-dir", str(made.path / "first"))

    failure = command_error(result.exception) if result.exception is not None else None
    assert failure is not None
    assert failure.exit_code == ExitCode.CANNOT_START
    assert failure.message.endswith("it contains a database already; restore to an empty folder")


@pytest.mark.essential
@pytest.mark.parametrize("damage", [flip, flip_checksum])
def test_a_damaged_backup_leaves_nothing_that_could_be_started(
    folders: BackupFolders, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(folders.folder.of(folders.folder.backups()[-1]) / "base.tar.gz")

    result = folders.run("restore", "--latest", "--data-dir", str(tmp_path / "new"))

    assert result.exit_code == ExitCode.REFUSED, result.output
    assert "`skein backup verify` lists all problems" in result.output
    assert not (tmp_path / "new" / "postgres").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("verify",), ExitCode.USAGE, "Name a backup, or give --latest."),
        (("verify", "yesterday"), ExitCode.REFUSED, "There is no backup 'yesterday' in"),
        (("restore", "--latest", "--to", "noon", "--data-dir", "new"), ExitCode.USAGE, '"noon" is not a time'),
        (
            ("restore", "--latest", "--timeline", "7", "--data-dir", "new"),
            ExitCode.REFUSED,
            "No backup leads to timeline 7; known timelines: 1.",
        ),
        (("create",), ExitCode.REFUSED, "There is no database in"),
    ],
)
def test_wrong_input_is_answered_in_one_sentence(
    folders: BackupFolders, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: ExitCode, message: str
) -> None:
    monkeypatch.chdir(folders.path)

    result = folders.run(*arguments)

    assert result.exit_code == code, result.output
    assert message in result.output


def test_an_empty_folder_says_how_to_make_a_backup(tmp_path: Path) -> None:
    empty = BackupFolders(path=tmp_path)

    listed, verified = empty.run("list"), empty.run("verify", "--latest")

    assert listed.exit_code == ExitCode.OK
    assert "There is no backup in" in listed.output
    assert "`skein backup create` creates one." in verified.output


def test_one_at_a_time_writes_to_a_folder(folders: BackupFolders) -> None:
    with folders.folder.write_lock():
        result = folders.run("prune", "--keep", "1")

    assert result.exit_code == ExitCode.REFUSED
    assert "Another `skein backup` is running in" in result.output


async def test_a_folder_of_another_database_is_not_taken(made: BackupFolders) -> None:
    data_dir = made.path / "second"
    data_dir.mkdir()
    values = {**test_environment(), "SKEIN_BACKUP_DIR": str(made.folder.path), "SKEIN_DATA_DIR": str(data_dir)}
    settings = {"wal_level": "replica", "max_wal_senders": "4"}
    async with embedded.running_server(data_dir / "postgres", durable=False, settings=settings) as server:
        await embedded.create_database(server, "skein")

        with pytest.raises(Exception, match="has backups of another database"):
            await backed_up(data_dir, values)


async def test_a_restore_says_where_the_log_ends_early_and_does_not_stand_in_for_the_cluster(
    made: BackupFolders, open_place: BackupFolders
) -> None:
    """The backup was made of a database of another name, and the cluster goes on while it is tried out."""
    folder, backups = open_place.folder, open_place.folder.backups()
    (folder.path / "owner.json").unlink()
    last, gone = open_place.segment(-3), open_place.segment(-2)
    aside = gone.rename(open_place.path / gone.name)
    keys = ",".join(made.keys)
    environment = {**test_environment(), "SKEIN_BACKUP_DIR": str(folder.path), "SKEIN_BACKUP_KEYS": keys}
    target = open_place.path / "second"

    done = await run_skein(
        "backup", "restore", "--latest", "--data-dir", str(target), "--json", environment=environment
    )
    aside.rename(gone)
    tried = await retention.choose_timeline(WalArchive(folder, backups[0].wal_segment_bytes), backups, None)
    async with wal_archive.run_server(made.path / "first", folder, durable=False) as server:
        await change(server, "six")
    gone_on = await retention.choose_timeline(WalArchive(folder, backups[0].wal_segment_bytes), backups, None)

    assert done.code == ExitCode.OK, done.err
    assert done.json["backup_id"] == backups[-1].backup_id
    assert done.json["last_readable_segment"] == last.name.removesuffix(".gz")
    assert (tried, gone_on) == (2, 1)
    async with embedded.running_server(target / "postgres") as server:
        connection = await asyncpg.connect(**server.dsn())
        result = await connection.fetchval(
            "SELECT array_agg(relname::text) FROM pg_class WHERE relname IN ('three', 'four')"
        )
        await connection.close()
    assert result == ["three"]


async def test_a_backup_that_is_broken_off_leaves_nothing(made: BackupFolders, tmp_path: Path) -> None:
    folder, data_dir = BackupRepository(tmp_path / "backups"), made.path / "first"
    environment = {**test_environment(), "SKEIN_DATA_DIR": str(data_dir)}
    task = asyncio.current_task()
    assert task is not None

    def broken_off(_done: int, _whole: int) -> None:
        task.cancel()

    with pytest.raises(asyncio.CancelledError), folder.write_lock():
        async with open_source(data_dir, environment) as source:
            await base_backup.create_backup(
                folder, source, environment, key=BackupKey.of(data_dir), on_progress=broken_off
            )
    task.uncancel()

    assert list((folder.path / "backups").iterdir()) == []


def test_being_told_to_end_ends_a_command_in_order() -> None:
    remaining: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            remaining.append("in order")

    with pytest.raises(CommandError) as caught:
        _run(work())

    assert remaining == ["in order"]
    assert caught.value.exit_code == ExitCode.INTERRUPTED


def test_a_database_that_does_not_answer_is_reported_in_one_sentence(folders: BackupFolders) -> None:
    url = f"postgresql://postgres@/skein?host={folders.path}"

    result = CliRunner().invoke(skein, ["backup", "create"], env={**test_environment(), "SKEIN_DATABASE_URL": url})

    assert result.exit_code == ExitCode.UNREACHABLE, result.output
    assert "The database does not answer (" in result.output
