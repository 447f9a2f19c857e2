"""`skein backup`: create, verify, restore and prune backups of the database."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.text import Text

from skein_client.connection import data_dir as environment_data_dir
from skein_cluster.api import credentials
from skein_cluster.backup import base_backup, retention, verification
from skein_cluster.backup import restore as restoring
from skein_cluster.backup.repository import Backup, BackupDamaged, BackupRepository, BackupUnsigned
from skein_cluster.backup.restore import RestoreResult
from skein_cluster.backup.retention import PruneResult
from skein_cluster.backup.signatures import KEY_FILE, BackupKey, TrustedKeys
from skein_cluster.backup.source import open_source
from skein_cluster.backup.wal_archive import WalArchive
from skein_cluster.cli import options, output
from skein_cluster.cli.exit_codes import CommandError, ExitCode
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_cluster.processes import log_file
from skein_kit.backup_folder import BackupSettings
from skein_kit.settings import default_data_dir

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
Result = TypeVar("Result")
_KEYS = ("system.key", "master.key", "credentials.json")
_KEEP_KEY = "Keep it away from this machine: it verifies the backups when the machine is lost."
_LOG_FILE = "restore.log"


def _folder(command: Decorated) -> Decorated:
    """Add --backup-dir; the command gets it as `backup_dir`."""
    return click.option(
        "--backup-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the backups.",
        show_default='SKEIN_BACKUP_DIR, else "backups" in the data folder',
    )(command)


def _key_option(command: Decorated) -> Decorated:
    """Add --key; the command gets the values as `keys`."""
    return click.option(
        "--key", "keys", multiple=True, help="Public key that verifies backups, or a file with it (repeatable)."
    )(command)


@dataclass(frozen=True, kw_only=True, slots=True)
class _BackupContext:
    """The repository and data folder of a command."""

    data_dir: Path
    folder: BackupRepository
    environment: Mapping[str, str]

    @classmethod
    def of(cls, data_dir: Path, backup_dir: Path | None) -> _BackupContext:
        environment = {**os.environ, "SKEIN_DATA_DIR": str(data_dir)}
        refuse_unknown_settings(environment)
        repository_path = backup_dir or BackupSettings.read(environment).backup_dir or data_dir / "backups"
        return cls(data_dir=data_dir, folder=BackupRepository(repository_path.absolute()), environment=environment)

    def trusting(self, keys: tuple[str, ...], *data_dirs: Path) -> _BackupContext:
        """Return the context with the backups alone that a trusted key has signed. Raises CommandError."""
        configured = BackupSettings.read(self.environment).backup_keys
        texts = [*keys, *(text for text in configured.split(",") if text.strip())]
        trusted = TrustedKeys.of(texts, dict.fromkeys((self.data_dir, *data_dirs)))
        return replace(self, folder=replace(self.folder, trusted=trusted))

    def select(self, backup_id: str | None, *, latest: bool) -> list[Backup]:
        """Return the named backup, or all, oldest first. Raises CommandError."""
        if (backup_id is None) is not latest:
            raise click.UsageError("Name a backup, or give --latest.")
        if backup_id is not None:
            return [self.folder.get_backup(backup_id)]
        result = self.folder.backups()
        if not result and replace(self.folder, trusted=None).backups():
            raise BackupUnsigned(f"No trusted key has signed a backup in {self.folder.path}.")
        if not result:
            raise CommandError(
                f"There is no backup in {self.folder.path}; `skein backup create` creates one.", ExitCode.REFUSED
            )
        return result


@click.group()
def backup_command() -> None:
    """Create, verify, restore and prune backups of the database.

    The database is that of SKEIN_DATABASE_URL if set, else that of the data folder. With SKEIN_BACKUP_DIR, `skein up`
    archives its write-ahead log there within a minute, so that any time since the oldest backup can be restored.
    """


@backup_command.command("create")
@click.option("--keep", type=click.IntRange(1), help="Then remove all but this many newest backups.")
@_folder
@options.data_dir_option
@options.json_option
def create(data_dir: Path, backup_dir: Path | None, keep: int | None, *, as_json: bool) -> None:
    """Create a backup of a running or stopped cluster."""
    context = _BackupContext.of(data_dir, backup_dir)
    key = BackupKey.of(data_dir)
    with _convert_errors(), context.folder.write_lock():
        backup = _run(_create(context, key))
        pruned = retention.prune_backups(context.folder, keep) if keep else None
    if as_json:
        removed = list(pruned.backup_ids) if pruned else []
        output.print_json({"backup": _backup_as_json(backup), "key": key.public, "removed": removed})
        return
    if key.is_new:
        output.stderr_console().print(Text(f"Backups are signed from now on. Public key: {key.public}\n{_KEEP_KEY}"))
    output.stdout_console().print(
        Text(f"{backup.backup_id}: {_size(backup.byte_count)} in {context.folder.of(backup)}.")
    )
    if pruned is not None:
        _show(pruned)


@backup_command.command("list")
@_folder
@options.data_dir_option
@options.json_option
def list_(data_dir: Path, backup_dir: Path | None, *, as_json: bool) -> None:
    """List backups, oldest first, each with the times that it can be restored to."""
    context = _BackupContext.of(data_dir, backup_dir)
    with _convert_errors():
        windows = _run(retention.recovery_windows(context.folder))
    unreadable = context.folder.unreadable()
    if as_json:
        rows = [
            {
                **_backup_as_json(window.backup),
                "leads_to_timeline": window.timeline,
                "until_time": window.until.isoformat(),
                "missing_segment": window.gap,
            }
            for window in windows
        ]
        output.print_json({"backups": rows, "unreadable": unreadable})
        return
    lines = [
        (
            window.backup.backup_id,
            restoring.format_moment(window.backup.finish_time),
            restoring.format_moment(window.until) if window.until > window.backup.finish_time else "",
            window.timeline,
            _size(window.backup.byte_count),
            window.backup.schema_version,
            window.backup.skein_version,
            f"{window.gap} is missing" if window.gap else "",
        )
        for window in windows
    ]
    table = output.table(
        "backup", "from", "until", "timeline", "size", "schema", "skein", "", numbers=("timeline", "size", "schema")
    )
    output.print_table(table, lines, empty=f"There is no backup in {context.folder.path}.")
    for name in unreadable:
        output.stderr_console().print(
            Text(f"{name} has no readable description; `skein backup verify {name}` shows the reason.")
        )


@backup_command.command("key")
@options.data_dir_option
def key(data_dir: Path) -> None:
    """Print the public key of a cluster's backups, which is made if there is none.

    Keep it away from the machine of the cluster. `restore --key` and SKEIN_BACKUP_KEYS take it.
    """
    output.echo(BackupKey.of(data_dir).public)


@backup_command.command("verify")
@click.argument("backup_id", required=False)
@click.option("--latest", is_flag=True, help="The newest backup.")
@_key_option
@_folder
@options.data_dir_option
@options.json_option
def verify(
    data_dir: Path,
    backup_dir: Path | None,
    backup_id: str | None,
    keys: tuple[str, ...],
    *,
    latest: bool,
    as_json: bool,
) -> None:
    """Verify a backup and the log after it, and list the problems; with problems, the exit code is 1.

    What no trusted key has signed is a problem: the key of the data folder, --key and SKEIN_BACKUP_KEYS are trusted.
    """
    context = _BackupContext.of(data_dir, backup_dir)
    try:
        backup = context.select(backup_id, latest=latest)[-1]
        context = context.trusting(keys)
        name, problems = backup.backup_id, _run(verification.backup_problems(context.folder, backup))
    except BackupDamaged as damaged:
        name, problems = backup_id or "", [str(damaged)]
    if as_json:
        output.print_json({"backup_id": name, "problems": problems})
    else:
        for problem in problems:
            output.stderr_console().print(Text(problem))
        if not problems:
            output.stdout_console().print(Text(f"{name} is complete and undamaged."))
    if problems:
        count_text = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise CommandError(f"{name} has {count_text}.", ExitCode.REFUSED)


@backup_command.command("restore")
@click.argument("backup_id", required=False)
@click.option("--latest", is_flag=True, help="The newest backup; with --to, the newest one before that time.")
@click.option("--to", type=options.Time(), help='Target time, as "2026-11-21 22:15:30Z"; UTC without an offset.')
@click.option(
    "--timeline",
    type=click.IntRange(1),
    help="Timeline of `skein backup list`; default: the one with the newest record.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Data folder to create; it must not contain a database.",
)
@_key_option
@click.option(
    "--allow-unsigned",
    is_flag=True,
    help="Restore what no trusted key has signed. It may run any program as the user of the database.",
)
@_folder
@options.json_option
def restore(  # noqa: PLR0913 - the options of the command.
    data_dir: Path,
    backup_dir: Path | None,
    backup_id: str | None,
    to: datetime | None,
    timeline: int | None,
    keys: tuple[str, ...],
    *,
    latest: bool,
    allow_unsigned: bool,
    as_json: bool,
) -> None:
    """Restore a backup to a new data folder, as of a time or of the end of the log.

    Only what a trusted key has signed is read: --key, SKEIN_BACKUP_KEYS, and the keys of the new data folder and of
    SKEIN_DATA_DIR. Configuration of the old server is never restored.

    Later purges of memories, sessions, subjects, tenants and accounts are repeated before the cluster can start, and
    so are later revocations.
    """
    # The new data folder has no backups.
    default_folder = None if backup_dir or BackupSettings.read().backup_dir else default_data_dir() / "backups"
    context = _BackupContext.of(data_dir, backup_dir or default_folder)
    if not allow_unsigned:
        context = context.trusting(keys, environment_data_dir(os.environ))
    with _convert_errors():
        backups = context.select(backup_id, latest=latest)
        credentials.make_private(data_dir)
        has_key = (data_dir / KEY_FILE).exists()
        with log_file.log_to_file(data_dir / _LOG_FILE, "warning"):
            result = _run(_restore(context, backups, to, timeline))
    if output.print_if_json(_restore_as_json(result), as_json=as_json):
        return
    _show_restored(result, data_dir)
    if not has_key:
        key = BackupKey.of(data_dir)
        output.stderr_console().print(
            Text(f"Its backups and log are signed with a new key. Public key: {key.public}\n{_KEEP_KEY}")
        )


@backup_command.command("prune")
@click.option("--keep", type=click.IntRange(1), required=True, help="Number of newest backups to keep.")
@_folder
@options.data_dir_option
@options.json_option
def prune(data_dir: Path, backup_dir: Path | None, keep: int, *, as_json: bool) -> None:
    """Remove all but the newest backups, with log segments and cold files that only they needed."""
    context = _BackupContext.of(data_dir, backup_dir)
    with _convert_errors(), context.folder.write_lock():
        pruned = retention.prune_backups(context.folder, keep)
    if output.print_if_json(
        {"removed": list(pruned.backup_ids), "segments": pruned.segments, "cold_files": pruned.cold_files},
        as_json=as_json,
    ):
        return
    _show(pruned)


async def _create(context: _BackupContext, key: BackupKey) -> Backup:
    console = output.stderr_console()
    with console.status("Copying …") if console.is_terminal else contextlib.nullcontext() as status:

        def on_progress(copied_bytes: int, total_bytes: int) -> None:
            if status is not None:
                status.update(f"Copying … {_size(copied_bytes)} of {_size(total_bytes)}")

        async with open_source(context.data_dir, context.environment) as source:
            return await base_backup.create_backup(
                context.folder, source, context.environment, key=key, on_progress=on_progress
            )


async def _restore(
    context: _BackupContext, backups: list[Backup], moment: datetime | None, timeline: int | None
) -> RestoreResult:
    def on_progress(message: str) -> None:
        output.stderr_console().print(Text(message))

    log = WalArchive(context.folder, backups[0].wal_segment_bytes)
    timeline = await retention.choose_timeline(log, backups, timeline)
    backup = retention.newest_backup(log, backups, timeline, moment)
    return await restoring.restore(
        context.folder,
        backup,
        context.data_dir,
        context.environment,
        to=moment,
        timeline=timeline,
        on_progress=on_progress,
    )


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine. SIGTERM cancels it, so that it removes its files."""

    async def until_signal() -> Result:
        task = asyncio.ensure_future(coroutine)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(until_signal())
    except asyncio.CancelledError:
        raise CommandError("Terminated before it was complete; its files were removed.", ExitCode.INTERRUPTED) from None


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except BackupUnsigned as unsigned:
        raise CommandError(
            f"{unsigned} Give the cluster's public key by --key; --allow-unsigned restores it all the same.",
            ExitCode.REFUSED,
        ) from None
    except BackupDamaged as damaged:
        raise CommandError(f"{damaged} `skein backup verify` lists all problems.", ExitCode.REFUSED) from None
    except OSError as error:
        # The volume is full or read-only.
        raise CommandError(f"The command failed: {error}.", ExitCode.REFUSED) from None


def _backup_as_json(backup: Backup) -> dict[str, Any]:
    return {
        "backup_id": backup.backup_id,
        "start_time": backup.start_time.isoformat(),
        "finish_time": backup.finish_time.isoformat(),
        "byte_count": backup.byte_count,
        "database_bytes": backup.database_bytes,
        "timeline": backup.timeline,
        "start_lsn": backup.start_lsn,
        "stop_lsn": backup.stop_lsn,
        "postgres_version": backup.postgres_version,
        "schema_version": backup.schema_version,
        "skein_version": backup.skein_version,
        "has_log": backup.has_log,
    }


def _restore_as_json(result: RestoreResult) -> dict[str, Any]:
    return {
        "backup_id": result.backup_id,
        "last_time": None if result.last_time is None else result.last_time.isoformat(),
        "timeline": result.timeline,
        "purged": dict(result.purged),
        "purges_known_until_time": None if result.purges_known_until is None else result.purges_known_until.isoformat(),
        "missing_files": result.missing,
        "last_readable_segment": result.last_readable_segment,
        "seconds": {name: round(seconds, 3) for name, seconds in result.seconds.items()},
    }


def _show(pruned: PruneResult) -> None:
    names = ", ".join(pruned.backup_ids) or "no backup"
    output.stdout_console().print(
        Text(f"Removed {names}, {pruned.segments} log segments, {pruned.cold_files} cold files.")
    )


def _show_restored(result: RestoreResult, data_dir: Path) -> None:
    out, notes = output.stdout_console(), output.stderr_console()
    moment = "its own end" if result.last_time is None else restoring.format_moment(result.last_time)
    seconds = sum(result.seconds.values())
    out.print(Text(f"Restored {result.backup_id} to {data_dir}, as of {moment}, in {seconds:.1f} s."))
    counts_text = ", ".join(f"{count} {kind}" for kind, count in result.purged.items())
    until = (
        "no log of purges was found"
        if result.purges_known_until is None
        else restoring.format_moment(result.purges_known_until)
    )
    out.print(Text(f"Purged again: {counts_text or 'nothing'} (known up to {until})."))
    if result.last_readable_segment:
        notes.print(
            Text(
                f"The log could not be read beyond {result.last_readable_segment}: later changes are missing."
                " `skein backup verify` shows the reason."
            )
        )
    if result.missing:
        notes.print(Text(f"{len(result.missing)} files of cold storage are missing, such as {result.missing[0]}."))
    missing_keys = [name for name in _KEYS if not (data_dir / name).exists()]
    if missing_keys:
        notes.print(Text(f"Before `skein up`, copy {', '.join(missing_keys)} from the old data folder to {data_dir}."))


def _size(count: int) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - decimal units.
            return f"{count:.1f} {unit}" if unit != "B" else f"{count} B"
        count = count / 1000  # type: ignore[assignment]  # a share of the unit.
    return f"{count:.1f} TB"
