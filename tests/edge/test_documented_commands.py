"""Commands and programs that the documents show are run against a cluster that `make up` keeps."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import erase, status
from fix_model_server import Model

from skein_cluster.processes.ports import free_ports

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "docs/quickstart.md"
LANGGRAPH = ROOT / "docs/guides/langgraph.md"
FRAMEWORKS = ROOT / "docs/guides/frameworks.md"
CHATBOT = ROOT / "docs/guides/chatbot.md"
OTHERS = (
    *(ROOT / "README.md", ROOT / "libs/client/README.md"),
    *(page for page in sorted((ROOT / "docs/guides").glob("*.md")) if page not in {LANGGRAPH, FRAMEWORKS, CHATBOT}),
)
# Where the frameworks are installed.
FRAMEWORKS_PYTHON = ROOT / ".edge/frameworks/bin/python"
ASSISTANTS = ROOT / "docs/guides/voice-assistants.md"
# The commands that keep the cluster, and so run until the tests are over: the quickstart's, and that for assistants.
MAKE_UP = "make up\n"
MAKE_UP_FOR_ASSISTANTS = f"SKEIN_PC2_ENABLED=1 {MAKE_UP}"
# The ports that pages name, with the setting that moves each.
SHOWN = {
    "127.0.0.1:50050": "SKEIN_GATEWAY_PORT",
    "127.0.0.1:8080": "SKEIN_HTTP_PORT",
    "127.0.0.1:5570": "SKEIN_PC2_PORT_5570",
}
START_SECONDS = 120
STOP_SECONDS = 30
HOOK_ATTEMPTS = 10

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class KeptCluster:
    """A cluster that `make up` keeps."""

    environment: dict[str, str]

    def adapted(self, text: str) -> str:
        """Return a page's text with the ports that the cluster has."""
        for address, setting in SHOWN.items():
            text = text.replace(address, f"127.0.0.1:{self.environment[setting]}")
        return text


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block that is run."""
    matches = re.findall(r"^```(sh|python)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, text) for language, text in matches if text not in {MAKE_UP, MAKE_UP_FOR_ASSISTANTS}]


async def run(*command: str, environment: dict[str, str]) -> str:
    """Run a program in the clone; return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{out.decode()}\n{err.decode()}"
    return out.decode()


async def run_page(page: Path, cluster: KeptCluster) -> str:
    """Run the blocks of a page, one after the other in one shell."""
    programs = {"sh": "{}", "python": ".venv/bin/python - <<'END_OF_PROGRAM'\n{}END_OF_PROGRAM\n"}
    script = "".join(programs[language].format(text) for language, text in blocks(page))
    return await run("bash", "-euo", "pipefail", "-c", cluster.adapted(script), environment=cluster.environment)


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KeptCluster]:
    """The cluster that the guides' first commands keep, with a data folder and ports of its own."""
    folder = tmp_path_factory.mktemp("documented")
    with free_ports(SHOWN.values(), "127.0.0.1") as ports:
        environment = {
            **without_assistants(),
            **ports,
            "SKEIN_DATA_DIR": str(folder / "data"),
            # What hooks remember between their calls.
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder),
        }
        process = await asyncio.create_subprocess_shell(
            MAKE_UP_FOR_ASSISTANTS,
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                while not (folder / "data/credentials.json").exists():
                    assert process.returncode is None
                    await asyncio.sleep(0.1)
                await status(environment=environment)
            key = json.loads((folder / "data/credentials.json").read_text("utf-8"))["api_key"]
            yield KeptCluster({**environment, "KEY": key})
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGINT)
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            erase(folder / "data")


def without_assistants() -> dict[str, str]:
    """Return the environment of a cluster whose assistants' ports are closed, unless its command opens them.

    Its worker finds facts at its own time, as that of any cluster.
    """
    left_out = {"SKEIN_PC2_ENABLED", "SKEIN_ADVANCED_WORKER_PAUSE_FACTOR"}
    return {name: value for name, value in test_environment().items() if name not in left_out}


def test_the_guide_for_assistants_begins_by_opening_their_ports() -> None:
    assert ASSISTANTS.read_text("utf-8").partition("```sh\n")[2].startswith(MAKE_UP_FOR_ASSISTANTS)


def test_the_quickstart_begins_by_starting_a_cluster() -> None:
    text = QUICKSTART.read_text("utf-8")

    assert text.partition("```sh\n")[2].startswith(MAKE_UP)
    # test_typescript.py runs the programs in TypeScript.
    # test_packages.py runs what is installed without a clone.
    assert text.count("```") == 2 * (len(blocks(QUICKSTART)) + 1 + text.count("```ts\n") + text.count("```text\n"))


@pytest.mark.parametrize(
    "page", [page for page in OTHERS if blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
async def test_every_command_and_program_of_a_page_works_twice(cluster: KeptCluster, page: Path) -> None:
    for _ in range(2):
        printed = await run_page(page, cluster)

        assert printed.strip()
        assert '"isError":true' not in printed.replace(" ", "")


@pytest.mark.essential
async def test_the_first_program_of_the_readme_prints_what_is_below_it(cluster: KeptCluster) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    program, shown = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0]
    # Other pages speak of an Anna too.
    created = await run(".venv/bin/skein", "tenants", "create", "readme", "--json", environment=cluster.environment)
    endpoint = f"127.0.0.1:{cluster.environment['SKEIN_GATEWAY_PORT']}"
    environment = {**cluster.environment, "SKEIN_ENDPOINT": endpoint, "SKEIN_API_KEY": json.loads(created)["api_key"]}

    for _ in range(2):
        printed = await run(".venv/bin/python", "-c", program, environment=environment)

        assert dateless(printed) == dateless(shown)


def dateless(text: str) -> str:
    """Leave out days."""
    return re.sub(r"\d{4}-\d\d-\d\d", "", text)


async def test_the_readme_prints_what_its_program_learns(cluster: KeptCluster) -> None:
    shown = re.findall(r"^.+ (?:is|was) true$", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE)

    printed = await run_page(ROOT / "README.md", cluster)

    assert len(shown) == 3
    assert [line for line in printed.splitlines() if line.endswith(" true")] == shown


@pytest.mark.essential
async def test_every_command_and_program_of_the_quickstart_works(cluster: KeptCluster) -> None:
    for _ in range(2):
        printed = await run_page(QUICKSTART, cluster)

    exported = (Path(cluster.environment["TMPDIR"]) / "household.jsonl").read_text("utf-8")
    for text in ("Anna prefers tea to coffee", "the last of the lemonade"):
        assert text in printed
        assert text in exported
    learned = [line for line in printed.splitlines() if line.endswith((", current", ", superseded"))]
    assert sorted(learned) == [
        "“I live in Lisbon”, current",
        "“I live in Porto”, superseded",
        "“I'm vegan”, current",
        "“My birthday is on 3 May”, current",
    ]


async def test_the_langgraph_guide_finds_what_it_put_however_often_it_runs(cluster: KeptCluster) -> None:
    for _ in range(2):
        printed = await run_page(LANGGRAPH, cluster)

        assert printed.splitlines() == [
            "('users', 'anna') drinks green tea",
            "{'cups': 3, 'likes': 'green tea'}",
            "[('users', 'anna'), ('users', 'bob')]",
        ]


_CREATED = "File created successfully at: "


@pytest.fixture
def with_frameworks(cluster: KeptCluster) -> dict[str, str]:
    """The environment of a program that uses the adapters and their frameworks."""
    libraries = ":".join(str(ROOT / "libs" / name) for name in ("adapters", "client", "protos"))
    return {**cluster.environment, "PYTHONPATH": libraries}


async def test_the_programs_of_the_frameworks_guide_print_what_they_kept(with_frameworks: dict[str, str]) -> None:
    programs = [text for _, text in blocks(FRAMEWORKS)]
    carla = ["Where is the parcel of Carla?", "It is in Bern.", "And when does it come?", "It is in Bern."]

    for times in (1, 2):
        printed = [await run(str(FRAMEWORKS_PYTHON), "-c", text, environment=with_frameworks) for text in programs]

        *others, tools = [text.splitlines() for text in printed]
        assert others == [
            ["[{'role': 'user', 'content': 'Where is my order of green tea?'}]", "anna-orders"],
            [
                "{'type': 'memory_20250818', 'name': 'memory'}",
                str({"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{_CREATED}/memories/style.md"}),
                "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:",
                "34B\t/memories",
                "34B\t/memories/style.md",
                "Successfully deleted /memories/style.md",
            ],
            # A conversation goes on where the first run left it.
            [str(times * ["I ordered coffee from Brazil."]), "True"],
            [str(times * carla)],
            ["['My parcel goes to Basel.']"],
        ]
        assert tools[0] == ("Remembered." if times == 1 else "That was remembered already.")
        assert "Dora grows lemons" in "\n".join(tools[1:])


async def test_the_chatbot_of_the_guide_tells_each_person_what_is_theirs(with_frameworks: dict[str, str]) -> None:
    ((_, program),) = blocks(CHATBOT)
    with Model() as model:
        serving = asyncio.create_task(asyncio.to_thread(model.serve_forever))
        address = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "none"}
        runs = [
            await run(str(FRAMEWORKS_PYTHON), "-c", program, environment={**with_frameworks, **address})
            for _ in range(2)
        ]
        model.shutdown()
        await serving

    for printed in runs:
        answer, *people = printed.splitlines()
        texts = {name: set(ast.literal_eval(hits)) for name, _, hits in (line.partition(" ") for line in people)}
        assert answer == "It is in Bern."
        # A conversation that is had twice has each message twice.
        assert texts == {"nina": {"My doctor is called Keller."}, "omar": {"My doctor is called Moser."}}
    of_nina = json.dumps([request for request in model.requests if "What is my doctor called?" in json.dumps(request)])
    assert "Keller" in of_nina
    assert "Moser" not in of_nina


async def test_the_guide_for_coding_agents_recalls_what_it_remembered(cluster: KeptCluster) -> None:
    # A hook gives up after five seconds: on a busy machine its agent goes on without the memory.
    for _ in range(HOOK_ATTEMPTS):
        printed = await run_page(ROOT / "docs/guides/coding-agents.md", cluster)
        remembered, prompted, *_ = printed.splitlines()
        if (remembered, "hookSpecificOutput" in prompted) == ("{}", True):
            break

    assert remembered == "{}"
    assert "by the script deploy.sh" in json.loads(prompted)["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("named_by", ["SKEIN_DATA_DIR", "XDG_DATA_HOME", "HOME"])
async def test_the_key_is_read_from_the_data_folder_wherever_that_is(tmp_path: Path, named_by: str) -> None:
    (line,) = (text for _, text in blocks(QUICKSTART) if text.startswith("KEY="))
    home = tmp_path / "a home"
    folders = {
        "SKEIN_DATA_DIR": home,
        "XDG_DATA_HOME": home / "skein",
        "HOME": home / ".local" / "share" / "skein",
    }
    folders[named_by].mkdir(parents=True)
    credentials = {"endpoint": "127.0.0.1:50050", "api_key": "skein_of_this_folder", "operator_key": "another"}
    (folders[named_by] / "credentials.json").write_text(json.dumps(credentials, indent=2) + "\n", "utf-8")
    environment = {"PATH": os.environ["PATH"], named_by: str(home)}

    printed = await run("bash", "-euc", f'{line.splitlines()[0]}; echo "$KEY"', environment=environment)

    assert printed.strip() == "skein_of_this_folder"
