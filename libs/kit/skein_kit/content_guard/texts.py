"""The texts of a request that the content guard reads and may change: contents, titles, values and their JSON.

Ids, keys, tags and names of people, sessions and sources are not read: they are names, not content. Nor is the secret
of a memory of the vault.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.protobuf.struct_pb2 import ListValue, Struct, Value

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TEXT_FIELDS: Final = frozenset({"content", "title", "value", "text", "new_text", "description", "result", "summary"})
_JSON_SUFFIX: Final = "_json"
# A string of a JSON text with its quotes, and the colon behind the name of a member.
_JSON_STRING: Final = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*")(?P<colon>\s*:\s*)?', re.DOTALL)


class ReplaceText(Protocol):
    """Returns the text to store in place of one."""

    def __call__(self, text: str, *, path: str, name: str) -> str:
        """`path` is that of the field, `name` the name that a text has in a structure; empty elsewhere."""


def replace_texts(message: Message, replace: ReplaceText, path: str = "") -> None:
    """Replace each text of a message, and of the messages in it."""
    for field, value in message.ListFields():
        field_path = f"{path}.{field.name}" if path else field.name
        if field.message_type is None:
            if not field.is_repeated and isinstance(value, str):
                _replace_field(message, field.name, value, field_path, replace)
        elif field.message_type.GetOptions().map_entry:
            # The variables of a template; no other request has a map of texts.
            for key, text in list(value.items()):
                if isinstance(text, str):
                    value[key] = replace(text, path=f"{field_path}.{key}", name=key)
        else:
            for index, item in enumerate(value if field.is_repeated else [value]):
                item_path = f"{field_path}[{index}]" if field.is_repeated else field_path
                if isinstance(item, Struct | ListValue | Value):
                    _replace_in_value(item, replace, item_path, "")
                else:
                    replace_texts(item, replace, item_path)


def texts_of(message: Message) -> list[str]:
    """Return the different texts of a message that are not empty."""
    texts: dict[str, None] = {}

    def note(text: str, *, path: str, name: str) -> str:  # noqa: ARG001 - the signature of ReplaceText.
        texts[text] = None
        return text

    replace_texts(message, note)
    return [text for text in texts if text.strip()]


def _replace_field(message: Message, name: str, text: str, path: str, replace: ReplaceText) -> None:
    if name.endswith(_JSON_SUFFIX):
        changed = _replace_in_json(text, replace, path)
    elif name in _TEXT_FIELDS:
        changed = replace(text, path=path, name="")
    else:
        return
    if changed != text:
        setattr(message, name, changed)


def _replace_in_json(json_text: str, replace: ReplaceText, path: str) -> str:
    """Replace the strings of a JSON text. Its other characters stay, so that every number stays exact."""
    parts: list[str] = []
    end, name, name_end = 0, "", -1
    for match in _JSON_STRING.finditer(json_text):
        try:
            text = json.loads(match["text"], strict=False)
        except ValueError:
            # The JSON is refused where it is read.
            continue
        if match["colon"]:
            name, name_end = text, match.end()
            continue
        changed = replace(text, path=path, name=name if match.start() == name_end else "")
        if changed != text:
            parts += [json_text[end : match.start()], json.dumps(changed, ensure_ascii=False)]
            end = match.end("text")
    return "".join([*parts, json_text[end:]])


def _replace_in_value(value: Any, replace: ReplaceText, path: str, name: str) -> None:
    if isinstance(value, Struct):
        for key, item in value.fields.items():
            _replace_in_value(item, replace, path, key)
    elif isinstance(value, ListValue):
        for item in value.values:
            _replace_in_value(item, replace, path, name)
    elif value.HasField("string_value"):
        value.string_value = replace(value.string_value, path=path, name=name)
    elif value.HasField("struct_value"):
        _replace_in_value(value.struct_value, replace, path, name)
    elif value.HasField("list_value"):
        _replace_in_value(value.list_value, replace, path, name)
