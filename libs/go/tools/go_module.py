"""Builds the Go module of the contract, with protoc-gen-go and protoc-gen-go-grpc of the search path. Run by `make go`.

libs/go/tools/go_module.py FOLDER [URL]    where the module goes, and the address of the repository
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "libs/go"
BUF = Path(sys.executable).parent / "buf"
# The oldest versions that have what the generated code and the guide call; a program may take newer ones.
GO_MOD = """module {module}

go 1.22

require (
	google.golang.org/grpc v1.64.0
	google.golang.org/protobuf v1.36.5
)
"""


def main(folder: str, url: str = "") -> None:
    """Write the module into a folder, where an earlier one is removed."""
    out = Path(folder).resolve()
    module = f"{url.partition('://')[2]}/libs/go" if url else "example.org/skein"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    template = (HERE / "buf.gen.yaml").read_text("utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "buf.gen.yaml"
        path.write_text(template.replace("MODULE", json.dumps(module)).replace("OUT", json.dumps(str(out))), "utf-8")
        subprocess.run([BUF, "generate", "--template", path], cwd=ROOT, check=True)
    (out / "go.mod").write_text(GO_MOD.format(module=module), "utf-8")
    shutil.copy(ROOT / "LICENSE", out)
    shutil.copy(HERE / "README.md", out)
    print(f"{sum(1 for _ in out.rglob('*.go'))} files of {module} in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
