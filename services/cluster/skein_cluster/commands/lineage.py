"""`skein lineage`: what a memory was made of, as a tree."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich.text import Text
from rich.tree import Tree

from skein.memory.v1 import curation_pb2, memory_pb2
from skein_cluster.api.client import as_tenant
from skein_cluster.cli import options, output
from skein_cluster.cli.output import list_first
from skein_kit.text.quoted_text import one_line

_KINDS: Mapping[int, str] = {
    number: name.removeprefix("SOURCE_KIND_").lower() for name, number in memory_pb2.SourceKind.items() if number
}
_ROLES: Mapping[int, str] = {
    curation_pb2.SOURCE_ROLE_REPEAT: " (same text)",
    curation_pb2.SOURCE_ROLE_REPLACED: " (replaced, does not count)",
}


@click.command("lineage")
@click.argument("memory_id")
@click.option("--impacted", is_flag=True, help="List the memories that derive from this one instead.")
@options.limit_option
@options.cluster_answer
async def lineage_command(memory_id: str, limit: int, environment: dict[str, str], *, impacted: bool) -> options.Answer:
    """Show what a memory was made of, up to the origins, with the trust of each step."""
    if impacted:
        memories = await _impacted(environment, memory_id, limit)
        yield {"memories": memories}
        output.print_table(
            output.table("memory", "trust", "erased source", ids=("memory",), numbers=("trust",)),
            [(one.memory_id, f"{one.trust:.2f}", "yes" if one.has_erased_source else "") for one in memories],
            empty="No memory derives from it.",
        )
        return
    response = await _lineage(environment, memory_id)
    yield response
    output.stdout_console().print(lineage_tree(response))
    if response.truncated:
        output.echo("The chain is longer than this.", err=True)


def lineage_tree(response: curation_pb2.GetLineageResponse) -> Tree:
    """Return the chain of the first memory as a tree. A node with several derived ones is expanded once."""
    sources: dict[int, list[curation_pb2.LineageEdge]] = {}
    for edge in response.edges:
        sources.setdefault(edge.memory_number, []).append(edge)
    tree = Tree(Text(describe(response.nodes[0])))
    expanded, pending = {0}, [(0, tree)]
    while pending:
        number, branch = pending.pop()
        for edge in sources.get(number, ()):
            node = response.nodes[edge.source_number]
            child = branch.add(Text(describe(node) + _ROLES.get(edge.role, "")))
            if edge.source_number not in expanded:
                expanded.add(edge.source_number)
                pending.append((edge.source_number, child))
    return tree


def describe(node: curation_pb2.LineageNode) -> str:
    """Return a node in one line: its kind, its name and its trust."""
    states = {curation_pb2.LINEAGE_STATE_HIDDEN: "hidden", curation_pb2.LINEAGE_STATE_ERASED: "erased"}
    name = states.get(node.state) or " ".join(part for part in (node.id or node.name, node.label) if part)
    return f"{_KINDS[node.kind]} {one_line(name)}, trust {node.trust:.2f}"


async def _lineage(environment: Mapping[str, str], memory_id: str) -> curation_pb2.GetLineageResponse:
    async with as_tenant(environment) as api:
        return await api.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[memory_id]))


async def _impacted(environment: Mapping[str, str], memory_id: str, limit: int) -> list[curation_pb2.ImpactedMemory]:
    async with as_tenant(environment) as api:
        lineage = await api.curation.GetLineage(curation_pb2.GetLineageRequest(memory_ids=[memory_id]))
        source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=lineage.nodes[0].id)
        request = curation_pb2.ListImpactedRequest(source=source, page_size=limit)
        return await list_first(limit, api.curation.ListImpacted, request, "memories")
