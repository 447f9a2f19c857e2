"""Writes skein_client/sync.py from client.py (`write`), or fails when the file is not what client.py gives (`check`).

A call of the asynchronous client becomes one that blocks: each pattern below names one difference between the two.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "skein_client"
SOURCE, TARGET = PACKAGE / "client.py", PACKAGE / "sync.py"
NOTICE = "# Generated from client.py by libs/client/tools/sync_client.py; do not edit.\n"
DIFFERENCES = (
    (r"The asynchronous client", "The synchronous client"),
    (r"\basync (?=def\b|with\b|for\b)", ""),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bAsync(ExitStack|Iterator)\b", r"\1"),
    (r"\b(\w+)AsyncStub\b", r"\1Stub"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\baclose\b", "close"),
    (r"\bAsyncChannel\b", "SyncChannel"),
    (r"\basync_channel\b", "sync_channel"),
    (r"\b(iterate_pages|resume_stream)\b", r"\1_sync"),
    (r"\bfrom grpc import aio\b", "import grpc"),
    (r"\baio\.Channel\b", "grpc.Channel"),
)


def generate() -> str:
    """Return the text of sync.py. Raises CalledProcessError when ruff cannot read it."""
    text = SOURCE.read_text("utf-8")
    for pattern, replacement in DIFFERENCES:
        text = re.sub(pattern, replacement, text)
    text = NOTICE + text
    for step in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        command = [str(Path(sys.executable).parent / "ruff"), *step, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    return text


def main() -> None:
    """Write the file, or compare it."""
    if sys.argv[1:] == ["write"]:
        TARGET.write_text(generate(), "utf-8")
    elif TARGET.read_text("utf-8") != generate():
        sys.exit("libs/client/skein_client/sync.py does not follow client.py: run `make client`.")


if __name__ == "__main__":
    main()
