"""Requests for the gateway's fan-out that name a subject for every branch."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from fix_recipe import service
from fix_recipes_blocks import AGENT
from fix_world import MAKERS, World

from skein.gateway.v1 import gateway_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import ledgers_pb2
from skein.tenancy.v1 import subjects_pb2

_gateway = service("skein.gateway.v1.GatewayService", pb)
_ledgers = service("skein.session.v1.SessionInternalService", ledgers_pb2)
_items = service("skein.recall.v1.RecallInternalService", recall_pb2)
_NEEDS = ("memory_id", "message_id", "block_id", "subject_id")


def _recall(things: dict[str, Any], _world: World) -> dict[str, Any]:
    who = {"agent_id": AGENT, "subject_id": things["subject_id"]}
    return {"query": "the red kettle", "filter": {"visible_to": who}}


def _context(things: dict[str, Any], world: World) -> dict[str, Any]:
    return {"recall": pb.RecallRequest(**_recall(things, world)), "session_id": things["session_id"]}


async def _context_receipt(world: World) -> str:
    """The receipt of a context, as soon as the tenant's policy gives one and it is stored."""
    policy = subjects_pb2.Policy(recall_receipts="all", audit_query_text=True)
    mask = {"paths": ["recall_receipts", "audit_query_text"]}
    await world.tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))
    request = pb.BuildContextRequest(recall=pb.RecallRequest(query="the red kettle"))
    while not (response := await world.tenant.gateway.BuildContext(request)).receipt_id:
        await asyncio.sleep(0.05)
    return response.receipt_id


MAKERS["context_receipt_id"] = _context_receipt
_gateway("Recall", *_NEEDS, build=_recall)
_gateway("BuildContext", *_NEEDS, "session_id", build=_context)
_gateway("ReplayContext", "context_receipt_id", build=lambda t, _w: {"receipt_id": t["context_receipt_id"]})
service("skein.session.v1.SessionService", ledgers_pb2)("ListContextLedgers")
_ledgers("GetContextLedger", build=lambda _t, _w: {"ledger_id": "talk"})
_ledgers(
    "PutContextLedger",
    build=lambda _t, _w: {
        "ledger": ledgers_pb2.ContextLedger(ledger_id=uuid.uuid4().hex, revision=1, next_number=1, salt=b"salt")
    },
)
_items(
    "CheckItems",
    "memory_id",
    build=lambda t, _w: {
        "items": [recall_pb2.KnownItem(kind=recall_pb2.ITEM_KIND_MEMORY, item_id=t["memory_id"], revision=0)]
    },
)
