"""MCP Apps (the extension io.modelcontextprotocol/ui): pages that a client shows beside the result of a tool.

A page is one HTML document without any address. Its client runs it in a sandbox and passes on what it calls, which are
tools of this server with the caller's own permissions.
"""

from __future__ import annotations

import functools
from pathlib import Path

import mcp_types as types

EXTENSION = "io.modelcontextprotocol/ui"
APPS = "ui://skein/"
APPROVALS = f"{APPS}approvals"
WHY = f"{APPS}why"
MIME_TYPE = "text/html;profile=mcp-app"
_FILES = Path(__file__).parent / "pages"
_SCRIPT = "/* bridge.js */"
_NAMES = {APPROVALS: "approvals.html", WHY: "why.html"}


@functools.cache
def app_of(uri: str) -> types.TextResourceContents | None:
    """Return the page at a URI; None for an unknown one."""
    name = _NAMES.get(uri)
    if name is None:
        return None
    bridge = (_FILES / "bridge.js").read_text("utf-8")
    text = (_FILES / name).read_text("utf-8").replace(_SCRIPT, bridge)
    # No domain at all: the page loads and sends nothing.
    return types.TextResourceContents(uri=uri, mime_type=MIME_TYPE, text=text, _meta={"ui": {"csp": {}}})
