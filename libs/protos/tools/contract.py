"""The contract: the protos without what the services of a cluster call among themselves.

contract.py write FILE      write the contract of the protos as an image of buf, such as contract.binpb.gz
contract.py compare FILE    refuse protos that break a contract that was written earlier
contract.py check           refuse protos that break main, or the contract of the last release

A service is internal when each of its methods declares `only_service`. Internal services, the messages that they alone
use, and skein/options are no part of the contract. The comparison with main has them too, because a version and the one
before it run side by side.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet, ServiceDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from skein.options.v1 import options_pb2

BUF = Path(sys.executable).parent / "buf"
RELEASED = Path("deploy/released/contract.binpb.gz")
# The paths are those within an image.
RULES = {"version": "v2", "breaking": {"use": ["FILE"], "ignore": ["buf", "skein/options"]}}
_OPTIONS = "skein.options.v1"


def write(file: str) -> None:
    types = [argument for name in public_types() for argument in ("--type", name)]
    buf("build", "--exclude-source-info", *types, "--output", file)


def compare(file: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        present = f"{scratch}/contract.binpb"
        write(present)
        buf("breaking", present, "--against", file, "--config", json.dumps(RULES))


def check() -> None:
    for ref in ("main", "origin/main"):
        if git("rev-parse", "--verify", f"{ref}^{{commit}}"):
            # Before the first contract reached main there was nothing to break.
            if git("cat-file", "-e", f"{ref}:buf.yaml"):
                buf("breaking", "--against", f".git#ref={ref}")
            break
    else:
        print("buf breaking: no main to compare with, so only the last release was compared", file=sys.stderr)
    if RELEASED.exists():
        compare(str(RELEASED))


def public_types() -> list[str]:
    """Return the public services, and the messages and enums that no service names, such as ErrorReason."""
    with tempfile.TemporaryDirectory() as scratch:
        buf("build", "--as-file-descriptor-set", "--output", f"{scratch}/all.binpb")
        every = FileDescriptorSet.FromString(Path(scratch, "all.binpb").read_bytes())
    pool = DescriptorPool()
    for file in every.file:
        pool.Add(file)
    ours = [pool.FindFileByName(file.name) for file in every.file if file.package.startswith("skein.")]
    named: set[str] = set()
    for service in (service for file in ours for service in file.services_by_name.values()):
        for method in service.methods:
            collect(method.input_type, named)
            collect(method.output_type, named)
    alone = [
        each.full_name
        for file in ours
        if file.package != _OPTIONS
        for each in (*file.message_types_by_name.values(), *file.enum_types_by_name.values())
        if each.full_name not in named
    ]
    public = [
        f"{file.package}.{service.name}" for file in every.file for service in file.service if not is_internal(service)
    ]
    return [*public, *alone]


def is_internal(service: ServiceDescriptorProto) -> bool:
    rule: Any = options_pb2.rule
    return all(method.options.Extensions[rule].only_service for method in service.method)


def collect(message: Descriptor, names: set[str]) -> None:
    """Add the names of a message and of the messages and enums within it."""
    if message.full_name in names:
        return
    names.add(message.full_name)
    field: FieldDescriptor
    for field in message.fields:
        kind: Descriptor | EnumDescriptor | None = field.message_type or field.enum_type
        if isinstance(kind, EnumDescriptor):
            names.add(kind.full_name)
        elif kind is not None:
            collect(kind, names)


def buf(*arguments: str) -> None:
    """Run buf; a failure ends this program with its code, after what buf printed."""
    done = subprocess.run([BUF, *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def git(*arguments: str) -> bool:
    """Return whether a command of git succeeds."""
    return subprocess.run(["git", *arguments], check=False, capture_output=True).returncode == 0  # noqa: S607 - the machine's.


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"write": write, "compare": compare, "check": check}
    commands[sys.argv[1]](*sys.argv[2:])
