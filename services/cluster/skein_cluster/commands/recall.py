"""`skein recall`: ask the tenant's memory, and see why each hit came back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein_cluster import console, options
from skein_cluster.calling import as_tenant
from skein_cluster.hits import components_of, kind_of, profile_of, text_of, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_ARMS = {
    "memories": gateway_pb2.ARM_MEMORIES,
    "messages": gateway_pb2.ARM_MESSAGES,
    "blocks": gateway_pb2.ARM_BLOCKS,
    "profile": gateway_pb2.ARM_PROFILE,
}


def seen_by(command: Decorated) -> Decorated:
    """Add --agent and --subject; the command gets `agent` and `subject`, empty for nobody."""
    command = click.option("--subject", default="", help="Only what is seen with this person, and the profile.")(
        command
    )
    return click.option("--agent", default="", help="Only what this agent sees, and its blocks.")(command)


def context_of(agent: str, subject: str) -> memory_pb2.MemoryFilter | None:
    """Return the condition that something is seen by an agent with a person; None for nobody."""
    if not agent and not subject:
        return None
    return memory_pb2.MemoryFilter(visible_to=memory_pb2.ScopeContext(agent_id=agent, subject_id=subject))


def show_incomplete(arms: Iterable[gateway_pb2.Arm]) -> None:
    """Say on stderr which arms are missing, if any are."""
    names = ", ".join(gateway_pb2.Arm.Name(arm).removeprefix("ARM_").lower() for arm in arms)
    if names:
        console.err().print(Text(f"Incomplete: {names} did not answer."))


@click.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many hits.")
@click.option("--arm", "arms", type=click.Choice(list(_ARMS)), multiple=True, help="Search only this (repeatable).")
@seen_by
@options.caller
@options.as_json
def recall_command(
    text: str,
    limit: int,
    arms: tuple[str, ...],
    agent: str,
    subject: str,
    environment: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Recall what the tenant knows about TEXT, best first, with the components of each score."""
    request = gateway_pb2.RecallRequest(
        query=text, limit=limit, arms=[_ARMS[arm] for arm in arms], filter=context_of(agent, subject)
    )
    answer = asyncio.run(_recall(environment, request))
    if as_json:
        console.print_json(console.as_json(answer))
        return
    lines = [
        (f"{hit.score:.3f}", components_of(hit), kind_of(hit), console.when(time_of(hit)), text_of(hit))
        for hit in answer.hits
    ]
    if answer.HasField("profile"):
        console.out().print(Text(profile_of(answer.profile)))
    console.rows(
        console.table("score", "components", "kind", "when", "text", numbers=("score",)),
        lines,
        empty="No hits." if answer.HasField("profile") else "Nothing was found.",
    )
    show_incomplete(answer.incomplete)


async def _recall(environment: Mapping[str, str], request: gateway_pb2.RecallRequest) -> gateway_pb2.RecallResponse:
    async with as_tenant(environment) as api:
        return await api.gateway.Recall(request)
