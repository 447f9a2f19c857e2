"""API keys of endpoints: read from the environment, never stored in a table, never logged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skein_kit.settings import SettingInvalid
from skein_recall.settings import EmbeddingsSettings

PREFIX = "SKEIN_EMBEDDINGS_API_KEY"
_FILE = "_FILE"


@dataclass(frozen=True)
class ApiKeys:
    """The keys of single models and the one for all others, by the name of the variable."""

    _keys: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> ApiKeys:
        """Read SKEIN_EMBEDDINGS_API_KEY and SKEIN_EMBEDDINGS_API_KEY_<MODEL>, or the files of their _FILE variables.

        Raises SettingInvalid.
        """
        keys = {PREFIX: EmbeddingsSettings.read(environment).api_key}
        for name, value in environment.items():
            if not name.startswith(f"{PREFIX}_") or name == f"{PREFIX}{_FILE}":
                continue
            if name.endswith(_FILE):
                keys.setdefault(name.removesuffix(_FILE), _content(name, value))
            else:
                keys[name] = value.strip()
        return cls({name: key for name, key in keys.items() if key})

    def get(self, model: str) -> str:
        """Return the key of a model's endpoint; empty when there is none."""
        return self._keys.get(f"{PREFIX}_{variable_name(model)}") or self._keys.get(PREFIX, "")


def variable_name(model: str) -> str:
    """Convert a model's name to that of its variable: text-embedding-3-small to TEXT_EMBEDDING_3_SMALL."""
    return re.sub(r"[^A-Z0-9]", "_", model.upper())


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        message = f"{name} names a file that cannot be read: {error.strerror}."
        raise SettingInvalid(message) from None
