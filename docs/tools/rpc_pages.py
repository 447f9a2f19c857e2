"""Pages of the contract: services, messages and enums of one package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import registries
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor
from markdown_text import anchor, code, paragraphs, prose, squeezed, table

_SCALARS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_") and isinstance(number, int)
}


def page(package: str, files: Sequence[FileDescriptor]) -> list[str]:
    """Return the page of one package: services, messages, enums."""
    comments = registries.proto_comments()
    lines = [f"# RPCs of {package}", ""]
    for each in registries.services_of(files):
        lines += service(each, package)
    lines += ["## Messages", ""]
    for message in registries.messages_of(files):
        name = message.full_name.split(".v1.")[1]
        lines += [f"### {name}", "", paragraphs(comments.get(message.full_name, "")), "", *fields(message, package), ""]
    enums = registries.enums_of(files)
    lines += ["## Enums", ""] if enums else []
    for enum in enums:
        lines += enumeration(enum)
    return squeezed(lines)


def service(each: ServiceDescriptor, package: str) -> list[str]:
    """Return the section of one gRPC service."""
    comments = registries.proto_comments()
    public = registries.is_public(each.full_name)
    lines = [
        f"## {each.name}",
        "",
        paragraphs(comments.get(each.full_name, "")),
        "",
        f"`{each.full_name}`, " + ("public." if public else "internal: the gateway does not offer it."),
        "",
    ]
    for method in each.methods:
        stream = "stream of " if method.server_streaming else ""
        takes, gives = (link(kind, package) for kind in (method.input_type, method.output_type))
        lines += [
            f"### {each.name}/{method.name}",
            "",
            f"{takes} → {stream}{gives}. Permission: {registries.rule_of(f'/{each.full_name}/{method.name}')}.",
            "",
            paragraphs(comments.get(method.full_name, "")),
            "",
        ]
    return lines


def fields(message: Descriptor, package: str) -> list[str]:
    """Return the table of a message's fields."""
    comments = registries.proto_comments()
    if not message.fields:
        return ["No fields."]
    return table(
        ("field", "type", "meaning"),
        [
            (
                code(field.name),
                kind_of(field, package),
                prose(" ".join((comments.get(field.full_name, ""), *limits(registries.limits_of(field)))).strip()),
            )
            for field in message.fields
        ],
    )


def limits(found: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each limit of a field."""
    if found.get("required"):
        yield "Required."
    for name, unit in (("Length", " characters"), ("Items", " items"), ("Properties", " entries")):
        if f"max{name}" in found:
            yield f"At most {found[f'max{name}']:,}{unit}."
        if found.get(f"min{name}", 0) > 1:
            yield f"At least {found[f'min{name}']:,}{unit}."
    if "minimum" in found and "maximum" in found:
        yield f"From {found['minimum']:,} to {found['maximum']:,}."
    elif "maximum" in found:
        yield f"At most {found['maximum']:,}."
    if "enum" in found:
        yield f"One of {', '.join(json.dumps(value) for value in found['enum'])}."
    if "format" in found:
        yield f"Form: {found['format']}."
    yield from found["words"]


def kind_of(field: FieldDescriptor, package: str) -> str:
    """Return the type of a field, linked where it is of the contract."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, value = inner.fields_by_name["key"], inner.fields_by_name["value"]
        return f"map of {kind_of(key, package)} to {kind_of(value, package)}"
    declared = inner or field.enum_type
    what = _SCALARS[field.type] if declared is None else link(declared, package)
    return f"repeated {what}" if field.is_repeated else what


def link(kind: Descriptor | EnumDescriptor, package: str) -> str:
    """Return a link to a message or an enum; other people's are named only."""
    if not kind.full_name.startswith("skein."):
        return kind.name
    name = kind.full_name.split(".v1.")[1]
    home = kind.full_name.split(".")[1]
    if home == "errors":
        return f"[{name}](../errors.md)"
    return f"[{name}]({'' if home == package else f'{home}.md'}#{anchor(name)})"


def enumeration(enum: EnumDescriptor) -> list[str]:
    """Return the section of an enum."""
    comments = registries.proto_comments()
    return [
        f"### {enum.full_name.split('.v1.')[1]}",
        "",
        paragraphs(comments.get(enum.full_name, "")),
        "",
        *table(
            ("value", "number", "meaning"),
            [
                (code(value.name), str(value.number), prose(comments.get(f"{enum.full_name}.{value.name}", "")))
                for value in enum.values
            ],
        ),
        "",
    ]
