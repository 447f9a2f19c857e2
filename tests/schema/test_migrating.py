"""Every item of the five source systems has its counterpart here, or a reason why it has none."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_catalogue import over
from fix_settings import VARIABLES
from google.protobuf import descriptor_pool

import skein

if TYPE_CHECKING:
    from collections.abc import Iterator

    Catalog = asyncpg.Connection[asyncpg.Record]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy/migrating.toml"
# How many items each system has, so that one that vanishes from the file is missed.
ITEMS = {"000": 41, "001": 211, "002": 173, "003": 14, "004": 141}
NOT_HERE, DIFFERS = "not here: ", "differs: "


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


def fault_of(claim: str, known: set[str]) -> str:
    """Return what is wrong with one claim; "" if nothing is."""
    if claim.startswith((NOT_HERE, DIFFERS)):
        reason = claim.split(": ", 1)[1]
        return "" if len(reason.split()) > 1 else "says no reason"
    return "" if claim in known else "names nothing of the contract, the settings or the catalog"


async def test_every_claim_names_something_that_is_there(catalog: Catalog) -> None:
    known = contract() | await tables(catalog) | {f"setting {name}" for name in VARIABLES}

    faults = [
        (path, item, claim, fault)
        for path, item, claims in coverage()
        for claim in claims
        if (fault := fault_of(claim, known))
    ]

    assert faults == []


def test_every_item_is_here_or_has_a_reason_why_it_is_not() -> None:
    assert [(path, item) for path, item, claims in coverage() if not claims] == []


@over(
    ("claim", "fault"),
    [
        ("field memory.Memory.no_such", "names nothing of the contract, the settings or the catalog"),
        ("not here: because", "says no reason"),
    ],
)
def test_a_claim_that_proves_nothing_is_noticed(claim: str, fault: str) -> None:
    assert fault_of(claim, contract()) == fault


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
