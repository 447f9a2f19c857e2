"""What the demo learns: a conversation goes in, facts with the words that say them come out, a correction ends one."""

from __future__ import annotations

import asyncio
import json

from google.protobuf.field_mask_pb2 import FieldMask
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client.client import Client
from skein_cluster.cli import output
from skein_cluster.commands.policy import EFFECT_SECONDS

CONVERSATION = (
    "Hi! I'm allergic to peanuts, and I live in Porto. My birthday is on 3 May.",
    "No, I meant I live in Lisbon.",
)
# What the conversation says: three facts, and the correction of one.
FACTS = 4
_POLL_SECONDS = 0.1
_LIMIT_SECONDS = 30.0


async def show_learning(api: Client, out: Console) -> None:
    """Append a conversation, wait for its facts, and print them. Raises TimeoutError."""
    out.print(Rule("Facts out of a conversation", align="left"))
    policy = subjects_pb2.Policy(extraction="rules", extraction_messages=1)
    await api.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=policy, update_mask=FieldMask(paths=["extraction", "extraction_messages"])
        )
    )
    await asyncio.sleep(EFFECT_SECONDS)
    said = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text) for text in CONVERSATION]
    response = await api.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="demo-facts", subject_id="mira", messages=said, create_session=True
        )
    )
    texts = {message.message_id: message.content for message in response.messages}
    for message in response.messages:
        out.print(Text(f"mira: {message.content}"))
    facts = await _wait_for_facts(api)
    lineage = await api.curation.GetLineage(
        curation_pb2.GetLineageRequest(memory_ids=[fact.memory_id for fact in facts])
    )
    by_id = {fact.memory_id: fact for fact in facts}
    order = list(texts)
    quotes = sorted(
        (order.index(source.id), edge.start_character, edge.end_character, lineage.nodes[edge.memory_number].id)
        for edge in lineage.edges
        if (source := lineage.nodes[edge.source_number]).id in texts
    )
    lines = [
        (
            # A superseded fact has no key any more.
            json.loads(by_id[memory_id].metadata_json)["extracted"]["predicate"],
            f"“{texts[order[number]][start:end]}”",
            "superseded" if by_id[memory_id].HasField("valid_to_time") else "current",
        )
        for number, start, end, memory_id in quotes
    ]
    output.print_table(output.table("fact", "quote", "state"), lines, empty="No fact was found.")


async def _wait_for_facts(api: Client) -> list[memory_pb2.Memory]:
    """Return the facts of the conversation once the worker has found them, oldest first."""
    request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(subject_id="mira"))
    async with asyncio.timeout(_LIMIT_SECONDS):
        while len(facts := (await api.memories.ListMemories(request)).memories) < FACTS:  # noqa: ASYNC110 - no event marks them.
            await asyncio.sleep(_POLL_SECONDS)
    return list(reversed(facts))
