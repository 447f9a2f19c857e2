"""Requests for the gateway's fan-out that name a subject for every arm."""

from __future__ import annotations

from typing import Any

from fix_recipe import service
from fix_recipes_blocks import AGENT
from fix_world import World

from skein.gateway.v1 import gateway_pb2 as pb

_gateway = service("skein.gateway.v1.GatewayService", pb)
_NEEDS = ("memory_id", "message_id", "block_id", "subject_id")


def _recall(things: dict[str, Any], _world: World) -> dict[str, Any]:
    who = {"agent_id": AGENT, "subject_id": things["subject_id"]}
    return {"query": "the red kettle", "filter": {"visible_to": who}}


def _context(things: dict[str, Any], world: World) -> dict[str, Any]:
    return {"recall": pb.RecallRequest(**_recall(things, world)), "session_id": things["session_id"]}


_gateway("Recall", *_NEEDS, build=_recall)
_gateway("BuildContext", *_NEEDS, "session_id", build=_context)
