"""Backups that somebody else wrote or changed, with every checksum right.

Attack: who may write to the folder of backups adds commands to a server's configuration, changes the log, signs with a
    key of his own, or names another data folder.
May be seen: the refusal of a restore, with the option that overrides it.
May be spent: no command is run, and no data folder is made.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from click.testing import CliRunner
from fix_cluster import test_environment
from fix_command import erase
from fix_drill import backed_up, open_folder

from skein_cluster import embedded
from skein_cluster.backup import wal_archive, wal_signatures
from skein_cluster.backup.repository import BASE, POSTGRES_MANIFEST, Backup, BackupRepository
from skein_cluster.backup.signatures import BackupKey, TrustedKeys
from skein_cluster.cli.error_messages import command_error
from skein_cluster.embedded.account import Account
from skein_cluster.main import skein
from skein_kit.backup_folder import MANIFEST

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]
_MARK = b'"Manifest-Checksum": '


@dataclass(frozen=True)
class Place:
    """A folder of backups, the data folder of the cluster, and what the attack would make."""

    path: Path
    key: str
    # Checksums that the server noted and that nothing signed, when it had stopped.
    notes: tuple[str, ...] = ()

    @property
    def repository(self) -> BackupRepository:
        return BackupRepository(self.path / "backups")

    @property
    def backup(self) -> Path:
        """The folder of the one backup."""
        (folder,) = (self.repository.path / "backups").glob("2*")
        return folder

    @property
    def harm(self) -> Path:
        return self.path / "harm"

    def restore(self, name: str, *options: str) -> tuple[int, str]:
        """Run the command; return its exit code, and what it says."""
        environment = {
            **test_environment(),
            "SKEIN_BACKUP_DIR": str(self.repository.path),
            "SKEIN_DATA_DIR": str(self.path / "nothing"),
        }
        arguments = ["backup", "restore", "--latest", "--data-dir", str(self.path / name), *options]
        ended = CliRunner().invoke(skein, arguments, env=environment)
        failure = command_error(ended.exception) if isinstance(ended.exception, Exception) else None
        return (ended.exit_code if failure is None else int(failure.exit_code)), f"{ended.output}\n{failure or ''}"


@pytest.fixture(scope="module")
async def original() -> AsyncIterator[Place]:
    """A backup of a cluster with a log after it, in folders that the database's user can enter."""
    with open_folder() as path:
        place = Place(path, BackupKey.of(path / "first").public)
        values = {
            **test_environment(),
            "SKEIN_BACKUP_DIR": str(place.repository.path),
            "SKEIN_DATA_DIR": str(path / "first"),
        }
        wal_archive.prepare_archive(place.repository)
        async with wal_archive.run_server(path / "first", place.repository, durable=False) as server:
            await embedded.create_database(server, "skein")
            await backed_up(path / "first", values)
            connection = await asyncpg.connect(**server.dsn())
            await connection.execute("CREATE TABLE of_the_log AS SELECT 1 AS one")
            await connection.fetchval("SELECT pg_switch_wal()")
            await connection.close()
        # Now: the folder of a server that was moved may be removed when another one starts.
        notes = (path / "first" / "postgres" / wal_signatures.CHECKSUMS).iterdir()
        place = dataclasses.replace(place, notes=tuple(note.name for note in notes))
        # The machine is lost: only the public key is elsewhere.
        shutil.move(path / "first", path / "lost")
        try:
            yield place
        finally:
            erase(path / "lost")


@pytest.fixture
def place(original: Place) -> Iterator[Place]:
    """A copy that is attacked."""
    with open_folder() as path:
        shutil.copytree(original.repository.path, path / "backups")
        copy = Place(path, original.key)
        for file in (copy.repository.wal, *copy.repository.wal.iterdir()):
            Account.for_server().chown(file)
        copy.repository.path.chmod(0o711)
        yield copy


def add_commands(place: Place) -> None:
    """Let the configuration run a command, and make every checksum right."""
    command = f"touch {place.harm}".replace("'", "''")
    settings = "".join(
        f"{name} = '{command}'\n" for name in ("recovery_end_command", "archive_cleanup_command", "restore_command")
    )
    manifest = json.loads((place.backup / POSTGRES_MANIFEST).read_bytes())
    packed = io.BytesIO()
    with (
        gzip.open(place.backup / BASE) as read,
        tarfile.open(fileobj=read, mode="r|") as before,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as after,
    ):
        for member in before:
            content = before.extractfile(member)
            data = b"" if content is None else content.read()
            if member.name in {"postgresql.auto.conf", "postgresql.conf"}:
                data += settings.encode()
                member.size = len(data)
                (listed,) = (each for each in manifest["Files"] if each.get("Path") == member.name)
                listed |= {"Size": len(data), "Checksum": hashlib.sha256(data).hexdigest()}
            after.addfile(member, io.BytesIO(data))
    (place.backup / BASE).write_bytes(gzip.compress(packed.getvalue()))
    del manifest["Manifest-Checksum"]
    head = json.dumps(manifest)[:-1].encode() + b",\n"
    mark = _MARK + b'"' + hashlib.sha256(head).hexdigest().encode() + b'"}\n'
    (place.backup / POSTGRES_MANIFEST).write_bytes(head + mark)
    describe_again(place)


def describe_again(place: Place, key: BackupKey | None = None) -> None:
    """Write a description with the checksums of the files as they are, signed with a key or as it was."""
    backup = Backup.read(place.backup / MANIFEST)
    files = {
        name: {
            "bytes": (place.backup / name).stat().st_size,
            "sha256": hashlib.sha256((place.backup / name).read_bytes()).hexdigest(),
        }
        for name in backup.files
    }
    changed = dataclasses.replace(backup, files=files)
    changed = changed if key is None else changed.signed_by(key)
    (place.backup / MANIFEST).write_text(changed.text(), "utf-8")


def test_commands_in_a_backup_are_not_run_whether_it_is_refused_or_restored(place: Place) -> None:
    untouched = place.restore("second", "--key", place.key)
    add_commands(place)

    refused = place.restore("third", "--key", place.key)
    is_made = (place.path / "third" / "postgres" / "PG_VERSION").exists()
    signed_by_another = BackupKey.of(place.path / "attacker")
    describe_again(place, signed_by_another)
    refused_again = place.restore("third", "--key", place.key)
    allowed = place.restore("third", "--allow-unsigned")
    configuration = "".join(path.read_text("utf-8") for path in (place.path / "third" / "postgres").glob("*.conf"))

    assert untouched[0] == 0, untouched[1]
    for code, said in (refused, refused_again):
        assert code == 1
        assert "No trusted key has signed" in said
        assert "--allow-unsigned" in said
    assert not is_made
    assert allowed[0] == 0, allowed[1]
    assert "command" not in configuration
    assert not place.harm.exists()


def test_a_restore_without_a_key_that_it_knows_is_refused(place: Place) -> None:
    code, said = place.restore("second")

    assert code == 1
    assert "--key" in said
    assert not (place.path / "second" / "postgres" / "PG_VERSION").exists()


def test_a_log_that_another_wrote_is_left_out_and_named(place: Place) -> None:
    archived = sorted(place.repository.wal.glob("0*.gz"))
    forged = archived[-1]
    forged.write_bytes(gzip.compress(bytes(16 << 20)))
    Account.for_server().chown(forged)
    trusted = dataclasses.replace(place.repository, trusted=TrustedKeys.of([place.key]))
    log = wal_archive.WalArchive(trusted, 16 << 20)

    code, said = place.restore("second", "--key", place.key)

    assert log.unsigned == [forged.name]
    assert code == 0, said
    assert forged.name in said
    assert "--allow-unsigned" in said


def test_every_file_that_a_server_archives_is_signed(original: Place) -> None:
    archived = {path.name.removesuffix(".gz") for path in original.repository.wal.glob("*.gz")}
    signed = {path.name.removesuffix(".sig") for path in original.repository.wal.glob("*.sig")}
    trusted = TrustedKeys.of([original.key])

    assert archived
    assert archived == signed
    assert all(wal_signatures.is_signed(path, trusted) for path in original.repository.wal.glob("*.gz"))
    # Postgres may end with a file that it has not archived; nothing waits for a signature.
    assert original.notes == ()


def test_another_data_folder_that_the_repository_names_is_not_read(place: Place) -> None:
    owner = json.loads((place.repository.path / "owner.json").read_text("utf-8"))
    owner["data_dir"] = str(place.path / "lost")
    (place.repository.path / "owner.json").write_text(json.dumps(owner), "utf-8")
    trusted = dataclasses.replace(place.repository, trusted=TrustedKeys.of([place.key]))

    assert place.repository.owner()[1] == str(place.path / "lost")
    assert trusted.owner() == ("", "")
