"""Writes, for each proto with services, a module that has one frozen dataclass of methods for each service.

A service that leaves out a method, names one that the proto does not have, or gives one with another request or
response fails the type checker.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto

_HEADER = '''"""The methods of the services of {file}, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

{imports}
'''


def modules(files: list[FileDescriptorProto]) -> dict[str, str]:
    """The text of each module by its path below the output's root."""
    owners = {f".{file.package}.{message.name}": file.name for file in files for message in file.message_type}
    return {f"{_stem(file.name)}_methods.py": _module(file, owners) for file in files if file.service}


def _module(file: FileDescriptorProto, owners: dict[str, str]) -> str:
    types = {
        name
        for service in file.service
        for method in service.method
        for name in (method.input_type, method.output_type)
    }
    imported = sorted({owners[name] for name in types})
    imports = "\n".join(f"from {'.'.join(PurePosixPath(name).parent.parts)} import {_alias(name)}" for name in imported)
    header = _HEADER.format(file=file.name, imports=imports)
    return header + "".join(_dataclass(service, owners) for service in file.service)


def _dataclass(service: ServiceDescriptorProto, owners: dict[str, str]) -> str:
    lines = [f"    {method.name}: {_signature(method, owners)}\n" for method in service.method]
    return (
        f"\n\n@dataclass(frozen=True, kw_only=True, slots=True)\nclass {service.name}Methods:\n"
        f'    """What answers each RPC of {service.name}."""\n\n' + "".join(lines)
    )


def _signature(method: MethodDescriptorProto, owners: dict[str, str]) -> str:
    request, response = (
        f"{_alias(owners[name])}.{name.rpartition('.')[2]}" for name in (method.input_type, method.output_type)
    )
    answer = "AsyncIterator" if method.server_streaming else "Awaitable"
    return f"Callable[[{request}, Any], {answer}[{response}]]"


def _alias(file: str) -> str:
    return f"{PurePosixPath(_stem(file)).name}_pb2"


def _stem(file: str) -> str:
    return str(PurePosixPath(file).with_suffix(""))
