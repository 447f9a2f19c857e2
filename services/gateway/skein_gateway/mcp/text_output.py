"""Tool results as text, for models that read no structured content: short, with all ids for the next step.

A line that begins with the mark of quoted text is stored text. Every other line begins with words of this module or
with names of the contract, and stored text in it is on one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor

from skein.tenancy.v1 import subjects_pb2
from skein_kit import message_rows
from skein_kit.json_values import fields
from skein_kit.text.quoted_text import MARK, one_line, one_line_json, quote

# Most characters of a text result; the structured content is complete.
MAX_CHARACTERS = 100_000
# Most characters of a memory's text in a graph.
_MAX_NODE_CHARACTERS = 500
_INDENT = "   "
# Times and masks; they are texts in JSON.
_WELL_KNOWN = "google.protobuf."


def outline(result: dict[str, Any], kind: Descriptor) -> str:
    """Return the JSON of a message of a kind as an outline of its fields; empty without any.

    A list of values, a map and free JSON are one line of JSON each, because their names and values are stored text.
    """
    return "\n".join(_lines(result, kind, ""))


def subgraph_text(result: dict[str, Any]) -> str:
    """Return the memories around a memory, nearest first, with their texts and the links among them."""
    lines = []
    for node in result.get("nodes", []):
        memory = node.get("memory", {})
        text = str(memory.get("content") or node.get("name", ""))
        text = text if len(text) <= _MAX_NODE_CHARACTERS else text[:_MAX_NODE_CHARACTERS] + "… (get_memory has all)"
        about = one_line(f"{node.get('type', '')} {node.get('memory_id', '')}")
        lines.append(f"{node.get('hop', 0)} away: {about}")
        lines.append(_quoted(memory.get("title", ""), text))
    lines += [
        "- "
        + one_line(f"{link['from_memory_id']} {link.get('relation', '')} {link['to_memory_id']}")
        + f" (link {one_line(link['link_id'])})"
        for link in result.get("links", [])
    ]
    if result.get("truncated"):
        lines.append("There are more memories; raise max_nodes to see them.")
    return "\n".join(lines)


def recall_text(result: dict[str, Any]) -> str:
    """Return the hits, best first, each with kind, id, signals and text."""
    hits = result.get("hits", [])
    lines = [line for number, hit in enumerate(hits, 1) for line in _hit(number, hit)]
    if not hits:
        lines.append("Nothing was found.")
    if "profile" in result:
        lines += ["Profile:", *_lines(result["profile"], subjects_pb2.Subject.DESCRIPTOR, "  ")]
    incomplete = result.get("incomplete", [])
    if incomplete:
        lines.append(
            f"These branches did not respond, so hits may be missing: {', '.join(incomplete)}. Repeat the call."
        )
    conditions = result.get("emptied_by", [])
    if conditions:
        lines.append(f"These conditions excluded everything: {one_line(', '.join(conditions))}.")
    if pending := result.get("pending_embedding_count"):
        lines.append(f"Not embedded yet: {pending}. Only the words of these items are found so far.")
    if purged := result.get("purged_count"):
        lines.append(f"{purged} memories and messages of that time were purged since; they are not shown.")
    if receipt_id := result.get("receipt_id"):
        lines.append(f"Receipt: {one_line(receipt_id)}")
    return "\n".join(lines)


def replay_text(result: dict[str, Any]) -> str:
    """Return whether a replayed answer is the same, what is missing of it, and its hits."""
    verdict = "The search found the same." if result.get("identical") else "The search did not find the same in full."
    return "\n".join([verdict, *_replay_lines(result), recall_text(result.get("response", {}))])


def replayed_context_text(result: dict[str, Any]) -> str:
    """Return whether a text that was made again is the same, what is missing of it, and the text."""
    verdict = "The text is the same byte for byte." if result.get("identical") else "The text is not the same."
    return "\n".join([verdict, *_replay_lines(result), str(result.get("text", ""))])


def _replay_lines(result: dict[str, Any]) -> list[str]:
    lines = [
        "Missing: " + one_line(" ".join([gap.get("reason", ""), gap.get("name", ""), *gap.get("item_ids", [])]))
        for gap in result.get("gaps", [])
    ]
    if differing := result.get("differing_ids"):
        lines.append(f"Not found again as they were: {one_line(', '.join(differing))}.")
    if result.get("query_unverified"):
        lines.append("The text could not be checked: the secret of its digest was destroyed with an erasure.")
    return lines


def made_text(result: dict[str, Any]) -> str:
    """Return a text that a service made for a prompt, in which stored text is quoted already."""
    return str(result.get("text") or "Nothing was found.")


def messages_text(result: dict[str, Any]) -> str:
    """Return messages with time and author, each on a line of its own and marked lines after it."""
    lines = [_message_line(message) for message in result.get("messages", [])]
    if not lines:
        lines.append("There are no messages.")
    if result.get("next_page_token"):
        lines.append(f"More: page_token {one_line(result['next_page_token'])}")
    return "\n".join(lines)


def truncate(text: str) -> str:
    """Return a text cut at MAX_CHARACTERS."""
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "\n(cut off; request less at once)"


def _hit(number: int, hit: dict[str, Any]) -> list[str]:
    parts = {part["signal"]: part.get("value", 0) * part.get("weight", 0) for part in hit.get("components", [])}
    reasons = ", ".join(f"{one_line(signal)} {share:.2f}" for signal, share in parts.items() if share)
    item = hit.get("memory") or hit.get("message") or hit.get("block") or {}
    facts = [one_line(str(item[name])) for name in ("type", "session_id", "create_time") if item.get(name)]
    title = item.get("title") or item.get("label") or (_speaker(item) if "role" in item else "")
    relevance = f"relevance {hit['relevance']:.2f}, " if "relevance" in hit else ""
    score = f"({relevance}score {hit.get('score', 0):.2f}{': ' if reasons else ''}{reasons})"
    header = f"{number}. {hit.get('kind', '')} {one_line(hit.get('item_id', ''))} {score}"
    return [" ".join([header, *facts]), _quoted(title, item.get("content") or item.get("value") or "")]


def _quoted(title: str, text: str) -> str:
    """Return marked lines: a title and a text."""
    title = one_line(title)
    return f"{_INDENT}{MARK}{title}{': ' if title else ''}{quote(text, _INDENT)}"


def _message_line(message: dict[str, Any]) -> str:
    about = f"[{one_line(message.get('message_id', ''))}] {message.get('create_time', '')} {_speaker(message)}"
    return f"{about}: {quote(message.get('content', ''), _INDENT)}"


def _speaker(message: dict[str, Any]) -> str:
    names = ("name", "role", "created_by", "updated_by")
    is_pending = bool(message.get("pending_approval"))
    return message_rows.speaker(*(message.get(name, "") for name in names), is_pending=is_pending)


def _lines(value: dict[str, Any], kind: Any, indent: str) -> Iterator[str]:
    free = fields.json_field_names(kind)
    for name, item in value.items():
        field = kind.fields_by_name[name]
        inner = field.message_type
        if name in free or inner is None or inner.GetOptions().map_entry or inner.full_name.startswith(_WELL_KNOWN):
            yield f"{indent}{name}: {_value(item, indent, is_free=name in free)}"
        elif not field.is_repeated:
            yield f"{indent}{name}:"
            yield from _lines(item, inner, indent + "  ")
        else:
            yield f"{indent}{name}:"
            for one in item:
                lines = list(_lines(one, inner, indent + "    "))
                yield f"{indent}  - {lines[0].lstrip(' ')}" if lines else f"{indent}  -"
                yield from lines[1:]


def _value(value: Any, indent: str, *, is_free: bool) -> str:
    if is_free or isinstance(value, (dict, list)):
        return one_line_json(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quote(str(value), indent + "  ")
