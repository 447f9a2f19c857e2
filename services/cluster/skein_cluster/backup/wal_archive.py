"""The write-ahead log beside the backups: how it gets there, what of it is there, and how far back and on it leads."""

from __future__ import annotations

import gzip
import shlex
import shutil
import sys
import tempfile
import zlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster import embedded
from skein_cluster.backup import lsn, postgres_programs
from skein_cluster.backup.lsn import Segment
from skein_cluster.backup.repository import BackupDamaged, BackupRepository
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import MAJOR
from skein_kit.backup_folder import BackupSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from skein_cluster.backup.repository import Backup
    from skein_cluster.embedded.server import Server

# What is not full goes to the archive after so many seconds, if there is anything new in it.
_ARCHIVE_SECONDS = 60
_SUFFIX = ".gz"
# How far back the last commit is looked for: as long as the archive turns over once a minute, two hours of silence.
_SEGMENTS_BACK = 120
# Segments that are checked at once; a record may go on in the next one.
_AT_ONCE = 16
# The history of a timeline has a line for each restore.
_HISTORY_BYTES = 1024 * 1024


def archive_folder(environment: Mapping[str, str]) -> BackupRepository | None:
    """Return the folder that an embedded server's log goes to, ready for it; None when none is kept. Raises Failure."""
    chosen = BackupSettings.read(environment).backup_dir
    if chosen is None:
        return None
    folder = BackupRepository(chosen.absolute())
    prepare_archive(folder)
    return folder


@asynccontextmanager
async def run_server(
    data_dir: Path, folder: BackupRepository | None, *, durable: bool = True, keep: bool = False
) -> AsyncIterator[Server]:
    """Run the server of a data folder, whose log goes to the folder of backups whenever it runs: else it has a gap.

    Raises Failure when the folder is another database's, and the embedded server's errors.
    """
    place = data_dir / "postgres"
    if folder is not None and (place / "PG_VERSION").exists():
        # Before it runs: what it has not sent yet would go to the other's log.
        _must_be_of(folder, await postgres_programs.system_identifier(place, MAJOR))
    log = {} if folder is None else archive_settings(folder)
    async with embedded.running_server(place, durable=durable, settings=log, keep=keep) as running:
        if folder is not None:
            await set_archive_owner(folder, running, data_dir)
        yield running


def archive_settings(folder: BackupRepository) -> dict[str, str]:
    """Return the settings of a server whose log goes to a folder of backups."""
    return {
        "wal_level": "replica",
        "max_wal_senders": "10",
        "archive_mode": "on",
        "archive_timeout": str(_ARCHIVE_SECONDS),
        "archive_command": _archive_command(folder.wal),
    }


def prepare_archive(folder: BackupRepository) -> None:
    """Make the folder of the log, which belongs to the server's user. Raises Failure."""
    folder.make()
    account = Account.for_server()
    if shutil.which("gzip") is None:
        message = "gzip is needed to keep the write-ahead log; install it, or unset SKEIN_BACKUP_DIR."
        raise CommandError(message, ExitCode.CANNOT_START)
    folder.wal.mkdir(exist_ok=True, mode=0o700)
    account.own(folder.wal)
    if not account.may_enter(folder.wal):
        message = (
            f"The database's user cannot enter {folder.wal}, where its log is to go; set SKEIN_BACKUP_DIR to a folder"
            " that everybody may pass through."
        )
        raise CommandError(message, ExitCode.CANNOT_START)


def _archive_command(wal: Path) -> str:
    """Return what brings one file there: packed, on the disk, and under its name last. Done again, it compares."""
    there, part = f"{_quoted(wal)}/%f{_SUFFIX}", f"{_quoted(wal)}/.%f.part"
    return (
        f'if test -f {there}; then gzip -dc {there} | cmp -s - "%p"; '
        f'else gzip -1 -c "%p" > {part} && sync {part} && mv {part} {there} && sync {_quoted(wal)}; fi'
    )


def restore_command(folder: BackupRepository, beside: Sequence[Path]) -> str:
    """Return what fetches one file, from the archive or, where it never got there, from old servers' own folders."""
    there = f"{_quoted(folder.wal)}/%f{_SUFFIX}"
    others = "".join(f'elif test -f {_quoted(each)}/%f; then cp {_quoted(each)}/%f "%p"; ' for each in beside)
    return f'if test -f {there}; then gzip -dc {there} > "%p"; {others}else false; fi'


def _quoted(path: Path) -> str:
    # Postgres reads a percent sign as the beginning of a name.
    return shlex.quote(str(path)).replace("%", "%%")


@dataclass(frozen=True, kw_only=True, slots=True)
class WalRange:
    """The log from a backup on, without a gap."""

    # On which timeline it ends.
    timeline: int
    # Its segments, each with its file.
    files: Mapping[Segment, Path]
    # Names of segments that are missing although later ones are there.
    missing: Sequence[str]
    # The number of the last segment that is there, behind a gap as well; -1 for none.
    end: int

    @property
    def last(self) -> Segment | None:
        """Return the last segment."""
        return max(self.files, key=lambda segment: segment.number, default=None)


class WalArchive:
    """What a folder of the log holds."""

    def __init__(self, folder: BackupRepository, segment_bytes: int) -> None:
        """Look at what is there now."""
        self._size = segment_bytes
        self._files: dict[Segment, Path] = {}
        # What Postgres adds about a segment: where a copy began, or what a timeline had of its last one.
        self._notes: dict[Path, int] = {}
        self._histories: dict[int, list[tuple[int, int]]] = {}
        for path in folder.wal.glob(f"*{_SUFFIX}") if folder.wal.is_dir() else ():
            name = path.name.removesuffix(_SUFFIX)
            segment, history = Segment.of(name, segment_bytes), lsn.HISTORY.fullmatch(name)
            if segment is not None:
                self._files[segment] = path
            elif history is not None:
                self._histories[int(history.group(1), 16)] = _branches(path)
            elif (about := Segment.of(name.partition(".")[0], segment_bytes)) is not None:
                self._notes[path] = about.number

    @property
    def is_empty(self) -> bool:
        """Say whether there is nothing of the log."""
        return not self._files

    @property
    def timelines(self) -> list[int]:
        """Return every timeline that anything is known of."""
        return sorted({segment.timeline for segment in self._files} | self._histories.keys())

    def timelines_of(self, backup: Backup) -> list[int]:
        """Return the timelines that a backup leads to, the newest last: each restore begins one."""
        return sorted({backup.timeline, *(each for each in self.timelines if self.leads_to(backup, each))})

    def leads_to(self, backup: Backup, timeline: int) -> bool:
        """Say whether a timeline goes through the end of a backup."""
        if timeline == backup.timeline:
            return True
        return any(
            parent == backup.timeline and lsn.parse_lsn(backup.stop_lsn) <= until
            for parent, until in self._histories.get(timeline, ())
        )

    def wal_range(self, backup: Backup, target: int) -> WalRange:
        """Return the log from the end of a backup on, along a timeline."""
        spans = self._spans(target)
        number = (max(lsn.parse_lsn(backup.stop_lsn), 1) - 1) // self._size
        held: dict[Segment, Path] = {}
        while (segment := self._at(number, spans)) is not None:
            held[segment] = self._files[segment]
            number += 1
        later = [each.number for each in self._files if each.number > number and self._at(each.number, spans) == each]
        gap = range(number, min(later)) if later else ()
        missing = [Segment(target, each).name(self._size) for each in gap]
        end = max([*later, *(segment.number for segment in held)], default=-1)
        return WalRange(timeline=target, files=held, missing=missing, end=end)

    def before(self, kept: Sequence[Backup]) -> list[Path]:
        """Return the files of segments that none of these backups needs, nor what comes after it.

        After a restore the log goes on from an earlier place, so a newer backup may begin before an older one.
        """
        first = min(lsn.parse_lsn(backup.start_lsn) // self._size for backup in kept)
        segments = [path for segment, path in self._files.items() if segment.number < first]
        return [*segments, *(path for path, number in self._notes.items() if number < first)]

    def _spans(self, timeline: int) -> dict[int, range]:
        """Map the timelines on the way to one, and itself, to the segments that are read of each.

        A timeline may have gone on after another left it. What that other one had begun with by then, it has itself.
        """
        spans, begin = {}, 0
        for parent, until in self._histories.get(timeline, ()):
            spans[parent] = range(begin, until // self._size)
            begin = until // self._size
        return {**spans, timeline: range(begin, sys.maxsize)}

    def _at(self, number: int, spans: Mapping[int, range]) -> Segment | None:
        """Return the segment that recovery takes."""
        found = (Segment(timeline, number) for timeline, span in spans.items() if number in span)
        return next((segment for segment in found if segment in self._files), None)


def _branches(path: Path) -> list[tuple[int, int]]:
    """Read which timelines led to one, and up to which place."""
    found = []
    for line in read_compressed(path, _HISTORY_BYTES).decode("utf-8", errors="replace").splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdecimal():
            found.append((int(words[0]), lsn.parse_lsn(words[1])))
    return found


def _write(packed: Path, path: Path, segment_bytes: int) -> Path:
    path.write_bytes(read_compressed(packed, segment_bytes))
    return path


def read_compressed(path: Path, most: int) -> bytes:
    """Return a packed file, of which no more than `most` bytes are unpacked. Raises BackupDamaged, also for more."""
    try:
        with gzip.open(path) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        message = f"{path} cannot be unpacked ({type(error).__name__})."
        raise BackupDamaged(message) from None
    if len(content) > most:
        message = f"{path} unpacks to more than {most} bytes."
        raise BackupDamaged(message)
    return content


async def last_moment(wal_range: WalRange, backup: Backup) -> datetime | None:
    """Return when the last transaction in a stretch of the log ended; None when there is none.

    A segment that cannot be unpacked is passed over here: `wal_problems` names it.
    """
    segments = sorted(wal_range.files, key=lambda segment: segment.number, reverse=True)
    size = backup.wal_segment_bytes
    for segment in segments[:_SEGMENTS_BACK]:
        with tempfile.TemporaryDirectory(prefix="skein-wal-") as place:
            try:
                path = _write(wal_range.files[segment], Path(place, segment.name(size)), size)
            except BackupDamaged:
                continue
            if (last := await postgres_programs.last_transaction(path, backup.major)) is not None:
                return last
    return None


async def set_archive_owner(folder: BackupRepository, running: Server, data_dir: Path) -> None:
    """Make the folder this database's, and note where the data lies. Raises Failure when it is another's."""
    connection = await asyncpg.connect(**running.dsn(database="postgres"))
    try:
        mine: str = await connection.fetchval("SELECT system_identifier::text FROM pg_control_system()")
    finally:
        await connection.close()
    _must_be_of(folder, mine)
    folder.set_owner(mine, data_dir)


def _must_be_of(folder: BackupRepository, mine: str) -> None:
    """Two databases whose logs have the same names would take each other's for their own."""
    other, _ = folder.owner()
    if other not in {"", mine}:
        message = (
            f"{folder.path} holds backups and the log of another database ({other}, and this is {mine}); set"
            " SKEIN_BACKUP_DIR to a folder of its own."
        )
        raise CommandError(message, ExitCode.CANNOT_START)


async def wal_problems(wal_range: WalRange, backup: Backup) -> list[str]:
    """Return what is wrong with a stretch of the log: gaps, files that do not unpack, records that do not read."""
    dump = await postgres_programs.find_program("pg_waldump", backup.major, exactly=True)
    size = backup.wal_segment_bytes
    found = [f"wal: segment {name} is missing." for name in wal_range.missing]
    segments = sorted(wal_range.files, key=lambda segment: segment.number)
    for start in range(0, len(segments), _AT_ONCE):
        # One more than is checked, for a record that goes on.
        batch = segments[start : start + _AT_ONCE + 1]
        with tempfile.TemporaryDirectory(prefix="skein-wal-") as place:
            broken = _unpack(batch, wal_range, Path(place), size)
            found += [each for each in broken if each not in found]
            if broken:
                continue
            checked = batch[:_AT_ONCE]
            until = (checked[-1].number + 1) * size
            command = [
                *(str(dump), "--quiet", f"--path={place}", f"--timeline={checked[-1].timeline}"),
                *(f"--start={lsn.format_lsn(checked[0].number * size)}", f"--end={lsn.format_lsn(until)}"),
            ]
            code, _, said = await postgres_programs.run_program(command, environment={})
            if code:
                found.append(f"wal: {said.strip().splitlines()[-1].removeprefix('pg_waldump: error: ')}")
    return found


def _unpack(batch: Sequence[Segment], wal_range: WalRange, place: Path, size: int) -> list[str]:
    """Unpack segments, each under the name of the last one's timeline, as one row; return what is wrong."""
    found = []
    for segment in batch:
        path = wal_range.files[segment]
        try:
            content = read_compressed(path, size)
        except BackupDamaged as damaged:
            found.append(f"wal: {damaged}")
            continue
        if len(content) != size:
            found.append(f"wal: {path} holds {len(content)} bytes, and a segment has {size}.")
        name = Segment(batch[min(len(batch), _AT_ONCE) - 1].timeline, segment.number).name(size)
        (place / name).write_bytes(content)
    return found
