"""Answers as text for models that read no structured content: short, and with every id that a next step needs."""

from __future__ import annotations

from typing import Any

# As much as a model can take in at once; the structured content is whole.
MAX_CHARACTERS = 100_000
# As much as tells what a memory is about.
_GLANCE = 500


def outlined(answer: dict[str, Any]) -> str:
    """Return any answer as an outline."""
    return "\n".join(_lines(answer, "")) or "Done."


def listed(answer: dict[str, Any]) -> str:
    """Return what was read as an outline."""
    return "\n".join(_lines(answer, "")) or "There is nothing."


def forgotten(answer: dict[str, Any]) -> str:
    """Return which memories are meant, in a try or for good."""
    return outlined(answer) if answer else "No memory is meant by this."


def surrounding(answer: dict[str, Any]) -> str:
    """Return what lies around a memory, nearest first, with what each says, and how they are linked."""
    lines = []
    for node in answer.get("nodes", []):
        memory = node.get("memory", {})
        said = str(memory.get("content") or node.get("title", ""))
        said = said if len(said) <= _GLANCE else said[:_GLANCE] + "… (get_memory has all)"
        title = f"{memory['title']}: " if memory.get("title") else ""
        lines.append(f"{node.get('hop', 0)} away: {node.get('type', '')} {node.get('memory_id', '')}")
        lines.append("   " + title + said.replace("\n", "\n   "))
    lines += [
        f"{link['from_memory_id']} {link.get('relation', '')} {link['to_memory_id']} (link {link['link_id']})"
        for link in answer.get("links", [])
    ]
    if answer.get("truncated"):
        lines.append("There is more; ask for more with max_nodes.")
    return "\n".join(lines)


def recalled(answer: dict[str, Any]) -> str:
    """Return what was found, best first, each with what it is, its id, why it was found, and its text."""
    hits = answer.get("hits", [])
    lines = [line for number, hit in enumerate(hits, 1) for line in _hit(number, hit)]
    if not hits:
        lines.append("Nothing was found.")
    if "profile" in answer:
        lines += ["Profile:", *_lines(answer["profile"], "  ")]
    missing = answer.get("incomplete", [])
    if missing:
        lines.append(f"Not everything answered: {', '.join(missing)} may hold more; ask again for these.")
    emptied = answer.get("emptied_by", [])
    if emptied:
        lines.append(f"These conditions left nothing: {', '.join(emptied)}.")
    return "\n".join(lines)


def packed(answer: dict[str, Any]) -> str:
    """Return a context as it goes into a prompt."""
    return str(answer.get("text") or "Nothing was found.")


def spoken(answer: dict[str, Any]) -> str:
    """Return messages, a line each, with who spoke when."""
    lines = [_said(message) for message in answer.get("messages", [])]
    if not lines:
        lines.append("There are no messages.")
    if answer.get("next_page_token"):
        lines.append(f"More: page_token {answer['next_page_token']}")
    return "\n".join(lines)


def cut(text: str) -> str:
    """Return a text that is no longer than a model can take in."""
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "\n(cut off; ask for less at once)"


def _hit(number: int, hit: dict[str, Any]) -> list[str]:
    kind = str(hit.get("kind", ""))
    parts = {part["signal"]: part.get("value", 0) * part.get("weight", 0) for part in hit.get("components", [])}
    why = ", ".join(f"{signal} {share:.2f}" for signal, share in parts.items() if share)
    item = hit.get("memory") or hit.get("message") or hit.get("block") or {}
    facts = [str(item[name]) for name in ("type", "session_id", "create_time") if item.get(name)]
    said = item.get("content") or item.get("value") or ""
    title = item.get("title") or item.get("label") or (_role(item) if "role" in item else "")
    head = f"{number}. {kind} {hit.get('item_id', '')} (score {hit.get('score', 0):.2f}{': ' if why else ''}{why})"
    return [" ".join([head, *facts]), "   " + (f"{title}: " if title else "") + str(said).replace("\n", "\n   ")]


def _said(message: dict[str, Any]) -> str:
    about = f"[{message.get('message_id', '')}] {message.get('create_time', '')}"
    return f"{about} {_role(message)}: {message.get('content', '')}"


def _role(message: dict[str, Any]) -> str:
    return str(message.get("name") or message.get("role", ""))


def _lines(value: Any, indent: str) -> list[str]:
    if isinstance(value, dict):
        lines: list[str] = []
        for name, each in value.items():
            if isinstance(each, (dict, list)) and each:
                lines += [f"{indent}{name}:", *_lines(each, indent + "  ")]
            else:
                lines.append(f"{indent}{name}: {_scalar(each, indent)}")
        return lines
    if isinstance(value, list):
        lines = []
        for each in value:
            inner = _lines(each, indent + "  ")
            lines += [f"{indent}- {inner[0].strip()}", *inner[1:]] if inner else [f"{indent}-"]
        return lines
    return [f"{indent}{_scalar(value, indent)}"]


def _scalar(value: Any, indent: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace("\n", f"\n{indent}  ")
