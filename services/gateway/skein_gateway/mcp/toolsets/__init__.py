"""All tools by toolset. A client selects toolsets by name, else it gets the core one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from skein_gateway.mcp.tool import Tool, by_name
from skein_gateway.mcp.toolsets import (
    blocks,
    curation,
    graph,
    history,
    memories,
    sessions,
    standard,
    tasks,
    tenant,
)

CORE = "core"
ALL = "all"
TOOLSETS: Mapping[str, Sequence[Tool]] = MappingProxyType(
    {
        CORE: standard.CORE_TOOLS,
        "standard": standard.TOOLS,
        "memories": memories.TOOLS,
        "graph": graph.TOOLS,
        "curation": curation.TOOLS,
        "history": history.TOOLS,
        "blocks": blocks.TOOLS,
        "sessions": sessions.TOOLS,
        "tasks": tasks.TOOLS,
        "tenant": tenant.TOOLS,
    }
)
TOOLS = by_name([tool for tools in TOOLSETS.values() for tool in tools])
SET_OF: Mapping[str, str] = {tool.name: name for name, tools in TOOLSETS.items() for tool in tools}


class ToolsetUnknown(ValueError):
    """The toolset does not exist."""


def parse_toolsets(values: Sequence[str]) -> frozenset[str]:
    """Parse names of toolsets, separated by commas; "all" selects all. Raises ToolsetUnknown."""
    names = [name.strip() for text in values for name in text.split(",") if name.strip()]
    if not names:
        return frozenset({CORE})
    if ALL in names:
        return frozenset(TOOLSETS)
    unknown = [name for name in names if name not in TOOLSETS]
    if unknown:
        message = f"There is no toolset {unknown[0][:50]!r}; there are {', '.join(TOOLSETS)} and {ALL}."
        raise ToolsetUnknown(message)
    return frozenset(names)


def tools_of(toolsets: Collection[str]) -> list[Tool]:
    """Return the tools of some toolsets in a fixed order."""
    return [tool for name, tools in TOOLSETS.items() if name in toolsets for tool in tools]
