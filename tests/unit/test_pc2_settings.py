"""Addresses of the ports, allowed clients, and API keys."""

from __future__ import annotations

import pytest
from fix_catalogue import over

from skein_kit.settings import SettingInvalid
from skein_pc2.settings import Pc2Settings, has_own_identity, identity_of, port_of
from skein_pc2.transport.router import PortConfig


def test_a_setting_moves_one_port() -> None:
    assert port_of({}, 5570, position=3, base_port=None) == 5570
    assert port_of({"SKEIN_PC2_PORT_5570": "7000"}, 5570, position=3, base_port=None) == 7000
    assert port_of({"SKEIN_PC2_PORT_5570": "7000"}, 5570, position=3, base_port=0) == 7000


def test_a_base_port_moves_all_ports() -> None:
    assert port_of({}, 5570, position=3, base_port=0) == 0
    assert port_of({}, 5570, position=3, base_port=6000) == 6003


@over("text", ["", "-1", "65536", "many", "\uff15"])
def test_an_invalid_port_is_rejected_with_the_name_of_its_setting(text: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_PC2_PORT_5570"):
        port_of({"SKEIN_PC2_PORT_5570": text}, 5570, position=0, base_port=None)


@over("host", ["0.0.0.0", "192.168.1.2", "::", "example.org"])  # noqa: S104 - what must be refused.
def test_a_host_beyond_loopback_needs_an_allow_list_or_curve(host: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_PC2_ALLOW"):
        Pc2Settings.read({"SKEIN_PC2_HOST": host})
    Pc2Settings.read({"SKEIN_PC2_HOST": host, "SKEIN_PC2_ALLOW": "10.0.0.0/24"})
    Pc2Settings.read({"SKEIN_PC2_HOST": host, "SECURE_ZMQ": "1"})


def test_a_wide_network_needs_allow_wide_or_curve() -> None:
    wide = {"SKEIN_PC2_HOST": "10.0.0.1", "SKEIN_PC2_ALLOW": "10.0.0.0/23"}

    with pytest.raises(SettingInvalid, match="SKEIN_PC2_ALLOW_WIDE"):
        Pc2Settings.read(wide)
    Pc2Settings.read({**wide, "SKEIN_PC2_ALLOW_WIDE": "1"})
    Pc2Settings.read({**wide, "SECURE_ZMQ": "1"})


@over("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_host_needs_no_allow_list(host: str) -> None:
    assert Pc2Settings.read({"SKEIN_PC2_HOST": host}).networks() == ()


def test_an_invalid_network_is_rejected() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_PC2_ALLOW"):
        Pc2Settings.read({"SKEIN_PC2_ALLOW": "10.0.0.0/24, everybody"})


@over(
    ("address", "is_allowed"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("10.1.3.3", False),
        ("192.168.1.7", True),
        ("192.168.1.8", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_only_listed_networks_and_loopback_may_connect(address: str, *, is_allowed: bool) -> None:
    networks = Pc2Settings.read({"SKEIN_PC2_ALLOW": "10.1.2.0/24, 192.168.1.7"}).networks()
    config = PortConfig(number=5570, host="127.0.0.1", port=0, networks=networks)

    assert config.allows(address) is is_allowed


def test_the_api_key_is_read_until_it_exists_and_then_cached() -> None:
    environment: dict[str, str] = {}
    key = identity_of(environment)

    missing = key()
    environment["SKEIN_PC2_API_KEY"] = "sk_1"
    existing = key()
    del environment["SKEIN_PC2_API_KEY"]

    assert (missing, existing, key()) == ("", "sk_1", "sk_1")


def test_a_port_has_its_own_api_key_or_the_shared_one() -> None:
    environment = {"SKEIN_PC2_API_KEY": "sk_all", "SKEIN_PC2_API_KEY_5596": "sk_own", "SKEIN_PC2_API_KEY_5574": ""}

    assert identity_of(environment)() == "sk_all"
    assert identity_of(environment, 5596)() == "sk_own"
    assert [has_own_identity(environment, port) for port in (5570, 5574, 5596)] == [False, False, True]
