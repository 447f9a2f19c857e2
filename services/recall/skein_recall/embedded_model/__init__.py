"""The embedded embedding model: its graph, the program that builds it, and the embedder that runs it."""

from __future__ import annotations

import os

NAME = "all-MiniLM-L6-v2"
DIMENSIONS = 384

# onnxruntime reads this on import; without it, its wheels report usage to their maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
