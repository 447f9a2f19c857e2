"""Refuses unknown SKEIN_* variables, because a misspelt name would have no effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from skein_cluster.config.catalog import FILE, MODEL_KEY, TEST_PREFIX, setting_names
from skein_kit.settings import PREFIX, SettingInvalid

_CUTOFF = 0.75
# Variables that Kubernetes sets for each Service "skein-…" by default.
_SERVICE_LINK = re.compile(
    r"SKEIN_\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_LINK_URL = re.compile(r"(?:tcp|udp|sctp)://")


def refuse_unknown_settings(environment: Mapping[str, str]) -> None:
    """Raise SettingInvalid when the environment has a SKEIN_* variable that no setting reads."""
    problems = [*unknown_settings(environment)]
    if problems:
        raise SettingInvalid(" ".join(problems))


def unknown_settings(environment: Mapping[str, str]) -> Iterable[str]:
    """Yield a sentence for each unknown variable, and one for those of Kubernetes."""
    names = setting_names()
    prefixes = (f"{MODEL_KEY}_", TEST_PREFIX)
    links = sorted(name for name, value in environment.items() if _is_link(name, value, names))
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in names and name not in links and not name.startswith(prefixes):
            yield _sentence(name, names)
    if links:
        more = f" and {len(links) - 1} more" if len(links) > 1 else ""
        yield f"{links[0]}{more} come from Kubernetes' service links: set enableServiceLinks: false in the pod's spec."


def _is_link(name: str, value: str, names: frozenset[str]) -> bool:
    if not name.startswith(PREFIX):
        return False
    return bool(
        (name not in names and _SERVICE_LINK.fullmatch(name))
        or (name.endswith("_PORT") and _SERVICE_LINK_URL.match(value))
    )


def _sentence(name: str, names: frozenset[str]) -> str:
    if name.endswith(FILE) and name.removesuffix(FILE) in names:
        return f"{name} is not a setting: {name.removesuffix(FILE)} cannot be read from a file."
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=_CUTOFF)
    if nearest:
        return f"{name} is not a setting; did you mean {nearest[0]}?"
    return f"{name} is not a setting of Skein; `skein config show` lists all settings."
