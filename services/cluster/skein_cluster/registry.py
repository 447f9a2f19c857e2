"""Every service of the cluster by name; a service is imported on use."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from skein_kit.database.connection_settings import role_password
from skein_kit.database.schema_migrations import Migration, discover
from skein_kit.host.process import Host, Service
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_pc2.settings import PORTS as _PC2_PORTS
from skein_pc2.settings import Pc2Settings, setting_of
from skein_pc2.settings import port_of as pc2_port_of

# In starting order: edge services last, so that they stop first.
NAMES = ("auth", "tenancy", "session", "memory", "recall", "worker", "gateway", "pc2")
# Services with tables or a database role of their own.
WITH_DATABASE = ("auth", "tenancy", "session", "memory", "recall", "worker")
# The one service that a cluster may do without.
_PC2 = "pc2"
_LAST_PORT = 65535
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

# The gateway's HTTP port.
HTTP_PORT = 8080
# The ports of the assistants' protocol.
PC2_PORTS = _PC2_PORTS
# Settings of further ports.
OTHER_PORTS = ("SKEIN_HTTP_PORT", "SKEIN_ADMIN_PORT", "SKEIN_PC2_BASE_PORT")


def load(names: Iterable[str] = NAMES) -> list[Service]:
    """Import services in starting order. Raises SettingInvalid for an unknown name."""
    selected = set(names)
    unknown = sorted(selected - set(NAMES))
    if unknown:
        raise SettingInvalid(f"No service is called {', '.join(unknown)}; there are {', '.join(NAMES)}.")
    return [importlib.import_module(f"skein_{name}.service").SERVICE for name in NAMES if name in selected]


def local_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the services of a cluster on one machine: pc2, whose ports have no passwords, only where it is enabled."""
    return NAMES if Pc2Settings.read(environment).enabled else tuple(name for name in NAMES if name != _PC2)


def port_of(name: str, environment: Mapping[str, str]) -> int:
    """Return a service's configured port; 0 for any. Raises SettingInvalid."""
    return port_in(f"SKEIN_{name.upper()}_PORT", environment, PORTS[name])


def ports(settings: ProcessSettings, environment: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Return host and port of all listeners of a cluster on one machine by setting, except metrics; port 0 for any.

    Raises SettingInvalid.
    """
    names = local_names(environment)
    ports = {f"SKEIN_{name.upper()}_PORT": port_of(name, environment) for name in PORTS if name in names}
    ports["SKEIN_HTTP_PORT"] = port_in("SKEIN_HTTP_PORT", environment, HTTP_PORT)
    of_assistants = Pc2Settings.read(environment).host
    return {name: (settings.host, port) for name, port in ports.items()} | {
        name: (of_assistants, port) for name, port in pc2_ports(environment).items() if _PC2 in names
    }


def shifted_ports(environment: Mapping[str, str], offset: int) -> dict[str, str]:
    """Return the environment with each port that it leaves at its default `offset` higher, for a second cluster.

    Raises SettingInvalid.
    """
    admin_port = ProcessSettings.read(environment).admin_port
    shifted = {name: port for name, (_, port) in ports(ProcessSettings.read(environment), environment).items()}
    if environment.get("SKEIN_PC2_BASE_PORT"):
        shifted = {name: port for name, port in shifted.items() if name not in pc2_ports(environment)}
    shifted["SKEIN_ADMIN_PORT"] = admin_port
    own = {name: str(port + offset) for name, port in shifted.items() if not environment.get(name)}
    return {**environment, **own}


def port_in(variable: str, environment: Mapping[str, str], default: int) -> int:
    """Return the port of a setting; 0 for any. Raises SettingInvalid."""
    text = environment.get(variable, "") or str(default)
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise SettingInvalid(f"{variable} should be a port from 0 to {_LAST_PORT}, not {text!r}.")
    return int(text)


def pc2_ports(environment: Mapping[str, str]) -> dict[str, int]:
    """Return the configured ports of the assistants' protocol by setting; 0 for any."""
    base_port = Pc2Settings.read(environment).base_port
    return {
        setting_of(number): pc2_port_of(environment, number, position=position, base_port=base_port)
        for position, number in enumerate(PC2_PORTS)
    }


def migrations() -> list[Migration]:
    """Return every migration of the cluster, in order."""
    return discover(f"skein_{name}" for name in WITH_DATABASE)


def role_passwords(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of the services' roles that the environment has, by service. Raises SettingInvalid."""
    return {name: password for name in WITH_DATABASE if (password := role_password(name, environment))}


def host_of(
    settings: ProcessSettings,
    environment: Mapping[str, str],
    *,
    local_services: Collection[str] = NAMES,
    **options: Any,
) -> Host:
    """Return a host for the services that run here (`local_services`).

    They listen at SKEIN_<NAME>_PORT on this host; others are called at SKEIN_<NAME>_ADDRESS, by default at their
    port on this host. A pc2 that does not run here has no default: it may not run anywhere.
    """
    addresses = {
        name: f"{settings.host}:{port_of(name, environment)}"
        for name in PORTS
        if name != _PC2 or name in local_services
    }
    addresses |= {
        name: environment[f"SKEIN_{name.upper()}_ADDRESS"]
        for name in PORTS
        if name not in local_services and environment.get(f"SKEIN_{name.upper()}_ADDRESS")
    }
    return Host(
        settings=settings,
        environment=environment,
        schema_version=migrations()[-1].number,
        addresses=addresses,
        **options,
    )
