"""Every service of the cluster, by name; a service is imported only when it is wanted."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skein_kit.migrate import Migration, discover
from skein_kit.service import Host
from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skein_kit.service import Service
    from skein_kit.settings import ProcessSettings

# In the order in which one process starts them: those at the edge last, so that they stop first.
NAMES = ("auth", "tenancy", "session", "memory", "recall", "worker", "gateway", "pc2")
# Services with tables or a database role of their own.
WITH_DATABASE = ("auth", "tenancy", "session", "memory", "recall", "worker")
PORTS: Mapping[str, int] = {
    "gateway": 50050,
    "auth": 50051,
    "tenancy": 50052,
    "session": 50053,
    "memory": 50054,
    "recall": 50055,
    "worker": 50056,
    "pc2": 50057,
}


def load(names: Iterable[str] = NAMES) -> list[Service]:
    """Import services, in starting order. Raises SettingInvalid for a name that is none."""
    wanted = set(names)
    unknown = sorted(wanted - set(NAMES))
    if unknown:
        message = f"No service is called {', '.join(unknown)}; there are {', '.join(NAMES)}."
        raise SettingInvalid(message)
    return [importlib.import_module(f"skein_{name}.service").SERVICE for name in NAMES if name in wanted]


def migrations() -> list[Migration]:
    """Return every migration of the cluster, in order."""
    return discover(f"skein_{name}" for name in WITH_DATABASE)


def host_of(settings: ProcessSettings, environment: Mapping[str, str], **options: Any) -> Host:
    """Return a host that knows where each service listens: SKEIN_<NAME>_ADDRESS, or SKEIN_<NAME>_PORT on this host."""
    addresses = {
        name: environment.get(
            f"SKEIN_{name.upper()}_ADDRESS",
            f"{settings.host}:{environment.get(f'SKEIN_{name.upper()}_PORT', str(port))}",
        )
        for name, port in PORTS.items()
    }
    return Host(
        settings=settings,
        environment=environment,
        schema_version=migrations()[-1].number,
        addresses=addresses,
        **options,
    )
