"""Write the tables of deploy/migrating.md from the claims in deploy/migrating.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COVERAGE = ROOT / "deploy/migrating.toml"
GUIDE = ROOT / "deploy/migrating.md"
# What follows this line is written, not edited.
MARK = "<!-- Written by `make manifests` from deploy/migrating.toml: what follows is not edited here. -->"
SYSTEMS = {
    "000": "Duyetbot memory",
    "001": "MemoryVault",
    "002": "AgentMem, MIRIX, Letta",
    "003": "Long-term memory with a vector index",
    "004": "Memory Orchestrator",
}
NOTES = ("differs: ", "not here: ")


def guide() -> str:
    """Return the whole guide: its text as it is, and its tables as the claims give them."""
    text = GUIDE.read_text("utf-8").split(MARK, 1)[0]
    claims = tomllib.loads(COVERAGE.read_text("utf-8"))
    return text + MARK + "\n" + "".join(_system(number, title, claims[number]) for number, title in SYSTEMS.items())


def _system(number: str, title: str, groups: dict[str, Any]) -> str:
    verbs = [(item, "; ".join(map(_in_words, entries))) for item, entries in groups["verbs"].items()]
    tables = [(f"`{name}`", _messages(items)) for name, items in groups.items() if _is_table(items)]
    notes = [
        (f"`{path}`" if _is_table(items) else path, item, entry.split(": ", 1)[1])
        for path, items in _groups(groups)
        for item, entries in items.items()
        for entry in entries
        if path != "verbs" and entry.startswith(NOTES)
    ]
    return "\n" + "\n\n".join(
        (
            f"## {number} {title}",
            _table(("what they have", "what does it here"), verbs),
            _table(("their table", "messages here"), tables),
            _table(("where", "their item", "what is different here"), notes),
        )
    ) + "\n"  # fmt: skip


def _groups(groups: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, list[str]]]]:
    """Return every list of items with its name; what lies deeper has its group's name before it."""
    found: list[tuple[str, dict[str, list[str]]]] = []
    for name, items in groups.items():
        if all(isinstance(entries, list) for entries in items.values()):
            found.append((f"{path}{name}", items))
        else:
            found += _groups(items, f"{path}{name} ")
    return found


def _is_table(items: dict[str, Any]) -> bool:
    return any(item.startswith("column ") for item in items)


def _messages(items: dict[str, list[str]]) -> str:
    names = {entry.split(".")[-2] for entries in items.values() for entry in entries if entry.startswith("field ")}
    return ", ".join(f"`{name}`" for name in sorted(names)) or "kept by the service alone"


def _in_words(entry: str) -> str:
    """Return an entry in the guide's words."""
    kind, _, name = entry.partition(" ")
    match kind:
        case "rpc":
            _package, service, method = name.split(".")
            return f"{service} `{method}`"
        case "field":
            return f"`{name.split('.', 1)[1]}`"
        case "setting":
            return f"`{name}`"
        case "differs:" | "not":
            return entry.split(": ", 1)[1]
        case _:
            return f"{kind} `{name}`"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows))


if __name__ == "__main__":
    GUIDE.write_text(guide(), "utf-8")
