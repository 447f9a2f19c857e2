from __future__ import annotations

import pytest

from skein_cluster import registry
from skein_kit.settings import ProcessSettings, SettingInvalid


def test_the_registry_knows_the_port_of_every_service() -> None:
    services = {service.name: service.port for service in registry.load()}

    assert services == dict(registry.PORTS)
    assert tuple(services) == registry.NAMES


def test_the_services_with_a_database_role_are_those_that_use_it() -> None:
    assert {service.name for service in registry.load() if service.has_database} == set(registry.WITH_DATABASE)


def test_every_service_calls_only_services_that_exist() -> None:
    for service in registry.load():
        assert set(service.depends_on) <= set(registry.NAMES) - {service.name}


def test_an_unknown_service_is_named_with_those_that_exist() -> None:
    with pytest.raises(SettingInvalid, match=r"No service is called memroy; there are auth, "):
        registry.load(["memroy", "auth"])


def test_a_port_that_is_none_is_refused_by_the_name_of_its_setting() -> None:
    with pytest.raises(SettingInvalid, match=r"SKEIN_MEMORY_PORT should be a port"):
        registry.port_of("memory", {"SKEIN_MEMORY_PORT": "99999"})


def test_services_elsewhere_are_called_at_their_address_and_own_ones_listen_here() -> None:
    environment = {"SKEIN_MEMORY_ADDRESS": "memory:50054", "SKEIN_RECALL_ADDRESS": "recall:1", "SKEIN_AUTH_PORT": "7"}
    settings = ProcessSettings.read({"SKEIN_HOST": "0.0.0.0"})  # noqa: S104 - nothing is bound.

    addresses = registry.host_of(settings, environment, local_services=["memory"]).addresses

    assert addresses["memory"] == "0.0.0.0:50054"
    assert addresses["recall"] == "recall:1"
    assert addresses["auth"] == "0.0.0.0:7"
