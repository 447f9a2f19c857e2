from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import all_gone, descendants, erase, skein, start, status, up
from fix_http import get

from skein_cluster import registry
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.embedded.databases import create_database
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import prepared_database

# Those of one scrape; each method and query that is used adds some.
MAX_SAMPLES = 3_000

# Each of these starts whole clusters, on a machine that may be busy.
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Return a new data folder, whose path has a space; what lies elsewhere for root goes as well."""
    folder = tmp_path / "a data folder"
    yield folder
    erase(folder)


@pytest.fixture(scope="module")
def used_data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a data folder that several tests start in, one after another: making a database takes seconds."""
    folder = tmp_path_factory.mktemp("up") / "a data folder"
    yield folder
    erase(folder)


async def test_a_killed_up_is_followed_by_one_that_has_every_acknowledged_write(data_dir: Path) -> None:
    async with up(data_dir) as killed:
        added = await skein("memories", "add", "The boat is called Bosun", environment=killed.environment)
        first = killed.credentials
        started = descendants(killed.process.pid)
        await killed.stop(signal.SIGKILL)
        is_gone = await all_gone(started)
    async with up(data_dir) as again:
        shown = await skein("memories", "show", added.out.strip(), "--json", environment=again.environment)
        recalled = await skein("recall", "name of the boat", "--json", environment=again.environment)
        second = again.credentials
        code = await again.stop()

    assert is_gone
    assert shown.json["memory"]["content"] == "The boat is called Bosun"
    assert recalled.json["hits"][0]["item_id"] == added.out.strip()
    assert (second["tenant_id"], second["api_key"]) == (first["tenant_id"], first["api_key"])
    assert code == ExitCode.OK


async def test_the_database_lies_in_the_data_folder_where_postgres_can_enter() -> None:
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        folder = Path(above) / "data"
        async with up(folder) as running:
            panel = " ".join(running.panel.replace("│", " ").split())
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

        assert (folder / "postgres" / "PG_VERSION").exists()
        assert not (folder / "postgres").is_symlink()
        assert "NOT in the data folder" not in panel
        # Others may pass through at most.
        assert stat.S_IMODE(folder.stat().st_mode) & 0o066 == 0
        assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


async def test_a_database_outside_of_the_data_folder_is_said_at_the_start(data_dir: Path) -> None:
    data_dir.parent.chmod(0o700)
    async with up(data_dir) as running:
        panel = " ".join(running.panel.replace("│", " ").split())

    # Only root needs another user for Postgres, who cannot enter.
    assert ("NOT in the data folder" in panel) == (os.geteuid() == 0)
    assert (data_dir / "postgres").is_symlink() == (os.geteuid() == 0)


async def test_a_cluster_without_callers_exports_few_samples(used_data_dir: Path) -> None:
    async with up(used_data_dir):
        address = json.loads((used_data_dir / "credentials.json").read_text("utf-8"))["processes"]["skein"]
        code, text = await get(address, "/metrics")

    assert code == HTTPStatus.OK
    assert len([line for line in text.splitlines() if not line.startswith("#")]) <= MAX_SAMPLES


async def test_a_second_signal_does_not_wait_for_the_drain(used_data_dir: Path) -> None:
    async with up(used_data_dir, SKEIN_DRAIN_SECONDS="100") as running:
        started = descendants(running.process.pid)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.stdout is not None
        while b"Stopping" not in await running.process.stdout.readline():
            pass
        code = await running.stop(signal.SIGTERM)
        output = await running.process.stdout.read()

    assert code == 128 + signal.SIGTERM
    assert b"Ended at once" in output
    assert await all_gone(started)


async def test_a_second_signal_to_a_service_does_not_wait_either_and_is_logged() -> None:
    environment = {**test_environment(), "SKEIN_DRAIN_SECONDS": "100", "SKEIN_LOG_LEVEL": "info"}
    process = await start("serve", "gateway", environment=environment)
    assert process.stderr is not None
    events: list[str] = []
    try:
        while line := await process.stderr.readline():
            events.append(json.loads(line)["event"])
            if events[-1] in {"serving", "stopping"}:
                process.send_signal(signal.SIGTERM)
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()

    assert code == 128 + signal.SIGTERM
    assert events[-1] == "shutdown_forced"


@pytest.mark.essential
async def test_it_shows_where_everything_is_keeps_secrets_and_leaves_no_process_at_ctrl_c(
    data_dir: Path,
) -> None:
    # With no key of its own, the folder gets one.
    async with up(data_dir, SKEIN_SYSTEM_KEY="") as running:
        started = descendants(running.process.pid)
        credentials = running.credentials
        result = await status(environment=running.environment)
        _, _, port = credentials["endpoint"].rpartition(":")
        second = await skein("up", environment={**running.environment, "SKEIN_GATEWAY_PORT": port})
        code = await running.stop(signal.SIGINT)

    for text in (
        credentials["endpoint"],
        credentials["http"],
        "credentials.json",
        "skein.log",
        "skein recall",
        "console",
    ):
        assert text in running.panel.replace("│\n│", "")
    # A long path is broken over several lines.
    shown = " ".join(running.panel.replace("│", " ").split())
    assert shown.index("export SKEIN_DATA_DIR=") < shown.index("skein remember") < shown.index("skein recall")
    for name in ("credentials.json", "system.key"):
        assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o600
    assert set(credentials) >= {"endpoint", "http", "api_key", "tenant_id"}
    assert started
    assert await all_gone(started)
    assert result.code == code == ExitCode.OK
    # A second one on the same data folder is told who has it, and so its ports.
    assert second.code == ExitCode.CANNOT_START
    assert f"in use by process {running.process.pid}" in second.err
    log = (data_dir / "skein.log").read_text("utf-8")
    assert credentials["api_key"] not in log
    assert all(json.loads(line) for line in log.splitlines())


@pytest.mark.parametrize(
    ("setting", "command"),
    [
        ("SKEIN_MEMORY_PORT", "up"),
        ("SKEIN_HTTP_PORT", "cluster"),
        ("SKEIN_ADMIN_PORT", "up"),
        ("SKEIN_PC2_PORT_5570", "cluster"),
    ],
)
async def test_a_taken_port_is_named_with_its_setting_before_anything_is_made(
    data_dir: Path, setting: str, command: str
) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        values = {**test_environment(), "SKEIN_DATA_DIR": str(data_dir), setting: port}
        refused = await skein(command, environment=values)

    assert refused.code == ExitCode.CANNOT_START
    assert refused.err == f"Error: Port {port} is in use; set {setting} to another port.\n"
    assert not (data_dir / "postgres").exists()


async def test_a_port_that_is_taken_when_there_is_a_database_already_leaves_nothing_running(
    used_data_dir: Path,
) -> None:
    async with prepared_database(used_data_dir, environment=test_environment(), durable=False):
        pass
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        values = {**test_environment(), "SKEIN_DATA_DIR": str(used_data_dir), "SKEIN_PC2_PORT_5570": port}
        process = await start("up", environment=values)
        watched: set[int] = set()
        ended = asyncio.create_task(process.communicate())
        while not ended.done():
            watched |= descendants(process.pid)
            await asyncio.wait([ended], timeout=0.05)
        _, error = await ended

    assert process.returncode == ExitCode.CANNOT_START, error.decode()
    assert error.decode() == f"Error: Port {port} is in use; set SKEIN_PC2_PORT_5570 to another port.\n"
    assert watched
    assert await all_gone(watched)


async def test_a_signal_during_the_start_ends_it_without_leaving_anything(data_dir: Path) -> None:
    process = await start("up", environment={**test_environment(), "SKEIN_DATA_DIR": str(data_dir)})
    while not (started := descendants(process.pid)):
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, error = await process.communicate()

    assert process.returncode == ExitCode.OK, error.decode()
    assert b"Traceback" not in error
    assert await all_gone(started)


async def test_a_service_can_run_alone_against_the_rest_of_a_cluster(cluster: Cluster, tenant: Tenant) -> None:
    with free_ports(["SKEIN_MEMORY_PORT", "SKEIN_GATEWAY_PORT"], "127.0.0.1") as ports:
        others = {f"SKEIN_{name.upper()}_ADDRESS": cluster.addresses[name] for name in registry.NAMES}
        url = cluster.postgres.url(user="postgres", database="skein")
        environment = {**cluster.environment, **others, **ports, "SKEIN_DATABASE_URL": url}
        client = {**test_environment(), "SKEIN_ENDPOINT": f"127.0.0.1:{ports['SKEIN_GATEWAY_PORT']}"}
        client["SKEIN_API_KEY"] = tenant.api_key
        process = await start("serve", "memory", "gateway", environment={**environment, "SKEIN_LOG_LEVEL": "info"})
        try:
            assert process.stderr is not None
            ready: set[str] = set()
            while ready < {"memory", "gateway"}:
                line = await process.stderr.readline()
                assert line, "it ended"
                event = json.loads(line)
                ready |= {event["service"]} if event["event"] == "ready" else set()
            added = await skein(
                "memories", "add", "stored by the other process", "--external-id", "m1", environment=client
            )
            shown = await skein("memories", "show", "m1", environment={**client, "SKEIN_ENDPOINT": cluster.endpoint})
            process.send_signal(signal.SIGTERM)
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()

    assert added.code == ExitCode.OK, added.err
    assert "stored by the other process" in shown.out
    assert code == ExitCode.OK


async def test_serve_says_what_it_needs() -> None:
    no_database = await skein("serve", "memory")
    no_service = await skein("serve", "memroy", SKEIN_DATABASE_URL="postgresql://")
    bad_port = await skein("serve", "gateway", SKEIN_GATEWAY_PORT="many")

    assert [ended.code for ended in (no_database, no_service, bad_port)] == [ExitCode.CANNOT_START] * 3
    assert "SKEIN_DATABASE_URL" in no_database.err
    assert "there are auth, tenancy" in no_service.err
    assert "SKEIN_GATEWAY_PORT" in bad_port.err


async def test_a_new_database_is_migrated_once_and_gets_an_operator(cluster: Cluster) -> None:
    name = f"fresh_{os.getpid()}"
    url = cluster.postgres.url(user="postgres", database=name)
    nowhere = await skein("migrate", SKEIN_DATABASE_URL=url)
    await create_database(cluster.postgres, name)
    early = await skein("bootstrap", SKEIN_DATABASE_URL=url)
    first = await skein("migrate", "--json", SKEIN_DATABASE_URL=url)
    again = await skein("migrate", SKEIN_DATABASE_URL=url)
    key = await skein("bootstrap", "--json", SKEIN_DATABASE_URL=url)

    numbers = [migration.number for migration in registry.migrations()]
    assert nowhere.code == ExitCode.UNREACHABLE
    assert early.code == ExitCode.CANNOT_START
    assert "skein migrate" in early.err
    assert [applied["number"] for applied in first.json["applied"]] == numbers
    assert again.out.strip() == f"The schema is at version {numbers[-1]} already."
    assert key.json["operator_key"]


async def test_a_database_that_does_not_answer_is_unreachable() -> None:
    with free_ports(["port"], "127.0.0.1") as ports:
        ended = await skein("migrate", SKEIN_DATABASE_URL=f"postgresql://postgres@127.0.0.1:{ports['port']}/skein")

    assert ended.code == ExitCode.UNREACHABLE
    assert len(ended.err.splitlines()) == 1
