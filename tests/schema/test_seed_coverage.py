"""Whoever comes from one of the five systems finds every item of it here, or is told why not."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_settings import VARIABLES
from google.protobuf import descriptor_pool

import skein

if TYPE_CHECKING:
    from collections.abc import Iterator

    Catalog = asyncpg.Connection[asyncpg.Record]

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "seed_coverage.toml"
GUIDE = ROOT / "deploy" / "migrating.md"
# How many items each system has, so that one that vanishes from the file is missed.
ITEMS = {"000": 41, "001": 211, "002": 173, "003": 14, "004": 141}
NOT_HERE = "not here: "


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
    found: set[str] = set()
    for path in sorted((ROOT / "protos").rglob("*.proto")):
        file = pool.FindFileByName(str(path.relative_to(ROOT / "protos")))
        service = file.package.split(".")[1]
        for message in file.message_types_by_name.values():
            found |= {f"field {service}.{message.name}.{field.name}" for field in message.fields}
        for of in file.services_by_name.values():
            found |= {f"rpc {service}.{of.name}.{method.name}" for method in of.methods}
    return found


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


async def test_every_item_of_the_five_systems_is_here_or_has_a_reason_why_not(catalog: Catalog) -> None:
    known = contract() | await tables(catalog) | {f"setting {name}" for name in VARIABLES}

    unknown = [
        (path, item, target)
        for path, item, targets in coverage()
        for target in targets or [""]
        if target not in known and not (target.startswith(NOT_HERE) and len(target) > len(NOT_HERE) + 20)
    ]
    assert unknown == []


def test_no_item_got_lost() -> None:
    counts = dict.fromkeys(ITEMS, 0)
    for path, _item, _targets in coverage():
        counts[path.split(".")[0]] += 1

    assert counts == ITEMS


def test_the_guide_names_every_verb_of_the_five_systems_and_what_does_it_here() -> None:
    lines = GUIDE.read_text("utf-8").splitlines()
    rows = {tuple(cell.strip() for cell in line.strip("|").split("|")[:2]) for line in lines if line.startswith("|")}

    missing = []
    for path, item, targets in coverage():
        if not path.endswith(".verbs"):
            continue
        there = next((here for words, here in rows if words == item), None)
        names = [target.split(".")[-1] for target in targets if target.startswith("rpc ")]
        if there is None or any(f"`{name}`" not in there for name in names):
            missing.append(item)
    assert missing == []
