"""What the protos say in comments, by full name: the generated Python keeps none, and documents are made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

# The fields of a file's, a message's, an enum's and a service's description that hold what a comment may stand above.
_INSIDE: dict[str, dict[int, tuple[str, str]]] = {
    "file": {4: ("message_type", "message"), 5: ("enum_type", "enum"), 6: ("service", "service")},
    "message": {
        2: ("field", "leaf"),
        3: ("nested_type", "message"),
        4: ("enum_type", "enum"),
        8: ("oneof_decl", "leaf"),
    },
    "enum": {2: ("value", "leaf")},
    "service": {2: ("method", "leaf")},
    "leaf": {},
}


def document(files: Iterable[FileDescriptorProto]) -> str:
    """Return JSON: the comment of every message, field, enum, value, service and method that has one."""
    found = dict(pair for file in files for pair in comments(file))
    return json.dumps(found, indent=0, sort_keys=True, ensure_ascii=False) + "\n"


def comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    for location in file.source_code_info.location:
        text = cleaned(location.leading_comments or location.trailing_comments)
        name = full_name(file, location.path)
        if text and name:
            yield name, text


def full_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the name of what a path of source info leads to, "" for anything but a declaration."""
    place: Any = file
    kind, names = "file", [file.package]
    for number, index in zip(path[::2], path[1::2], strict=False):
        if number not in _INSIDE[kind]:
            return ""
        attribute, inner = _INSIDE[kind][number]
        place = getattr(place, attribute)[index]
        # protobuf itself names a value beside its enum. Below it reads better, and is as unique.
        names.append(place.name)
        kind = inner
    return ".".join(names) if len(path) % 2 == 0 and len(names) > 1 else ""


def cleaned(comment: str) -> str:
    return "\n".join(line.removeprefix(" ").rstrip() for line in comment.splitlines()).strip()
