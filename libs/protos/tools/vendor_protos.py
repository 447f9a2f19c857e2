"""Writes other people's .proto files that ours import, from what the locked wheels carry: buf needs no network.

google/rpc comes as text. buf/validate comes only as a compiled descriptor, which is written out as text here and
compiled again to prove that nothing was lost.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_encoding, text_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import Message
from grpc_tools import protoc
from protovalidate._gen.buf.validate import validate_pb

COPIED = ("google/rpc/code.proto", "google/rpc/error_details.proto", "google/rpc/status.proto")
MAX_FIELD_NUMBER = 536870911
"""Protobuf's largest field number, which its grammar calls max."""


def main(folder: Path) -> None:
    """Fill the folder; every file in it is replaced."""
    for name in COPIED:
        package, _, file = name.rpartition("/")
        write(folder / name, (resources.files(package.replace("/", ".")) / file).read_text())
    original = FileDescriptorProto.FromString(validate_pb.desc().proto.to_binary())
    original.options.ClearField("go_package")  # Of use to Go alone, and it names a download address.
    target = folder / original.name
    write(target, "\n".join(Printer(original).lines()) + "\n")
    if compiled(folder, original.name) != original:
        sys.exit(f"{target} does not compile back to the descriptor that it was written from")


def write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def compiled(folder: Path, name: str) -> FileDescriptorProto:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set.binpb"
        include = resources.files("grpc_tools") / "_proto"
        if protoc.main(["protoc", f"-I{folder}", f"-I{include}", f"--descriptor_set_out={out}", name]):
            sys.exit(f"{folder / name} does not compile")
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


class Printer:
    """One proto2 file as text, in the constructs that buf/validate uses: no services, no nested types, no groups."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._pool = descriptor_pool.DescriptorPool()
        for dependency in file.dependency:
            stub = importlib.import_module(dependency.removesuffix(".proto").replace("/", ".") + "_pb2")
            self._pool.AddSerializedFile(stub.DESCRIPTOR.serialized_pb)
        self._pool.AddSerializedFile(file.SerializeToString())

    def lines(self) -> Iterator[str]:
        file = self._file
        yield "// Written by `make protos` from the protovalidate wheel's descriptor, comments lost. Not for editing."
        yield "// Copyright 2023-2026 Buf Technologies, Inc. Licensed under the Apache License, Version 2.0."
        yield f'\nsyntax = "{file.syntax or "proto2"}";\n\npackage {file.package};\n'
        yield from (f'import "{dependency}";' for dependency in file.dependency)
        yield ""
        yield from (f"option {option};" for option in self._options(file.options))
        for extension in file.extension:
            yield f"\nextend {extension.extendee} {{\n  {self._field(extension)}\n}}"
        for message in file.message_type:
            yield from self._message(message)
        for enum in file.enum_type:
            yield from self._enum(enum)

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"\nmessage {message.name} {{"
        yield from (f"  option {option};" for option in self._options(message.options))
        yield from self._reserved([(r.start, r.end - 1) for r in message.reserved_range], list(message.reserved_name))
        for extendable in message.extension_range:
            yield f"  extensions {span(extendable.start, extendable.end - 1)};"
        printed = set[int]()
        for field in message.field:
            if not field.HasField("oneof_index"):
                yield f"  {self._field(field)}"
            elif field.oneof_index not in printed:
                printed.add(field.oneof_index)
                yield from self._oneof(message, field.oneof_index)
        yield "}"

    def _oneof(self, message: DescriptorProto, index: int) -> Iterator[str]:
        yield f"  oneof {message.oneof_decl[index].name} {{"
        yield from (f"    option {option};" for option in self._options(message.oneof_decl[index].options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield f"    {self._field(field)}"
        yield "  }"

    def _enum(self, enum: EnumDescriptorProto) -> Iterator[str]:
        yield f"\nenum {enum.name} {{"
        yield from (f"  option {option};" for option in self._options(enum.options))
        yield from self._reserved([(r.start, r.end) for r in enum.reserved_range], list(enum.reserved_name))
        yield from (f"  {value.name} = {value.number}{self._bracketed(value.options)};" for value in enum.value)
        yield "}"

    def _reserved(self, ranges: list[tuple[int, int]], names: list[str]) -> Iterator[str]:
        yield from (f"  reserved {span(*bounds)};" for bounds in ranges)
        yield from (f'  reserved "{name}";' for name in names)

    def _field(self, field: FieldDescriptorProto) -> str:
        kind = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower() + " "
        if field.HasField("oneof_index"):
            label = ""
        return f"{label}{kind} {field.name} = {field.number}{self._bracketed(field.options)};"

    def _bracketed(self, options: Message) -> str:
        settings = ", ".join(self._options(options))
        return f" [{settings}]" if settings else ""

    def _options(self, options: Message) -> Iterator[str]:
        """Read the options again in a pool that knows the file's own extensions: some fields carry them."""
        kind = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
        for field, value in kind.FromString(options.SerializeToString()).ListFields():
            name = f"({field.full_name})" if field.is_extension else field.name
            for one in value if field.is_repeated else [value]:
                yield f"{name} = {literal(one, field.enum_type)}"


def literal(value: object, enum: EnumDescriptor | None) -> str:
    if isinstance(value, Message):
        return "{" + text_format.MessageToString(value, as_one_line=True) + "}"
    if enum is not None and isinstance(value, int):
        return str(enum.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + text_encoding.CEscape(value.encode(), as_utf8=True) + '"'
    return str(value)


def span(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == MAX_FIELD_NUMBER else last}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
