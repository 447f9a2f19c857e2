"""Every setting of the code, found by importing all of it."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

from skein_cluster import registry
from skein_kit.settings import Settings

PACKAGES = ("skein_kit", "skein_client", "skein_cluster", *(f"skein_{name}" for name in registry.NAMES))


def _all(base: type[Settings]) -> list[type[Settings]]:
    return [match for each in base.__subclasses__() for match in (each, *_all(each))]


def settings_classes() -> list[type[Settings]]:
    """Return every Settings dataclass of the repository."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for match in pkgutil.walk_packages(module.__path__, f"{package}."):
            # Running it would start the command, or needs a tool that only development has.
            if not match.name.endswith((".__main__", ".build_graph")):
                importlib.import_module(match.name)
    return sorted(
        (each for each in _all(Settings) if each.__module__.startswith("skein_")), key=lambda each: each.__name__
    )


# The variable of each field, with its default: None for one that must not be shown.
FIELDS: dict[str, object] = {
    each.variable_of(field): field.default if field.repr else None
    for each in settings_classes()
    for field in dataclasses.fields(each)
}
# Whose values are never shown.
SECRETS = frozenset(
    each.variable_of(field) for each in settings_classes() for field in dataclasses.fields(each) if not field.repr
)
# Read by code that has no dataclass for them: one for each service.
OF_EACH_SERVICE = frozenset(
    f"SKEIN_{name.upper()}_{what}" for name in registry.PORTS for what in ("PORT", "ADDRESS")
) | frozenset(f"SKEIN_{name.upper()}_DATABASE_PASSWORD" for name in registry.WITH_DATABASE)
# Read by the client and the command.
OF_CALLERS = frozenset({"SKEIN_DATA_DIR", "SKEIN_ENDPOINT", "SKEIN_API_KEY", "SKEIN_TENANT_ID"})
VARIABLES = frozenset(FIELDS) | OF_EACH_SERVICE | OF_CALLERS
