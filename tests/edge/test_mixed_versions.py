"""Deploys from an older version and back: its services and ours together on one database, under load.

The older commit is named in older-version.txt: its schema is ours, or one migration behind. Its source and its own
environment are kept in .edge.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fix_cluster import IMPATIENCE, MASTER_KEY, SYSTEM_KEY
from fix_fleet import PATIENT_SECONDS, REPLICATED, Fleet, running_fleet, skein
from fix_fleet_load import Load
from fix_identities import identity_environment
from fix_node import tool

from skein_cluster import registry
from skein_kit.database.schema_migrations import Migration

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
NAMED = Path(__file__).with_name("older-version.txt")
OLD, NEW = 0, 1
# Known to both versions, and nothing of the developer's own settings.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("SKEIN_", "VIRTUAL_ENV"))},
    **IMPATIENCE,
    **identity_environment(),
    "SKEIN_SYSTEM_KEY": SYSTEM_KEY,
    "SKEIN_MASTER_KEY": MASTER_KEY,
}


@dataclass(frozen=True)
class OlderVersion:
    """An older version of the code."""

    python: str
    # The newest migration that it knows.
    schema: int


@pytest.fixture(scope="module")
def older() -> OlderVersion:
    """The source and the environment of the older commit, made once."""
    commit = NAMED.read_text("utf-8").strip()
    folder = source_of(commit)
    schema = max(int(path.name[:4]) for path in folder.glob("services/**/migrations/*.sql"))
    refuse_unless_next(commit, schema, registry.migrations()[-1])
    if not (folder / ".venv" / "ready").exists():
        ran("sh", "deploy/env.sh", folder=folder, SKEIN_PYTHON=sys.executable)
    return OlderVersion(str(folder / ".venv" / "bin" / "python"), schema)


def source_of(commit: str) -> Path:
    """Return the folder of a commit's source, unpacked once."""
    try:
        ran("git", "cat-file", "-e", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        pytest.fail(
            f"{NAMED.name} names {commit}, which this clone does not hold. A shallow clone gets it with "
            f"`git fetch --unshallow`, or `git fetch origin {commit}`."
        )
    folder = ROOT / ".edge" / "older" / commit
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        archive = part.with_suffix(".tar")
        ran("git", "archive", "--output", str(archive), commit)
        with tarfile.open(archive) as packed:
            # Before 3.11.4 there are no filters.
            packed.extraction_filter = getattr(tarfile, "data_filter", None)
            packed.extractall(part)  # noqa: S202 - our own commit, filtered above.
        archive.unlink()
        part.rename(folder)
    return folder


def refuse_unless_next(commit: str, schema: int, newest: Migration) -> None:
    """Fail unless the schema that a commit knows is served by both versions."""
    if newest.number - schema not in (0, 1):
        pytest.fail(
            f"{commit} in {NAMED.name} knows schema {schema} and this tree {newest.number}; a version serves its own "
            f"schema and the next. Name {newest_commit_of(newest.number - 1)}, the newest commit before "
            f"{newest.number:04d}_{newest.name}.sql."
        )


def newest_commit_of(schema: int) -> str:
    """Return the newest ancestor of HEAD, or HEAD, whose newest migration has this number."""
    newest = "HEAD"
    for commit in git("log", "--first-parent", "--format=%H", "--", "services/**/migrations/*").splitlines():
        if schema_of(commit) == schema:
            return git("rev-parse", newest)
        newest = f"{commit}^"
    pytest.fail(f"no commit of this clone has schema {schema}")


def schema_of(commit: str) -> int:
    """Return the number of the newest migration in a commit."""
    return max(int(number) for number in re.findall(r"/migrations/(\d+)_", git("ls-tree", "-r", "--name-only", commit)))


def git(*arguments: str) -> str:
    """Return what a git command prints about this repository."""
    return subprocess.check_output([tool("git"), *arguments], cwd=ROOT, text=True).strip()


def ran(program: str, *arguments: str, folder: Path = ROOT, **settings: str) -> None:
    """Run a program to its end. Raises CalledProcessError."""
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed"
    subprocess.run([path, *arguments], cwd=folder, env={**ENVIRONMENT, **settings}, check=True)


@pytest.fixture
async def fleet(older: OlderVersion) -> AsyncIterator[Fleet]:
    """The older version's cluster on its own schema."""
    async with running_fleet(ENVIRONMENT, python=older.python) as fleet:
        await fleet.start(*((name, OLD) for name in REPLICATED), python=older.python)
        yield fleet


async def answered(fleet: Fleet, number: int) -> float:
    """Return how many calls the memory service of a version has answered well."""
    return await fleet.replicas["memory", number].metric("skein_rpc_requests_total{", 'code="OK"')


async def leave(fleet: Fleet, number: int, load: Load) -> set[int]:
    """Let every service of one version leave off, the gateway last; return their exit codes."""
    codes = set()
    for name in REPLICATED:
        codes.add(await fleet.stop(name, number))
        await load.further(1)
    return codes


def test_a_missing_commit_is_reported_with_how_to_get_it() -> None:
    with pytest.raises(pytest.fail.Exception, match="git fetch --unshallow"):
        source_of("0" * 40)


# 32 is the schema of commits long before HEAD, None that of HEAD itself, when the next migration is not committed.
@pytest.mark.parametrize("committed", [32, None])
def test_an_error_about_a_commit_that_is_too_old_says_which_one_to_name(committed: int | None) -> None:
    schema = committed or schema_of("HEAD")
    newest = replace(registry.migrations()[-1], number=schema + 1)

    with pytest.raises(pytest.fail.Exception, match=f"schema {schema - 1} and this tree {schema + 1}") as failure:
        refuse_unless_next("abc", schema - 1, newest)

    named = re.search(r"Name ([0-9a-f]{40}),", str(failure.value))
    assert named is not None
    assert schema_of(named[1]) == schema


async def test_a_deploy_and_its_way_back_under_load_fail_no_call_and_lose_nothing(
    fleet: Fleet, older: OlderVersion
) -> None:
    newest = registry.migrations()[-1].number
    tenant = await fleet.new_tenant("both versions")
    async with fleet.client(tenant, timeout=PATIENT_SECONDS) as client:
        load = Load(client, "mixed")
        async with load.running():
            await load.further(3)
            migrated = await skein(fleet.base, "migrate")
            await load.further(3)
            await fleet.start(*((name, NEW) for name in REPLICATED))
            before = [await answered(fleet, number) for number in (OLD, NEW)]
            await load.further(20)
            after = [await answered(fleet, number) for number in (OLD, NEW)]
            codes = await leave(fleet, OLD, load)
        lost_by_new = [await load.missing(), await load.differing()]
        async with load.running():
            await fleet.start(*((name, OLD) for name in REPLICATED), python=older.python)
            await load.further(10)
            codes |= await leave(fleet, NEW, load)
        lost_by_old = [await load.missing(), await load.differing()]
        stored, expected = await load.transcripts()

    assert load.errors == []
    assert codes == {0}
    assert (migrated["version"], len(migrated["applied"])) == (newest, newest - older.schema)
    assert all(first < second for first, second in zip(before, after, strict=True))
    assert lost_by_new == lost_by_old == [[], []]
    assert stored == expected
