"""The embedded embedding model: its graph, what draws it and what runs it."""

from __future__ import annotations

import os

# Its wheels report usage to their maker unless told otherwise, and read this when they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
