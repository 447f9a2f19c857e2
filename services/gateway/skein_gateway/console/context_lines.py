"""The lines of a context, each with its tokens and the item that it is from. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skein.gateway.v1 import gateway_pb2
from skein_kit.text.token_estimate import estimate_tokens

# A line begins with its citation; further lines of its text are marked, so that none can imitate one.
_CITED = re.compile(r"(?:- )?\[(\d+)\] (.*)", re.DOTALL)
_HEADING = re.compile(r"#+ ")
_FURTHER = "  | "


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextLine:
    """A heading, or the text of one cited item."""

    text: str
    # Estimated, with all its characters.
    token_count: int
    # None for a heading.
    citation: gateway_pb2.Citation | None


def read_lines(response: gateway_pb2.BuildContextResponse) -> Sequence[ContextLine]:
    """Return the lines of a context's text, in order; empty lines are left out."""
    citations = {citation.number: citation for citation in response.citations}
    groups: list[list[str]] = []
    for line in response.text.split("\n"):
        if line.startswith(_FURTHER) and groups:
            groups[-1].append(line)
        elif line:
            groups.append([line])
    return [_line("\n".join(group), citations) for group in groups]


def _line(text: str, citations: Mapping[int, gateway_pb2.Citation]) -> ContextLine:
    cited = _CITED.fullmatch(text)
    citation = citations.get(int(cited[1])) if cited else None
    if cited is None or citation is None:
        shown = _HEADING.sub("", text, count=1)
    else:
        shown = cited[2].replace(f"\n{_FURTHER}", "\n")
    return ContextLine(text=shown, token_count=estimate_tokens(f"{text}\n"), citation=citation)
