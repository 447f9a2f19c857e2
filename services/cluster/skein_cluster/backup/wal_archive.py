"""The archive of the write-ahead log: archiving, its content, and the ranges that it covers."""

from __future__ import annotations

import gzip
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import asyncpg

from skein_cluster import embedded
from skein_cluster.backup import lsn, postgres_programs, wal_signatures
from skein_cluster.backup.lsn import Segment
from skein_cluster.backup.repository import Backup, BackupDamaged, BackupRepository
from skein_cluster.backup.signatures import BackupKey
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import MAJOR
from skein_cluster.embedded.server import Server
from skein_kit.backup_folder import BackupSettings

# A partial segment with new records is archived after this many seconds.
_ARCHIVE_SECONDS = 60
_SUFFIX = ".gz"
# Segments searched for the last commit: about two hours without commits, at one segment a minute.
_SEGMENTS_BACK = 120
# Segments checked together; a record may continue in the next one.
_AT_ONCE = 16
# Longest history of a timeline, which has a line per restore.
_HISTORY_BYTES = 1024 * 1024


def archive_folder(environment: Mapping[str, str]) -> BackupRepository | None:
    """Return the prepared repository of an embedded server's log; None without one. Raises CommandError."""
    backup_dir = BackupSettings.read(environment).backup_dir
    if backup_dir is None:
        return None
    folder = BackupRepository(backup_dir.absolute())
    prepare_archive(folder)
    return folder


@asynccontextmanager
async def run_server(
    data_dir: Path, folder: BackupRepository | None, *, durable: bool = True, restart: bool = False
) -> AsyncIterator[Server]:
    """Run the server of a data folder. Its log is archived whenever it runs, because a gap would break restores.

    Raises CommandError when the repository belongs to another database, and the embedded server's errors.
    """
    postgres_folder = data_dir / "postgres"
    if folder is not None and (postgres_folder / "PG_VERSION").exists():
        # Check before the start, which would archive pending segments into another database's log.
        _check_owner(folder, await postgres_programs.system_identifier(postgres_folder, MAJOR))
    log = {} if folder is None else archive_settings(folder)
    data = postgres_folder
    try:
        async with embedded.running_server(postgres_folder, durable=durable, settings=log, restart=restart) as server:
            if folder is None:
                yield server
                return
            data = server.data_dir
            await set_archive_owner(folder, server, data_dir)
            async with wal_signatures.signed_archive(data, folder.wal, BackupKey.of(data_dir)):
                yield server
    finally:
        if folder is not None:
            # The server archived its last segment when it stopped.
            wal_signatures.sign_archived(data, folder.wal, BackupKey.of(data_dir))


def archive_settings(folder: BackupRepository) -> dict[str, str]:
    """Return the settings of a server that archives its log."""
    return {
        "wal_level": "replica",
        "max_wal_senders": "10",
        "archive_mode": "on",
        "archive_timeout": str(_ARCHIVE_SECONDS),
        "archive_command": _archive_command(folder.wal),
    }


def prepare_archive(folder: BackupRepository) -> None:
    """Create the log's folder for the server's user. Raises CommandError."""
    folder.make()
    account = Account.for_server()
    if shutil.which("gzip") is None:
        raise CommandError(
            "gzip is needed to archive the write-ahead log; install it, or unset SKEIN_BACKUP_DIR.",
            ExitCode.CANNOT_START,
        )
    folder.wal.mkdir(exist_ok=True, mode=0o700)
    account.chown(folder.wal)
    if not account.may_enter(folder.wal):
        message = (
            f"The database's user cannot enter {folder.wal}, the folder of its log; set SKEIN_BACKUP_DIR to a"
            " folder that all users can enter."
        )
        raise CommandError(message, ExitCode.CANNOT_START)


def _archive_command(wal: Path) -> str:
    """Return the archive_command: compress, sync, rename, and note the checksum. A repeat compares instead.

    The note is on the disk before the server takes the segment for archived. So after a power cut either the note is
    there, or the server archives the segment again.
    """
    archived, part = f"{_quoted(wal)}/%f{_SUFFIX}", f"{_quoted(wal)}/.%f.part"
    # The command runs in the server's folder.
    noted, note = f"{wal_signatures.CHECKSUMS}/%f", f"{wal_signatures.CHECKSUMS}/.%f.part"
    return (
        f'(if test -f {archived}; then gzip -dc {archived} | cmp -s - "%p"; '
        f'else gzip -1 -c "%p" > {part} && sync {part} && mv {part} {archived} && sync {_quoted(wal)}; fi) '
        f'&& mkdir -p {wal_signatures.CHECKSUMS} && {_checksum_program()} < "%p" > {note} '
        f"&& sync {note} && mv {note} {noted} && sync {wal_signatures.CHECKSUMS}"
    )


def _checksum_program() -> str:
    """Return the program that prints the SHA-256 of its input. Raises CommandError."""
    for name, arguments in (("sha256sum", ""), ("shasum", " -a 256")):
        if shutil.which(name) is not None:
            return f"{name}{arguments}"
    raise CommandError(
        "sha256sum or shasum is needed to sign the write-ahead log; install it, or unset SKEIN_BACKUP_DIR.",
        ExitCode.CANNOT_START,
    )


def restore_command(wal: Path, log_folders: Sequence[Path]) -> str:
    """Return the restore_command: from the archive `wal`, or else from previous servers' folders."""
    archived = f"{_quoted(wal)}/%f{_SUFFIX}"
    fallbacks = "".join(
        f'elif test -f {_quoted(log_folder)}/%f; then cp {_quoted(log_folder)}/%f "%p"; ' for log_folder in log_folders
    )
    return f'if test -f {archived}; then gzip -dc {archived} > "%p"; {fallbacks}else false; fi'


def _quoted(path: Path) -> str:
    # Postgres expands percent signs.
    return shlex.quote(str(path)).replace("%", "%%")


@dataclass(frozen=True, kw_only=True, slots=True)
class WalRange:
    """The log from a backup on without a gap."""

    # The timeline at its end.
    timeline: int
    # Segments and their files.
    files: Mapping[Segment, Path]
    # Names of missing segments before existing ones.
    missing: Sequence[str]
    # Number of the last existing segment, also behind a gap; -1 for none.
    end: int

    @property
    def last(self) -> Segment | None:
        """Return the last segment."""
        return max(self.files, key=lambda segment: segment.number, default=None)


class WalArchive:
    """The content of an archive."""

    def __init__(self, folder: BackupRepository, segment_bytes: int) -> None:
        """Read the archive's present content, as far as the folder's trusted keys have signed it."""
        self._size = segment_bytes
        # Names of files that no trusted key has signed.
        self.unsigned: list[str] = []
        self._files: dict[Segment, Path] = {}
        # Postgres' extra files: backup labels and partial segments.
        self._extra_files: dict[Path, int] = {}
        self._histories: dict[int, list[tuple[int, int]]] = {}
        # All files that recovery may read.
        self.signed_files: list[Path] = []
        for path in sorted(folder.wal.glob(f"*{_SUFFIX}")) if folder.wal.is_dir() else ():
            if folder.trusted is not None and not wal_signatures.is_signed(path, folder.trusted):
                self.unsigned.append(path.name)
                continue
            self.signed_files.append(path)
            name = path.name.removesuffix(_SUFFIX)
            segment, history = Segment.of(name, segment_bytes), lsn.HISTORY.fullmatch(name)
            if segment is not None:
                self._files[segment] = path
            elif history is not None:
                self._histories[int(history.group(1), 16)] = _branches(path)
            elif (about := Segment.of(name.partition(".")[0], segment_bytes)) is not None:
                self._extra_files[path] = about.number

    @property
    def is_empty(self) -> bool:
        """Tell whether the archive has no segments."""
        return not self._files

    @property
    def timelines(self) -> list[int]:
        """Return all known timelines."""
        return sorted({segment.timeline for segment in self._files} | self._histories.keys())

    def timelines_of(self, backup: Backup) -> list[int]:
        """Return the timelines that a backup leads to, newest last."""
        return sorted({backup.timeline, *(timeline for timeline in self.timelines if self.leads_to(backup, timeline))})

    def leads_to(self, backup: Backup, timeline: int) -> bool:
        """Tell whether a timeline goes through the end of a backup."""
        if timeline == backup.timeline:
            return True
        return any(
            parent == backup.timeline and lsn.parse_lsn(backup.stop_lsn) <= until
            for parent, until in self._histories.get(timeline, ())
        )

    def wal_range(self, backup: Backup, target: int) -> WalRange:
        """Return the log of a timeline from the end of a backup on."""
        spans = self._spans(target)
        number = (max(lsn.parse_lsn(backup.stop_lsn), 1) - 1) // self._size
        files: dict[Segment, Path] = {}
        while (segment := self._at(number, spans)) is not None:
            files[segment] = self._files[segment]
            number += 1
        later = [each.number for each in self._files if each.number > number and self._at(each.number, spans) == each]
        gap = range(number, min(later)) if later else ()
        missing = [Segment(target, each).name(self._size) for each in gap]
        end = max([*later, *(segment.number for segment in files)], default=-1)
        return WalRange(timeline=target, files=files, missing=missing, end=end)

    def unneeded_files(self, backups: Sequence[Backup]) -> list[Path]:
        """Return the files of segments before all that these backups need.

        After a restore the log continues from an earlier position, so a newer backup may start before an older one.
        """
        first = min(lsn.parse_lsn(backup.start_lsn) // self._size for backup in backups)
        segments = [path for segment, path in self._files.items() if segment.number < first]
        return [*segments, *(path for path, number in self._extra_files.items() if number < first)]

    def _spans(self, timeline: int) -> dict[int, range]:
        """Map a timeline and its ancestors to the segments that recovery reads of each.

        A timeline may continue after a branch. The branch has its own copy of the segment in which it began.
        """
        spans, start = {}, 0
        for parent, until in self._histories.get(timeline, ()):
            spans[parent] = range(start, until // self._size)
            start = until // self._size
        return {**spans, timeline: range(start, sys.maxsize)}

    def _at(self, number: int, spans: Mapping[int, range]) -> Segment | None:
        """Return the segment that recovery reads."""
        segments = (Segment(timeline, number) for timeline, span in spans.items() if number in span)
        return next((segment for segment in segments if segment in self._files), None)


def _branches(path: Path) -> list[tuple[int, int]]:
    """Read a timeline's ancestors and the positions where their branches begin."""
    result = []
    for line in read_compressed(path, _HISTORY_BYTES).decode("utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdecimal():
            result.append((int(words[0]), lsn.parse_lsn(words[1])))
    return result


def _write(packed: Path, path: Path, segment_bytes: int) -> Path:
    path.write_bytes(read_compressed(packed, segment_bytes))
    return path


def read_compressed(path: Path, max_bytes: int) -> bytes:
    """Decompress a file of at most `max_bytes` bytes. Raises BackupDamaged, also for a larger one."""
    try:
        with gzip.open(path) as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BackupDamaged(f"{path} cannot be unpacked ({type(error).__name__}).") from None
    if len(content) > max_bytes:
        raise BackupDamaged(f"{path} unpacks to more than {max_bytes} bytes.")
    return content


async def last_moment(wal_range: WalRange, backup: Backup) -> datetime | None:
    """Return the time of the last transaction in a range of the log; None for none.

    A damaged segment is skipped here; `wal_problems` names it.
    """
    segments = sorted(wal_range.files, key=lambda segment: segment.number, reverse=True)
    size = backup.wal_segment_bytes
    for segment in segments[:_SEGMENTS_BACK]:
        with tempfile.TemporaryDirectory(prefix="skein-wal-") as temporary_folder:
            try:
                path = _write(wal_range.files[segment], Path(temporary_folder, segment.name(size)), size)
            except BackupDamaged:
                continue
            if (last := await postgres_programs.last_transaction(path, backup.major)) is not None:
                return last
    return None


async def set_archive_owner(folder: BackupRepository, server: Server, data_dir: Path) -> None:
    """Set the archive's database and data folder. Raises CommandError when it belongs to another."""
    connection = await asyncpg.connect(**server.dsn(database="postgres"))
    try:
        identifier: str = await connection.fetchval("SELECT system_identifier::text FROM pg_control_system()")
    finally:
        await connection.close()
    _check_owner(folder, identifier)
    folder.set_owner(identifier, data_dir, BackupKey.of(data_dir))


def _check_owner(folder: BackupRepository, identifier: str) -> None:
    """Raise CommandError for another database, whose segments have the same names."""
    owner, _ = folder.owner()
    if owner not in {"", identifier}:
        message = (
            f"{folder.path} has backups and the log of another database ({owner}; this one is {identifier}); set"
            " SKEIN_BACKUP_DIR to a folder of its own."
        )
        raise CommandError(message, ExitCode.CANNOT_START)


async def wal_problems(wal_range: WalRange, backup: Backup) -> list[str]:
    """Return the problems of a range of the log: gaps, damaged files, unreadable records."""
    dump = await postgres_programs.find_program("pg_waldump", backup.major, exactly=True)
    size = backup.wal_segment_bytes
    result = [f"wal: segment {name} is missing." for name in wal_range.missing]
    segments = sorted(wal_range.files, key=lambda segment: segment.number)
    for start in range(0, len(segments), _AT_ONCE):
        # One more segment, for a record that continues.
        batch = segments[start : start + _AT_ONCE + 1]
        with tempfile.TemporaryDirectory(prefix="skein-wal-") as temporary_folder:
            problems = _unpack(batch, wal_range, Path(temporary_folder), size)
            result += [problem for problem in problems if problem not in result]
            if problems:
                continue
            checked = batch[:_AT_ONCE]
            until = (checked[-1].number + 1) * size
            command = [
                *(str(dump), "--quiet", f"--path={temporary_folder}", f"--timeline={checked[-1].timeline}"),
                *(f"--start={lsn.format_lsn(checked[0].number * size)}", f"--end={lsn.format_lsn(until)}"),
            ]
            code, _, error_output = await postgres_programs.run_program(command, environment={})
            if code:
                result.append(f"wal: {error_output.strip().splitlines()[-1].removeprefix('pg_waldump: error: ')}")
    return result


def _unpack(batch: Sequence[Segment], wal_range: WalRange, target_folder: Path, size: int) -> list[str]:
    """Decompress segments under the last one's timeline, as one sequence; return the problems."""
    result = []
    for segment in batch:
        path = wal_range.files[segment]
        try:
            content = read_compressed(path, size)
        except BackupDamaged as damaged:
            result.append(f"wal: {damaged}")
            continue
        if len(content) != size:
            result.append(f"wal: {path} has {len(content)} bytes instead of {size}.")
        name = Segment(batch[min(len(batch), _AT_ONCE) - 1].timeline, segment.number).name(size)
        (target_folder / name).write_bytes(content)
    return result
