"""The texts of a request that the content guard reads and may change: those that the proto calls content, and JSON.

Names are not read: ids, keys, tags, people, sessions and sources. Nor are settings, and the secret of a memory of the
vault.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Protocol

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from skein.options.v1.options_pb2 import TEXT_KIND_CONTENT
from skein_kit.rpc.declarations import text_kind

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
            if field.type == FieldDescriptor.TYPE_STRING and text_kind(field) == TEXT_KIND_CONTENT:
                _replace_field(message, field, value, field_path, replace)
        elif field.message_type.GetOptions().map_entry:
            # The variables of a template.
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


def _replace_field(message: Message, field: FieldDescriptor, value: Any, path: str, replace: ReplaceText) -> None:
    if field.is_repeated:
        for index, text in enumerate(value):
            value[index] = replace(text, path=f"{path}[{index}]", name="")
        return
    if field.name.endswith(_JSON_SUFFIX):
        changed = _replace_in_json(value, replace, path)
    else:
        changed = replace(value, path=path, name="")
    if changed != value:
        setattr(message, field.name, changed)


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
