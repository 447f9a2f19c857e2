"""A buf plugin that writes Python stubs, their types, packages and the protos' comments.

buf hands over a parsed request; the protoc of grpc_tools, whose generators are built in, wants files. In between lies a
descriptor set.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path, PurePosixPath

import comments
from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


def answer(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    response = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    with tempfile.TemporaryDirectory() as scratch:
        descriptors = Path(scratch) / "request.binpb"
        descriptors.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out = Path(scratch) / "out"
        out.mkdir()
        arguments = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"--descriptor_set_in={descriptors}", *arguments, *request.file_to_generate]):
            response.error = "protoc refused the files; its reasons stand above"
            return response
        for stub in sorted(path for path in out.rglob("*") if path.is_file()):
            response.file.add(name=stub.relative_to(out).as_posix(), content=stub.read_text())
    wanted = set(request.file_to_generate)
    ours = [file for file in request.proto_file if file.name in wanted and file.package.startswith("skein.")]
    response.file.add(name="skein/comments.json", content=comments.document(ours))
    for package in packages(request):
        docstring = f'"""Generated stubs of the proto package {".".join(package.parts)} and below."""\n'
        response.file.add(name=str(package / "__init__.py"), content=docstring)
        if len(package.parts) == 1:
            response.file.add(name=str(package / "py.typed"), content="")
    return response


def packages(request: CodeGeneratorRequest) -> list[PurePosixPath]:
    """Every folder between the output's root and a stub, the root itself excepted."""
    found = {parent for name in request.file_to_generate for parent in PurePosixPath(name).parents}
    return sorted(found - {PurePosixPath()})


if __name__ == "__main__":
    sys.stdout.buffer.write(answer(CodeGeneratorRequest.FromString(sys.stdin.buffer.read())).SerializeToString())
