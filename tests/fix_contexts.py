"""Contexts of a household that keeps changing, for tests and attempts to break their replay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from fix_cluster import Stubs, Tenant
from fix_receipts import TOPICS, remember

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

AGENT, PERSON, SESSION = "butler", "anna-7", "kitchen"
_ROLES = (session_pb2.MESSAGE_ROLE_USER, session_pb2.MESSAGE_ROLE_ASSISTANT)
# A concurrent writer was first.
_LATE = {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED}


async def build(tenant: Stubs, request: pb.BuildContextRequest) -> pb.BuildContextResponse:
    return await tenant.gateway.BuildContext(request)


async def build_with_receipt(tenant: Stubs, request: pb.BuildContextRequest) -> pb.BuildContextResponse:
    """Build a context until the policy, which holds within a second, gives it a receipt."""
    while not (response := await build(tenant, request)).receipt_id:
        await asyncio.sleep(0.05)
    return response


async def replay_context(tenant: Stubs, receipt_id: str, **fields: Any) -> pb.ReplayContextResponse:
    return await tenant.gateway.ReplayContext(pb.ReplayContextRequest(receipt_id=receipt_id, **fields))


def is_same(response: pb.BuildContextResponse, replayed: pb.ReplayContextResponse) -> bool:
    """Return whether a replay has the text and the citations of a context, and says so."""
    return (
        replayed.identical
        and (response.text, response.token_count, response.omitted_count)
        == (replayed.text, replayed.token_count, replayed.omitted_count)
        and list(response.citations) == list(replayed.citations)
    )


def context_request(query: str, **fields: Any) -> pb.BuildContextRequest:
    """Return a request for a context of every branch."""
    recall = pb.RecallRequest(
        query=query, min_relevance=0, filter={"visible_to": {"agent_id": AGENT, "subject_id": PERSON}}
    )
    return pb.BuildContextRequest(recall=recall, session_id=SESSION, **fields)


def random_request(chosen: random.Random) -> pb.BuildContextRequest:
    """Return a request with random branches and options."""
    request = context_request(
        f"the {chosen.choice(TOPICS)} of the {chosen.choice(TOPICS)}",
        token_budget=chosen.choice([0, 120, 400, 5000]),
        format=chosen.choice([pb.CONTEXT_FORMAT_MARKDOWN, pb.CONTEXT_FORMAT_TEXT]),
        order=chosen.choice([pb.CONTEXT_ORDER_OLDEST_FIRST, pb.CONTEXT_ORDER_NEWEST_FIRST]),
    )
    request.recall.limit = chosen.choice([0, 3, 60])
    request.recall.mode = chosen.choice(
        [recall_pb2.SEARCH_MODE_HYBRID, recall_pb2.SEARCH_MODE_KEYWORD, recall_pb2.SEARCH_MODE_SEMANTIC]
    )
    if chosen.random() < 0.3:
        request.session_id = ""
    if chosen.random() < 0.3:
        request.recall.ClearField("filter")
    return request


@dataclass(kw_only=True)
class Household:
    """Everything that contexts are made of."""

    tenant: Tenant
    memory_ids: list[str] = field(default_factory=list)
    block_ids: list[str] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)

    @classmethod
    async def fill(cls, tenant: Tenant, chosen: random.Random, *, memories: int) -> Household:
        household = cls(tenant=tenant)
        subject = subjects_pb2.Subject(subject_id=PERSON, display_name="Anna Berg", timezone="Europe/Rome")
        await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        for label in ("persona", "human", "pantry"):
            block = blocks_pb2.Block(block_id=f"{label}-block", label=label, value=text_of(chosen))
            await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id=AGENT))
            household.block_ids.append(block.block_id)
        await household.append(chosen, count=12)
        for _ in range(memories):
            await household.remember(chosen)
        return household

    async def remember(self, chosen: random.Random) -> None:
        self.memory_ids.append(await remember(self.tenant, text_of(chosen)))

    async def append(self, chosen: random.Random, *, count: int = 1) -> None:
        messages = [session_pb2.Message(role=chosen.choice(_ROLES), content=text_of(chosen)) for _ in range(count)]
        response = await self.tenant.gateway.Remember(pb.RememberRequest(session_id=SESSION, messages=messages))
        self.message_ids += [message.message_id for message in response.messages]

    async def change_block(self, chosen: random.Random) -> None:
        block = blocks_pb2.Block(block_id=chosen.choice(self.block_ids), value=text_of(chosen))
        await self.tenant.blocks.UpdateBlock(
            blocks_pb2.UpdateBlockRequest(block=block, update_mask={"paths": ["value"]})
        )

    async def change_profile(self, chosen: random.Random) -> None:
        subject = subjects_pb2.Subject(subject_id=PERSON)
        subject.profile.update({"wants": text_of(chosen), "visits": chosen.randrange(100)})
        await self.tenant.tenancy.UpdateSubject(
            subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask={"paths": ["profile"]})
        )

    async def change_message(self, chosen: random.Random) -> None:
        message = session_pb2.Message(message_id=chosen.choice(self.message_ids), content=text_of(chosen))
        await self.tenant.sessions.UpdateMessage(
            session_pb2.UpdateMessageRequest(message=message, update_mask={"paths": ["content"]})
        )

    async def delete_message(self, chosen: random.Random) -> None:
        message_id = chosen.choice(self.message_ids)
        await self.tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message_id))

    async def change_memory(self, chosen: random.Random) -> None:
        memory = memory_pb2.Memory(memory_id=chosen.choice(self.memory_ids), content=text_of(chosen))
        await self.tenant.memory.UpdateMemory(
            memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["content"]})
        )

    async def delete_memory(self, chosen: random.Random) -> None:
        memory_id = chosen.choice(self.memory_ids)
        await self.tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    async def write(self, chosen: random.Random) -> None:
        """Do one random write; one for which a concurrent writer was first does nothing."""
        (action,) = chosen.choices(
            (
                self.remember, self.append, self.change_block, self.change_profile, self.change_message,
                self.delete_message, self.change_memory, self.delete_memory,
            ),
            weights=(5, 4, 4, 3, 3, 1, 4, 1),
        )  # fmt: skip
        try:
            await action(chosen)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _LATE:
                raise

    async def write_until(self, stop: asyncio.Event, seed: int) -> int:
        """Write until the event; return the number of writes."""
        chosen, count = random.Random(seed), 0
        while not stop.is_set():
            await self.write(chosen)
            count += 1
        return count


def text_of(chosen: random.Random) -> str:
    """Return a random text, sometimes longer than a line of a small context."""
    sentences = [
        f"The {chosen.choice(TOPICS)} and the {chosen.choice(TOPICS)} of {chosen.randrange(1000)} belong together."
        for _ in range(chosen.choice([1, 1, 1, 2, 8]))
    ]
    return " ".join(sentences)


async def replay_failures(
    tenant: Stubs, responses: Sequence[pb.BuildContextResponse], requests: Sequence[pb.BuildContextRequest]
) -> list[str]:
    """Replay contexts; return the receipts of those that were not the same."""
    failures = []
    for response, request in zip(responses, requests, strict=True):
        replayed = await replay_context(tenant, response.receipt_id)
        if not is_same(response, replayed):
            failures.append(
                f"{response.receipt_id} of {request.recall.query}: {replayed.gaps} {replayed.differing_ids}"
            )
    return failures
