"""A second cluster on one machine: each port that nobody set is higher by the same number."""

from __future__ import annotations

from skein_cluster import registry
from skein_kit.settings import ProcessSettings

# With the assistants' ports.
ALL = {"SKEIN_PC2_ENABLED": "1"}


def listeners(environment: dict[str, str]) -> dict[str, int]:
    settings = ProcessSettings.read(environment)
    ports = {name: port for name, (_, port) in registry.ports(settings, environment).items()}
    return {**ports, "SKEIN_ADMIN_PORT": settings.admin_port}


def test_every_listener_is_shifted() -> None:
    shifted = listeners(registry.shifted_ports(ALL, 10_000))

    assert shifted == {name: port + 10_000 for name, port in listeners(ALL).items()}
    assert not set(shifted.values()) & set(listeners(ALL).values())


def test_a_port_that_is_set_stays() -> None:
    own = {**ALL, "SKEIN_HTTP_PORT": "28080", "SKEIN_MEMORY_PORT": "0", "SKEIN_PC2_BASE_PORT": "7000", "HOME": "/h"}

    environment = registry.shifted_ports(own, 10_000)

    assert {name: environment[name] for name in own} == own
    assert listeners(environment)["SKEIN_GATEWAY_PORT"] == registry.PORTS["gateway"] + 10_000
    assert next(port for name, port in listeners(environment).items() if "PC2_PORT_" in name) == 7000
