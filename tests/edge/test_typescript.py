"""The TypeScript client as it is packed, in Node and in a browser, against real clusters."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
import subprocess
import tarfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from fix_model_server import ANSWER, Model
from fix_node import newer_node, run, tool
from fix_proxy import Proxy

from skein.memory.v1 import memory_pb2
from skein_client.retry import is_read
from skein_gateway.public_methods import PUBLIC_METHODS
from skein_kit import errors
from skein_kit.calls.call import Call

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WORK = ROOT / ".edge/typescript"
# A project that has the packed client and nothing else of ours; the packages that it requires lie above it.
APP = WORK / "app"
COMPILER = WORK / "node_modules/typescript/bin/tsc"
BUNDLER = WORK / "node_modules/esbuild/bin/esbuild"
PAGES = (
    *(ROOT / "README.md", ROOT / "docs/quickstart.md", ROOT / "docs/guides/typescript.md"),
    ROOT / "libs/typescript/README.md",
)
OPTIONS = {
    "target": "es2022",
    "lib": ["es2023", "dom", "esnext.disposable"],
    "module": "nodenext",
    "strict": True,
    "types": ["node"],
    "outDir": "out",
    "rootDir": ".",
}
# What a browser loads: a change that doubles it should be noticed.
MAX_BUNDLE_BYTES = 120_000
REQUIRED = {"@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-node", "@connectrpc/connect-web"}

pytestmark = pytest.mark.timeout(300)


def examples() -> dict[str, str]:
    """Return the programs that pages show, by the name of a file."""
    result: dict[str, str] = {}
    for page in PAGES:
        programs = re.findall(r"^```ts\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        stem = page.relative_to(ROOT).with_suffix("").as_posix().replace("/", "_")
        result |= {f"{stem}_{number}.ts": text for number, text in enumerate(programs)}
    return result


@pytest.fixture(scope="module", autouse=True)
def package() -> Path:
    """The packed client, unpacked into a project whose programs are compiled."""
    subprocess.run([tool("make"), "typescript", "PROJECT_URL=https://example.org/skein"], cwd=ROOT, check=True)
    (path,) = (ROOT / "dist/npm").glob("skein-client-*.tgz")
    shutil.rmtree(APP, ignore_errors=True)
    installed = APP / "node_modules/skein-client"
    installed.parent.mkdir(parents=True)
    subprocess.run([tool("tar"), "-xzf", str(path), "-C", str(APP)], check=True)
    (APP / "package").rename(installed)
    (APP / "package.json").write_text(json.dumps({"type": "module", "private": True}), "utf-8")
    (APP / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "include": ["*.ts"]}), "utf-8")
    shutil.copy(HERE / "typescript.ts", APP)
    for name, text in examples().items():
        (APP / name).write_text(text, "utf-8")
    command = [tool("node"), str(COMPILER), "--project", "tsconfig.json"]
    compiled = subprocess.run(command, cwd=APP, check=False, stdout=subprocess.PIPE, text=True)
    assert compiled.returncode == 0, compiled.stdout
    return path


async def step(name: str, answer: Any = None, **environment: str) -> Any:
    """Run a step of typescript.ts; return its report."""
    said = await run(APP / "out/typescript.js", {"STEP": name, **environment}, answer, folder=APP)
    return said["report"]


def where(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the settings of a client of a cluster."""
    return {
        "ENDPOINT": cluster.endpoint,
        "ORIGIN": f"http://{cluster.addresses['http']}",
        "KEY": tenant.api_key,
    }


def test_the_package_is_complete(package: Path) -> None:
    with tarfile.open(package) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    manifest = json.loads((APP / "node_modules/skein-client/package.json").read_text("utf-8"))
    targets = [target for entry in manifest["exports"].values() for target in entry.values() if "*" not in target]

    assert names >= {"LICENSE", "README.md", *(target.removeprefix("./") for target in targets)}
    assert not [name for name in names if name.endswith(".ts") and not name.endswith(".d.ts")]
    assert manifest.keys() >= {"version", "description", "license", "engines", "repository", "bugs", "homepage"}
    assert manifest["dependencies"].keys() == REQUIRED
    assert manifest.keys() & {"private", "devDependencies", "scripts"} == set()
    assert not re.search(r"\]\((?![a-z]+:)", (APP / "node_modules/skein-client/README.md").read_text("utf-8"))


async def test_clients_of_models_recall_before_and_remember_after(cluster: Cluster, tenant: Tenant) -> None:
    with Model() as model:
        serving = asyncio.create_task(asyncio.to_thread(model.serve_forever))
        report = await step("memory", MODEL=model.url, **where(cluster, tenant))
        model.shutdown()
        await serving

    assert report["ways"]
    assert {
        way: seen for way, seen in report["ways"].items() if seen != [ANSWER, "Where does the piano stand?", ANSWER]
    } == {}
    asked = [json.dumps(request) for request in model.requests]
    for way, request in zip(report["ways"], asked, strict=False):
        assert request.count(f"The piano of {way} stands in the yard") == 1
        assert request.count("stands in the yard") == 1
    assert report["gone"] == [ANSWER, "SESSION_NOT_FOUND"]
    assert report["cause"].startswith("SkeinError")
    assert len(asked) == len(report["ways"]) + 1
    assert "Unasked" not in asked[-1]


async def test_it_repeats_what_the_python_client_repeats() -> None:
    expected = {
        path: "request_id" in method.request.DESCRIPTOR.fields_by_name or is_read(path.rpartition("/")[2])
        for path, method in PUBLIC_METHODS.items()
    }

    said = await step("repeatable")

    assert {path: said.get(path) for path in expected} == expected


@pytest.mark.essential
async def test_it_stores_and_finds_over_grpc_and_http(cluster: Cluster, tenant: Tenant) -> None:
    expected = {
        "found": True,
        "context": True,
        "ledger": True,
        "listed": True,
        "messages": ["The kettle is broken"],
        "block": True,
        "similar": True,
    }

    report = await step("use", **where(cluster, tenant))

    assert report == {"grpc": expected, "http": expected}


async def test_the_newest_node_runs_it_too(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"STEP": "use", **where(cluster, tenant)}

    said = await run(APP / "out/typescript.js", environment, folder=APP, node=newer_node())

    assert said["report"].keys() == {"grpc", "http"}


async def test_errors_have_reasons_metadata_and_violations(cluster: Cluster, tenant: Tenant) -> None:
    expected = {
        "missing": ["NotFound", "MEMORY_NOT_FOUND", True],
        "invalid": ["InvalidArgument", "INVALID_FIELD", ["page_size"]],
        "updated": [[0], "Bonn"],
        "conflict": ["AlreadyExists", "FACT_KEY_TAKEN", "user.city"],
        "late": "DeadlineExceeded",
        "aborted": "no longer wanted",
    }

    report = await step("errors", **where(cluster, tenant))

    assert report == {
        "grpc": expected,
        "http": expected,
        "stream": "STREAM_NOT_SUPPORTED",
        "stranger": "CREDENTIAL_INVALID",
        "nowhere": "Unavailable",
    }


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_write_is_repeated_under_its_id_after_the_time_that_the_server_names(
    cluster: Cluster, tenant: Tenant, protocol: str
) -> None:
    pause_seconds = 0.3

    async def create(
        request: memory_pb2.BatchCreateMemoriesRequest, _call: Call
    ) -> memory_pb2.BatchCreateMemoriesResponse:
        if len(gateway.scripted.requests["BatchCreateMemories"]) < 3:
            raise errors.RateLimited(retry_after=pause_seconds)
        return memory_pb2.BatchCreateMemoriesResponse(memories=request.memories)

    async with gateway_before(cluster, tenant, {"BatchCreateMemories": create}) as gateway:
        report = await step(
            "retried",
            PROTOCOL=protocol,
            ENDPOINT=gateway.host.addresses["gateway"],
            ORIGIN=f"http://{gateway.host.addresses['http']}",
            KEY=tenant.api_key,
        )
        requests = gateway.scripted.requests["BatchCreateMemories"]

    assert report["content"] == ["Anna prefers green tea"]
    assert report["waitedMs"] >= 2 * pause_seconds * 1000
    assert len(requests) == 3
    assert len({request.request_id for request in requests}) == 1


async def test_what_the_contract_does_not_call_safe_is_not_repeated() -> None:
    assert await step("counted", KEY="k") == [3, 3, 1]


async def test_streams_resume_after_broken_connections(cluster: Cluster, tenant: Tenant) -> None:
    async with Proxy.to(cluster.endpoint) as proxy:

        async def answer(_question: Any) -> str:
            proxy.reset()
            return "done"

        report = await step("stream", answer, PROTOCOL="grpc", ENDPOINT=proxy.address, KEY=tenant.api_key)

    assert report == {
        "seen": ["the first", "the second", "the third"],
        "messages": ["hello"],
        "refused": "POSITION_INVALID",
    }


async def test_the_environment_and_the_credentials_file_name_the_cluster(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    written = {"endpoint": cluster.endpoint, "api_key": tenant.api_key}
    (tmp_path / "credentials.json").write_text(json.dumps(written), "utf-8")

    by_file = await step("environment", SKEIN_DATA_DIR=str(tmp_path))
    names = {"SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key, "HOME": str(tmp_path)}
    by_name = await step("environment", **names)
    with pytest.raises(AssertionError, match="No key for"):
        await step("environment", SKEIN_DATA_DIR=str(tmp_path), SKEIN_ENDPOINT="127.0.0.1:1")

    assert (by_file, by_name) == (0, 0)


@pytest.mark.parametrize("name", sorted(examples()))
async def test_the_programs_that_pages_show_run(cluster: Cluster, tenant: Tenant, name: str, tmp_path: Path) -> None:
    written = {"endpoint": cluster.endpoint, "api_key": tenant.api_key}
    (tmp_path / "credentials.json").write_text(json.dumps(written), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(tool("node"), str(APP / "out" / Path(name).with_suffix(".js"))),
        env={"PATH": "", "SKEIN_DATA_DIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert out.strip()


@pytest.fixture(scope="module")
def bundle(package: Path) -> Path:
    """The client as one file for browsers."""
    assert package
    (APP / "browser.js").write_text('export * from "skein-client";\n', "utf-8")
    options = ("--bundle", "--format=esm", "--minify", "--outfile=bundle.js", "--log-level=error")
    subprocess.run([str(BUNDLER), "browser.js", *options], cwd=APP, check=True)
    return APP / "bundle.js"


def test_a_bundle_for_browsers_stays_small(bundle: Path) -> None:
    assert len(gzip.compress(bundle.read_bytes())) < MAX_BUNDLE_BYTES


async def test_a_browser_uses_a_bundle_of_it(cluster: Cluster, tenant: Tenant, bundle: Path) -> None:
    async with AsyncExitStack() as stack:

        async def answer(question: dict[str, str]) -> str:
            allowed = gateway_before(cluster, tenant, {}, SKEIN_CORS_ORIGINS=question["origin"])
            gateway = await stack.enter_async_context(allowed)
            return f"http://{gateway.host.addresses['http']}"

        report = await run(
            HERE / "typescript_browser.mjs",
            {"CHROMIUM": tool("chromium"), "BUNDLE": str(bundle), "KEY": tenant.api_key},
            answer,
        )

    assert report == {"hits": ["Anna prefers green tea"], "refused": "MEMORY_NOT_FOUND true", "problems": []}
