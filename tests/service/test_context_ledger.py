"""Turns of context ledgers: texts that continue earlier ones, on a cluster that remembers."""

from __future__ import annotations

from fix_cluster import Tenant

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2


async def test_what_the_prompt_has_is_not_sent_again(tenant: Tenant) -> None:
    await tenant.gateway.Remember(pb.RememberRequest(memories=[memory_pb2.Memory(content="Anna drinks green tea.")]))
    recall = pb.RecallRequest(query="What does Anna drink?")

    first = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=recall, ledger_id="l"))
    again = await tenant.gateway.BuildContext(
        pb.BuildContextRequest(recall=recall, ledger_id="l", ledger_revision=first.ledger_revision)
    )

    assert first.rebase == pb.REBASE_REASON_REQUESTED
    assert "[1]" in first.text
    assert (again.text, again.rebase, again.ledger_revision) == ("", 0, first.ledger_revision)
