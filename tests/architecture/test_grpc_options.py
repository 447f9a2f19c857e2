"""grpc's core ignores an option whose name it does not know, so a misspelt one has no effect and makes no error."""

from __future__ import annotations

import pathlib
import re
from importlib.util import find_spec

_ROOT = pathlib.Path(__file__).parents[2]
_OPTION = re.compile(r'\("(grpc\.[a-z0-9_.]+)"')


def test_every_channel_option_in_the_code_is_known_to_grpc() -> None:
    extension = find_spec("grpc._cython.cygrpc")
    assert extension is not None
    assert extension.origin is not None
    core = pathlib.Path(extension.origin).read_bytes()
    folders = (_ROOT / name for name in ("libs", "services"))
    files = [file for folder in folders for file in folder.rglob("*.py")]
    options = {option for file in files for option in _OPTION.findall(file.read_text("utf-8"))}

    unknown = sorted(option for option in options if f"{option}\0".encode() not in core)

    assert len(options) > 10
    assert not unknown
