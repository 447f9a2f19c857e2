"""Data of each release, and of the present version, starts with the present version and is read by it."""

from __future__ import annotations

import lzma
import os
import shutil
import tomllib
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from fix_cluster import AuthorizedChannel, Cluster, Tenant, test_environment
from fix_command import skein, up
from fix_everything import fill, lost
from fix_fleet_load import Load
from fix_later_versions import TEXTS, later
from fix_own_postgres import open_folder, restored, run_program
from grpc import aio

from skein.gateway.v1 import gateway_pb2
from skein_client.client import Client
from skein_cluster.embedded.databases import DATABASE
from skein_cluster.processes.single_process import LocalCluster, single_process_cluster
from skein_kit.telemetry.metrics import VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(300)

RELEASED = Path(__file__).parents[2] / "deploy/released"
# `make freeze` keeps the present data here.
KEPT = os.environ.get("SKEIN_TEST_FREEZE", "")
MAX_BYTES = 1_000_000
QUESTION = "Where are the keys?"


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[tuple[LocalCluster, Tenant]]:
    """Run a cluster on a data folder, under the keys that all released data has; yield its development tenant too."""
    async with (
        single_process_cluster(home, environment=test_environment(), durable=False) as cluster,
        aio.insecure_channel(cluster.addresses["gateway"]) as channel,
    ):
        made = cluster.credentials
        authorized = cast("aio.Channel", AuthorizedChannel(channel, made.api_key))
        yield cluster, Tenant(channel=authorized, tenant_id=uuid.UUID(made.tenant_id), api_key=made.api_key)


async def command(endpoint: str, tenant: Tenant, *arguments: str) -> None:
    """Run a command in the tenant, which must succeed."""
    ended = await skein(*arguments, SKEIN_ENDPOINT=endpoint, SKEIN_API_KEY=tenant.api_key)
    assert ended.code == 0, ended.err


@pytest.fixture(scope="module")
async def present(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dump and an export of the present version, made as a release makes its own."""
    folder = tmp_path_factory.mktemp("present")
    with open_folder() as home:
        async with running(home) as (cluster, tenant):
            await fill(tenant)
            await command(cluster.addresses["gateway"], tenant, "export", "-o", str(folder / f"{VERSION}.jsonl"))
            dump = home / "dump"
            options = ("--format", "custom", "--compress", "0")
            await run_program(cluster.postgres, "pg_dump", *options, "--file", dump, DATABASE)
            (folder / f"{VERSION}.dump.xz").write_bytes(lzma.compress(dump.read_bytes()))
    return folder


def releases() -> list[str]:
    file = RELEASED / "migrations.toml"
    return list(tomllib.loads(file.read_text("utf-8"))) if file.exists() else []


def data_of(release: str, present: Path) -> tuple[Path, Path]:
    """Return the dump and the export of a release."""
    folder, version = (present, VERSION) if release == "present" else (RELEASED, release)
    return folder / f"{version}.dump.xz", folder / f"{version}.jsonl"


@pytest.mark.parametrize("release", ["present", *releases()])
async def test_a_dump_starts_with_this_version_and_has_everything(release: str, present: Path, tmp_path: Path) -> None:
    dump, former = data_of(release, present)
    export, unpacked = tmp_path / "export.jsonl", tmp_path / "dump"
    unpacked.write_bytes(lzma.decompress(dump.read_bytes()))

    with open_folder() as home:
        await restored(home, unpacked)
        async with running(home) as (cluster, tenant):
            await command(cluster.addresses["gateway"], tenant, "export", "-o", str(export))
            hits = (await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=QUESTION))).hits

    assert lost(export, former) == []
    assert QUESTION in {hit.message.content for hit in hits}
    assert dump.stat().st_size + former.stat().st_size < MAX_BYTES
    if KEPT and release == "present":
        for path in (dump, former):
            shutil.copy(path, Path(KEPT) / path.name)


@pytest.mark.parametrize("release", ["present", *releases()])
async def test_an_export_is_imported_by_this_version(
    cluster: Cluster, tenant: Tenant, release: str, present: Path, tmp_path: Path
) -> None:
    _, former = data_of(release, present)
    export = tmp_path / "export.jsonl"

    await command(cluster.endpoint, tenant, "import", "jsonl", str(former))

    await command(cluster.endpoint, tenant, "export", "-o", str(export))
    assert lost(export, former) == []


@pytest.mark.parametrize("release", releases() or ["present"])
async def test_a_dump_starts_with_a_version_that_is_two_ahead_under_load(
    release: str, present: Path, tmp_path: Path
) -> None:
    dump, former = data_of(release, present)
    export, unpacked = tmp_path / "export.jsonl", tmp_path / "dump"
    unpacked.write_bytes(lzma.decompress(dump.read_bytes()))
    version = later(tmp_path / "later", "8.0.0", *TEXTS)

    with open_folder() as home:
        await restored(home, unpacked)
        async with up(home, **version.settings) as cluster:
            made = cluster.credentials
            async with Client(endpoint=made["endpoint"], api_key=made["api_key"], timeout=60.0) as client:
                load = Load(client, "later")
                async with load.running():
                    await load.further(3)
                    exported = await skein("export", "-o", str(export), SKEIN_DATA_DIR=str(home))
                kept = (load.errors, await load.missing(), await load.differing())

    assert exported.code == 0, exported.err
    assert kept == ([], [], [])
    assert lost(export, former) == []
