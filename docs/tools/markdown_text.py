"""Texts of the code as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Names that read better as code: SKEIN_POOL_SIZE, request_id, skein-tenant-id.
_IDENTIFIER = re.compile(r"(?<![`\w/.-])(?:[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|skein(?:-[a-z]+)+)(?![\w`])")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows),
    ]


def code(text: str) -> str:
    """Return text as code, nothing as nothing."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return a text as one line of Markdown: identifiers as code, nothing of it HTML."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else escaped(piece) for piece in pieces)


def escaped(text: str) -> str:
    """Return text whose special characters stand for themselves."""
    text = re.sub(r"([*\[\]])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return _IDENTIFIER.sub(lambda found: f"`{found.group()}`", text)


def paragraphs(text: str) -> str:
    """Return a comment of several paragraphs and lists as Markdown."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines: list[str] = []
        for line in block.splitlines():
            if line.startswith("- ") or not lines:
                lines.append(line)
            else:
                lines[-1] += f" {line.strip()}"
        for line in lines:
            is_item = line.startswith("- ")
            shown = f"- {prose(line[2:])}" if is_item else prose(line)
            if is_item and blocks and blocks[-1].rpartition("\n")[2].startswith("- "):
                blocks[-1] += f"\n{shown}"
            else:
                blocks.append(shown)
    return "\n\n".join(blocks)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as Markdown readers make it."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-")


def squeezed(lines: Sequence[str]) -> list[str]:
    """Return the lines without empty ones after one another."""
    return [line for number, line in enumerate(lines) if line or not number or lines[number - 1]]


def rpc_anchor(service: str, method: str) -> str:
    """Return the anchor of an RPC on the page of its package."""
    return anchor(f"{service.rpartition('.')[2]}/{method}")


def rpc_link(rpc: str, folder: str) -> str:
    """Return a link to an RPC such as memory.v1.MemoryService/GetMemory."""
    service, _, method = rpc.partition("/")
    return f"[{method}]({folder}{service.split('.')[0]}.md#{rpc_anchor(service, method)})"
