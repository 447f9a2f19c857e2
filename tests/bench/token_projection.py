"""Fits the projection of token vectors to Skein's own texts, and writes it into the package.

    .venv/bin/python tests/bench/token_projection.py

The texts are sentences of docs/, made-up turns of dialogues, and the corpora of this folder: no text of a published
data set.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

# The folder of the tests, so that what lies in this one has a name: `python tests/bench/token_projection.py` is how it
# is run.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from bench.dialogues import population

from skein_recall.embedded_model.descriptions import MINILM
from skein_recall.embedded_model.encoder import Encoder
from skein_recall.embedded_model.token_vectors import PROJECTION_FILE, Projection

_ROOT = Path(__file__).parents[2]
_OF_EACH = 600
_SEED = 1
_NO_PROSE = re.compile(r"```.*?```|^\|.*$|`[^`]*`|[\[\]#>*]|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def sentences() -> list[str]:
    """Return sentences of the documents, and as many turns of dialogues and corpora."""
    texts = [_NO_PROSE.sub("", path.read_text("utf-8")) for path in sorted((_ROOT / "docs").glob("**/*.md"))]
    parts = (part for text in texts for part in re.split(r"(?<=[.!?])\s+", " ".join(text.split())))
    written = list(dict.fromkeys(part for part in parts if 20 < len(part) < 300))
    made = population(tenants=5, entries=600, questions=50, seed=_SEED)
    spoken = [text for tenant in made.tenants for text in tenant] + [question.text for question in made.questions]
    for name in ("precision", "changes"):
        lines = (_ROOT / "tests" / "bench" / f"{name}.jsonl").read_text("utf-8").splitlines()
        spoken += [record.get("content") or record["query"] for record in map(json.loads, lines)]
    source = random.Random(_SEED)
    return source.sample(written, _OF_EACH) + source.sample(spoken, _OF_EACH)


def main() -> None:
    """Fit and write."""
    encoder = Encoder.load(MINILM, threads=1)
    states = []
    for text in sentences():
        (row,) = encoder.tokens([text])
        states.append(encoder.token_states([row])[0])
    vectors = np.concatenate(states)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.save(PROJECTION_FILE, Projection.fit(vectors).rows)
    print(f"{len(vectors)} tokens, {PROJECTION_FILE.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
