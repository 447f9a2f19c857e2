"""Random histories of grants, writes, deletions and reads in spaces, against a model of them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_space_model import DEFAULT, Model
from fix_spaces import SPACE_KEY, grant, new_key, new_space
from fix_world import identity
from grpc import aio
from grpc_status import rpc_status

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import spaces_pb2
from skein_kit.errors import status_reason

AGENT = "helper"


class History:
    """One tenant, its model, and calls of services with identities that are always new."""

    def __init__(
        self,
        cluster: Cluster,
        tenant: Tenant,
        memory: aio.Channel,
        session: aio.Channel,
        keys: dict[str, str],
        spaces: list[str],
    ) -> None:
        self.cluster, self.tenant, self.memory, self.session, self.keys = cluster, tenant, memory, session, keys
        self.spaces = spaces

    async def stubs(self, principal: str, space_id: str = "") -> tuple[Stubs, Stubs]:
        """Return stubs of the memory service and of the session service."""
        token = await identity(self.cluster, self.keys[principal])
        named = {SPACE_KEY: space_id} if space_id else {}
        return Stubs.of(self.memory, token, **named), Stubs.of(self.session, token, **named)


async def refusal(call: Any) -> str:
    """Return the reason of a refused call; empty for one that succeeds."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
        return status_reason(status) if status else str(error.code())
    return ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "steps"), [(1, 50), pytest.param(2, 200, marks=pytest.mark.system)])
async def test_a_random_history_shows_each_caller_what_the_model_shows(
    cluster: Cluster, tenant: Tenant, seed: int, steps: int
) -> None:
    choose = random.Random(seed)
    spaces = [await new_space(tenant, f"space {number}") for number in range(3)]
    keys = dict([await new_key(cluster, tenant, [spaces[0]], bind=number == 0) for number in range(3)])
    principals = list(keys)
    model = Model(bound={principals[0]}, roles={(principal, spaces[0]): "writer" for principal in principals})

    async with (
        cluster.direct("memory", caller="gateway") as memory,
        cluster.direct("session", caller="gateway") as session,
    ):
        history = History(cluster, tenant, memory, session, keys, spaces)
        for step in _steps(choose, steps):
            principal, space_id = choose.choice(principals), choose.choice([*spaces, DEFAULT])
            await _run(step, history, model, choose, principal, space_id)
            reader = choose.choice(principals)
            listed = await _list(*await history.stubs(reader))
            assert listed == model.visible_items(reader)


def _steps(choose: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        yield choose.choices(["create", "append", "block", "grant", "revoke", "delete", "move"], [3, 3, 3, 2, 2, 2, 3])[
            0
        ]


async def _list(memory: Stubs, session: Stubs) -> tuple[set[str], ...]:
    memories = (await memory.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1000))).memories
    request = session_pb2.ListAgentMessagesRequest(agent_id=AGENT, page_size=1000)
    messages = (await session.sessions.ListAgentMessages(request)).messages
    blocks = (await memory.blocks.ListBlocks(blocks_pb2.ListBlocksRequest(page_size=1000))).blocks
    return (
        {one.memory_id for one in memories},
        {one.content for one in messages},
        {one.value for one in blocks},
    )


async def _run(step: str, history: History, model: Model, choose: random.Random, principal: str, space_id: str) -> None:
    if step in {"append", "block"}:
        await _write_named(step, history, model, choose, principal, space_id)
        return
    memory, expected = (await history.stubs(principal, space_id))[0].memory, model.write_error(principal, space_id)
    if step == "create":
        request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=uuid.uuid4().hex))
        if expected:
            assert await refusal(memory.CreateMemory(request)) == expected
        else:
            model.memories[(await memory.CreateMemory(request)).memory.memory_id] = space_id
    elif step == "delete" and model.memories:
        memory_id = choose.choice(list(model.memories))
        expected = model.act_error(principal, space_id, memory_id)
        deletion = memory_pb2.DeleteMemoryRequest(memory_id=memory_id)
        assert await refusal(memory.DeleteMemory(deletion)) == expected
        if not expected:
            del model.memories[memory_id]
    elif step == "move" and model.memories:
        memory_id, target_id = choose.choice(list(model.memories)), choose.choice([*history.spaces, DEFAULT])
        expected = model.move_error(principal, space_id, target_id, memory_id)
        move = memory_pb2.MoveMemoriesRequest(memory_ids=[memory_id], space_id=target_id)
        assert await refusal(memory.MoveMemories(move)) == expected
        if not expected:
            model.memories[memory_id] = target_id
    elif step == "grant" and space_id != DEFAULT:
        role = choose.choice(["reader", "writer", "manager"])
        await grant(history.tenant, space_id, principal, role)
        model.grant(principal, space_id, role)
    elif step == "revoke" and space_id != DEFAULT:
        revocation = spaces_pb2.RevokeSpaceGrantRequest(space_id=space_id, principal=principal)
        expected = "" if model.revoke(principal, space_id) else "SPACE_GRANT_NOT_FOUND"
        assert await refusal(history.tenant.tenancy.RevokeSpaceGrant(revocation)) == expected


async def _write_named(
    step: str, history: History, model: Model, choose: random.Random, principal: str, space_id: str
) -> None:
    """Write what has one of few names, which several spaces have."""
    memory, session = await history.stubs(principal, space_id)
    name, text, expected = choose.choice("abc"), uuid.uuid4().hex, model.write_error(principal, space_id)
    if step == "append":
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=text, agent_id=AGENT)
        append = session_pb2.AppendMessagesRequest(session_id=name, messages=[message], create_session=True)
        assert await refusal(session.sessions.AppendMessages(append)) == expected
        if not expected:
            model.messages[text] = space_id
        return
    block = blocks_pb2.Block(block_id=name, label=name, value=text)
    expected = expected or ("BLOCK_EXISTS" if (space_id, name) in model.block_ids else "")
    assert await refusal(memory.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))) == expected
    if not expected:
        model.blocks[text] = space_id
        model.block_ids.add((space_id, name))
