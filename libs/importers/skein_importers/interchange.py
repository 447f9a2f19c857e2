"""Export of a tenant in the Memory Interchange Format (MIF) 2.0, a JSON document that other programs read.

Memories are in MIF's own fields; what MIF has no field for is in the member `skein` of each memory. All other records
are in `vendor_extensions.skein.records`, in the form of `skein export`. `sources/mif.py` reads both back.
"""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import metadata
from typing import IO, Any

from google.protobuf.message import Message

from skein_client.client import Client
from skein_importers.exporter import export_records
from skein_importers.records import Kind, values_of
from skein_kit.json_values import exact

VERSION = "2.0"
# The member with what is Skein's own, of a memory and of `vendor_extensions`.
OWN = "skein"
# Fields of a record that MIF has under another name, or in its member `source`.
RENAMED: Mapping[str, str] = {"type": "memory_type", "create_time": "created_at", "update_time": "updated_at"}
OF_SOURCE: Mapping[str, str] = {"source": "source_type", "session_id": "session_id", "source_agent": "agent_name"}
SAME = frozenset({"content", "tags", "agent_id", "metadata"})
# MIF's ids are UUIDs; other ids get one made of this namespace and the id.
_NAMESPACE = uuid.UUID("6b1f6a53-5f0e-5b7e-9a55-3d6c2f0f8a41")


async def export_mif(api: Client, write: Callable[[str], object], at: datetime) -> Counter[str]:
    """Write the tenant as one document made `at` this time, and return how many records it has of each kind."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as memories,
        tempfile.TemporaryFile("w+", encoding="utf-8") as others,
    ):
        # Ids of the memories to which each memory links.
        related: dict[str, list[str]] = defaultdict(list)

        def put(kind: Kind, item: Message) -> None:
            values = values_of(kind, item)
            if kind is Kind.LINK:
                related[memory_id(values["from"])].append(memory_id(values["to"]))
            file = memories if kind is Kind.MEMORY else others
            file.write(exact.dumps(memory_of(values) if kind is Kind.MEMORY else values) + "\n")

        counts = await export_records(api, put)
        for part in _document(memories, others, related, at):
            write(part)
    return counts


def memory_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory of MIF for a memory's record."""
    name = values["external_id"]
    memory: dict[str, Any] = {"id": memory_id(name), "content": values.get("content", "")}
    if memory["id"] != name:
        memory["external_id"] = name
    memory |= {RENAMED[field]: values[field] for field in RENAMED if field in values}
    memory |= {field: values[field] for field in sorted(SAME & values.keys())}
    if source := {OF_SOURCE[field]: values[field] for field in OF_SOURCE if field in values}:
        memory["source"] = source
    placed = {"record", "external_id", *RENAMED, *OF_SOURCE, *SAME}
    if own := {field: value for field, value in values.items() if field not in placed}:
        memory[OWN] = own
    return memory


def memory_id(external_id: str) -> str:
    """Return the UUID of an external id: itself if it is one."""
    try:
        if str(uuid.UUID(external_id)) == external_id:
            return external_id
    except ValueError:
        pass
    return str(uuid.uuid5(_NAMESPACE, external_id))


def _document(memories: IO[str], others: IO[str], related: Mapping[str, list[str]], at: datetime) -> Iterator[str]:
    head = {
        "mif_version": VERSION,
        "generator": {"name": OWN, "version": metadata.version("skein-importers")},
        "export_meta": {"created_at": at.isoformat().replace("+00:00", "Z")},
    }
    yield exact.dumps(head)[:-1] + ', "memories": ['
    for number, memory in enumerate(_values(memories)):
        if targets := related.get(memory["id"]):
            memory["related_memory_ids"] = list(dict.fromkeys(targets))
        yield ("," if number else "") + "\n" + exact.escape_active(exact.dumps(memory))
    yield f'\n], "vendor_extensions": {{"{OWN}": {{"records": ['
    for number, values in enumerate(_values(others)):
        yield ("," if number else "") + "\n" + exact.escape_active(exact.dumps(values))
    yield "\n]}}}\n"


def _values(file: IO[str]) -> Iterator[dict[str, Any]]:
    file.seek(0)
    return (exact.loads(line) for line in file)
