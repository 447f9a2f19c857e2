"""Tool results as text, for models that read no structured content: short, with all ids for the next step."""

from __future__ import annotations

from typing import Any

from skein_kit.text.invisible import show_invisible

# Most characters of a text result; the structured content is complete.
MAX_CHARACTERS = 100_000
# Most characters of a memory's text in a graph.
_MAX_NODE_CHARACTERS = 500


def outline(result: dict[str, Any]) -> str:
    """Return any result as an outline."""
    return "\n".join(_lines(result, "")) or "Done."


def outline_list(result: dict[str, Any]) -> str:
    """Return the result of a read as an outline."""
    return "\n".join(_lines(result, "")) or "Nothing was found."


def pending_text(result: dict[str, Any]) -> str:
    """Return what waits for approval, its invisible characters as their numbers."""
    return show_invisible(outline_list(result))


def forget_text(result: dict[str, Any]) -> str:
    """Return which memories were or would be deleted."""
    return outline(result) if result else "No memory matches."


def subgraph_text(result: dict[str, Any]) -> str:
    """Return the memories around a memory, nearest first, with their texts and the links among them."""
    lines = []
    for node in result.get("nodes", []):
        memory = node.get("memory", {})
        text = str(memory.get("content") or node.get("title", ""))
        text = text if len(text) <= _MAX_NODE_CHARACTERS else text[:_MAX_NODE_CHARACTERS] + "… (get_memory has all)"
        title = f"{memory['title']}: " if memory.get("title") else ""
        lines.append(f"{node.get('hop', 0)} away: {node.get('type', '')} {node.get('memory_id', '')}")
        lines.append("   " + title + text.replace("\n", "\n   "))
    lines += [
        f"{link['from_memory_id']} {link.get('relation', '')} {link['to_memory_id']} (link {link['link_id']})"
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
        lines += ["Profile:", *_lines(result["profile"], "  ")]
    incomplete = result.get("incomplete", [])
    if incomplete:
        lines.append(f"These arms did not respond, so hits may be missing: {', '.join(incomplete)}. Repeat the call.")
    conditions = result.get("emptied_by", [])
    if conditions:
        lines.append(f"These conditions excluded everything: {', '.join(conditions)}.")
    if pending := result.get("pending_embedding_count"):
        lines.append(f"Not embedded yet: {pending}. Only the words of these items are found so far.")
    if purged := result.get("purged_count"):
        lines.append(f"{purged} memories and messages of that time were purged since; they are not shown.")
    if receipt_id := result.get("receipt_id"):
        lines.append(f"Receipt: {receipt_id}")
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
        f"Missing: {' '.join([gap.get('reason', ''), gap.get('name', ''), *gap.get('item_ids', [])])}"
        for gap in result.get("gaps", [])
    ]
    if differing := result.get("differing_ids"):
        lines.append(f"Not found again as they were: {', '.join(differing)}.")
    if result.get("query_unverified"):
        lines.append("The text could not be checked: the secret of its digest was destroyed with an erasure.")
    return lines


def context_text(result: dict[str, Any]) -> str:
    """Return the text of a context."""
    return str(result.get("text") or "Nothing was found.")


def messages_text(result: dict[str, Any]) -> str:
    """Return messages, one line each, with time and author."""
    lines = [_message_line(message) for message in result.get("messages", [])]
    if not lines:
        lines.append("There are no messages.")
    if result.get("next_page_token"):
        lines.append(f"More: page_token {result['next_page_token']}")
    return "\n".join(lines)


def truncate(text: str) -> str:
    """Return a text cut at MAX_CHARACTERS."""
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "\n(cut off; request less at once)"


def _hit(number: int, hit: dict[str, Any]) -> list[str]:
    kind = str(hit.get("kind", ""))
    parts = {part["signal"]: part.get("value", 0) * part.get("weight", 0) for part in hit.get("components", [])}
    reasons = ", ".join(f"{signal} {share:.2f}" for signal, share in parts.items() if share)
    item = hit.get("memory") or hit.get("message") or hit.get("block") or {}
    facts = [str(item[name]) for name in ("type", "session_id", "create_time") if item.get(name)]
    text = item.get("content") or item.get("value") or ""
    title = item.get("title") or item.get("label") or (_role(item) if "role" in item else "")
    header = (
        f"{number}. {kind} {hit.get('item_id', '')} (score {hit.get('score', 0):.2f}{': ' if reasons else ''}{reasons})"
    )
    return [" ".join([header, *facts]), "   " + (f"{title}: " if title else "") + str(text).replace("\n", "\n   ")]


def _message_line(message: dict[str, Any]) -> str:
    about = f"[{message.get('message_id', '')}] {message.get('create_time', '')}"
    return f"{about} {_role(message)}: {message.get('content', '')}"


def _role(message: dict[str, Any]) -> str:
    return str(message.get("name") or message.get("role", ""))


def _lines(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict):
        lines: list[str] = []
        for name, item in value.items():
            if isinstance(item, (dict, list)) and item:
                lines += [f"{indent}{name}:", *_lines(item, indent + "  ")]
            else:
                lines.append(f"{indent}{name}: {_scalar(item, indent)}")
        return lines
    if isinstance(value, list):
        lines = []
        for item in value:
            item_lines = _lines(item, indent + "  ")
            lines += [f"{indent}- {item_lines[0].strip()}", *item_lines[1:]] if item_lines else [f"{indent}-"]
        return lines
    return [f"{indent}{_scalar(value, indent)}"]


def _scalar(value: Any, indent: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace("\n", f"\n{indent}  ")
