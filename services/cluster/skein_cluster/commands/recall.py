"""`skein recall`: ask the tenant's memory, and see why each hit came back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
from rich.text import Text

from skein.gateway.v1 import gateway_pb2
from skein_cluster import console, options
from skein_cluster.calling import as_tenant
from skein_cluster.hits import components_of, kind_of, text_of, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARMS = {"memories": gateway_pb2.ARM_MEMORIES, "messages": gateway_pb2.ARM_MESSAGES}


@click.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many hits.")
@click.option("--arm", "arms", type=click.Choice(list(_ARMS)), multiple=True, help="Search only this (repeatable).")
@options.caller
@options.as_json
def recall_command(text: str, limit: int, arms: tuple[str, ...], environment: dict[str, str], *, as_json: bool) -> None:
    """Recall what the tenant knows about TEXT, best first, with the components of each score."""
    request = gateway_pb2.RecallRequest(query=text, limit=limit, arms=[_ARMS[arm] for arm in arms])
    answer = asyncio.run(_recall(environment, request))
    if as_json:
        console.print_json(console.as_json(answer))
        return
    lines = [
        (f"{hit.score:.3f}", components_of(hit), kind_of(hit), console.when(time_of(hit)), text_of(hit))
        for hit in answer.hits
    ]
    console.rows(
        console.table("score", "components", "kind", "when", "text", numbers=("score",)),
        lines,
        empty="Nothing was found.",
    )
    if answer.incomplete:
        names = ", ".join(gateway_pb2.Arm.Name(arm).removeprefix("ARM_").lower() for arm in answer.incomplete)
        console.err().print(Text(f"Incomplete: {names} did not answer in time."))


async def _recall(environment: Mapping[str, str], request: gateway_pb2.RecallRequest) -> gateway_pb2.RecallResponse:
    async with as_tenant(environment) as api:
        return await api.gateway.Recall(request)
