"""Every item of the five source systems has a test that shows its behaviour here, or a reason why it is not here."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from fix_settings import VARIABLES
from google.protobuf import descriptor_pool

import skein

if TYPE_CHECKING:
    from collections.abc import Iterator

    Catalog = asyncpg.Connection[asyncpg.Record]

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "seed_coverage.toml"
# How many items each system has, so that one that vanishes from the file is missed.
ITEMS = {"000": 41, "001": 211, "002": 173, "003": 14, "004": 141}
TEST, NOT_HERE, DIFFERS = "test ", "not here: ", "differs: "
# What calls answer; what the database keeps beside it is no proof of behaviour, but no promise of a call either.
PROMISES = ("field ", "rpc ", "setting ", DIFFERS)
SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def coverage() -> Iterator[tuple[str, str, list[str]]]:
    """Yield every item: the table or list that it is of, its words, and what it is here."""

    def walk(path: str, node: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
        for name, value in node.items():
            if isinstance(value, dict):
                yield from walk(f"{path}.{name}" if path else name, value)
            else:
                yield path, name, value

    yield from walk("", tomllib.loads(FILE.read_text("utf-8")))


def contract() -> set[str]:
    """Return every field and RPC of the contract, as the file names them."""
    for module in pkgutil.walk_packages(skein.__path__, "skein."):
        if module.name.endswith("_pb2"):
            importlib.import_module(module.name)
    pool = descriptor_pool.Default()
    results: set[str] = set()
    for path in sorted((ROOT / "protos").rglob("*.proto")):
        file = pool.FindFileByName(str(path.relative_to(ROOT / "protos")))
        service = file.package.split(".")[1]
        for message in file.message_types_by_name.values():
            results |= {f"field {service}.{message.name}.{field.name}" for field in message.fields}
        for of in file.services_by_name.values():
            results |= {f"rpc {service}.{of.name}.{method.name}" for method in of.methods}
    return results


async def tables(catalog: Catalog) -> set[str]:
    """Return every column, constraint and index of the catalog, as the file names them."""
    rows = await catalog.fetch(
        """
        SELECT 'column ' || table_schema || '.' || table_name || '.' || column_name FROM information_schema.columns
        UNION ALL
        SELECT 'constraint ' || n.nspname || '.' || k.conname
        FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace
        UNION ALL
        SELECT 'index ' || schemaname || '.' || indexname FROM pg_indexes
        """
    )
    return {row[0] for row in rows}


@functools.cache
def named_tests(path: str) -> dict[str, bool]:
    """Return the tests of a file by name, and whether each one always runs. `make test` leaves tests/edge out."""
    file = ROOT / path
    is_test = path.startswith("tests/") and not path.startswith("tests/edge/") and file.name.startswith("test_")
    if not (is_test and file.is_file()):
        return {}
    module = ast.parse(file.read_text("utf-8"))
    tests = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    # What stands outside of functions counts for all: a mark or a skip of the whole file.
    around = [node for node in module.body if node not in tests]
    runs = not any(map(_skips, around))
    return {test.name: runs and not _skips(test) for test in tests if test.name.startswith("test_")}


def _skips(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in SKIPS for part in ast.walk(node))


def fault_of(claim: str, known: set[str]) -> str:
    """Return what is wrong with one claim; "" if nothing is."""
    if claim.startswith((NOT_HERE, DIFFERS)):
        reason = claim.split(": ", 1)[1]
        return "" if len(reason.split()) > 1 else "says no reason"
    if not claim.startswith(TEST):
        return "" if claim in known else "names nothing of the contract, the settings or the catalog"
    path, _, name = claim.removeprefix(TEST).partition("::")
    runs = named_tests(path).get(name)
    if runs is None:
        return "names no test"
    return "" if runs else "names a test that may be skipped"


async def test_every_claim_names_a_test_that_runs_or_something_that_is_there(catalog: Catalog) -> None:
    known = contract() | await tables(catalog) | {f"setting {name}" for name in VARIABLES}

    faults = [
        (path, item, claim, fault)
        for path, item, claims in coverage()
        for claim in claims
        if (fault := fault_of(claim, known))
    ]

    assert faults == []


def test_every_item_has_a_test_of_its_behaviour_or_a_reason_why_it_is_not_here() -> None:
    unproven = [
        (path, item)
        for path, item, claims in coverage()
        if not any(claim.startswith(TEST) for claim in claims)
        and (any(claim.startswith(PROMISES) for claim in claims) or not claims[-1:] or NOT_HERE not in claims[-1])
    ]

    assert unproven == []


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        ("test tests/schema/test_seed_coverage.py::test_no_such", "names no test"),
        ("test tests/schema/no_such_file.py::test_no_item_got_lost", "names no test"),
        ("test tests/schema/test_seed_coverage.py::coverage", "names no test"),
        ("field memory.Memory.no_such", "names nothing of the contract, the settings or the catalog"),
        ("not here: because", "says no reason"),
    ],
)
def test_a_claim_that_proves_nothing_is_noticed(claim: str, fault: str) -> None:
    assert fault_of(claim, contract()) == fault


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test_x(): ...",
        "@pytest.mark.skipif(True, reason='x')\nasync def test_x(): ...",
        "def test_x():\n    pytest.skip('x')",
        "pytestmark = pytest.mark.xfail\ndef test_x(): ...",
    ],
)
def test_a_test_that_may_be_skipped_is_noticed(source: str) -> None:
    assert any(map(_skips, ast.parse(source).body))


def test_no_item_got_lost() -> None:
    counts = dict.fromkeys(ITEMS, 0)
    for path, _item, _claims in coverage():
        counts[path.split(".")[0]] += 1

    assert counts == ITEMS


def test_the_guide_says_what_the_claims_say() -> None:
    """`make manifests` writes the guide's tables from the claims."""
    place = importlib.util.spec_from_file_location("migrating", ROOT / "deploy/migrating.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)

    assert module.GUIDE.read_text("utf-8") == module.guide()
