"""The embedded embedding models: their graphs, the program that builds them, and the embedder that runs them."""

from __future__ import annotations

import os

# onnxruntime reads this on import; without it, its wheels report usage to their maker.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
