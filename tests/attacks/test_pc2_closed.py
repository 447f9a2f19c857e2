"""pc2: closed unless an operator opened it, and beyond loopback unless by CURVE or by addresses.

Attack: pc2 is started on an address of the network as it is, or with a whole network allowed; another user of the
    machine looks for the ports of `skein up`.
May be seen: nothing but a closed connection.
May be spent: no ZeroMQ socket and no call to the gateway.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from fix_attacks import attack_size
from fix_catalogue import over
from fix_cluster import Cluster, Stubs, Tenant, test_environment, until_all_serve
from fix_pc2 import HEALTH_PORTS, MAIN_PORTS, assert_healthy, assistant_of
from grpc import aio

from skein_cluster import registry
from skein_cluster.cli.error_messages import command_error
from skein_cluster.config import catalog
from skein_cluster.main import skein
from skein_cluster.processes.ports import free_ports
from skein_cluster.processes.single_process import single_process_cluster
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_pc2.settings import Pc2Settings, setting_of
from skein_pc2.transport.router import REPLIES

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is attacked.
OPEN = {"SKEIN_PC2_HOST": EVERYWHERE}
CANNOT_START = 3
# What an operator may have meant to be narrow.
WIDE = ("10.0.0.0/8", "10.1.2.3/8", "192.168.1.0/23", "0.0.0.0/0", "::/0", "fd00::/63", "::ffff:10.0.0.0/104")
NARROW = ("192.168.1.7", "192.168.1.0/24", "fd00::7", "fd00::/64", "::ffff:192.168.1.0/120")
PORTS = (*MAIN_PORTS, *HEALTH_PORTS, 5598, 6583, 7240)
CONNECTIONS = attack_size(20, 500)


def config_check(**environment: str) -> str:
    """Return the output of `skein config check pc2`; "" without problems."""
    others = dict.fromkeys(catalog.setting_names(), None)
    ended = CliRunner(env={**others, **environment}).invoke(skein, ["config", "check", "pc2"])
    assert ended.exit_code in (0, CANNOT_START), ended.output
    return ended.stdout if ended.exit_code else ""


@over("host", [EVERYWHERE, "::", "*", "192.168.1.2", "pc2.example"])
def test_an_address_beyond_loopback_alone_opens_nothing(host: str) -> None:
    with pytest.raises(SettingInvalid, match=r"(?s)SECURE_ZMQ=1.*SKEIN_PC2_ALLOW"):
        Pc2Settings.read({"SKEIN_PC2_HOST": host})

    assert "SKEIN_PC2_ALLOW" in config_check(SKEIN_PC2_HOST=host)


@over("host", [EVERYWHERE, "127.0.0.1"])
@over("wide", WIDE)
def test_a_whole_network_is_allowed_only_by_a_second_setting(wide: str, host: str) -> None:
    settings = {"SKEIN_PC2_HOST": host, "SKEIN_PC2_ALLOW": f"192.168.1.7,{wide}"}

    with pytest.raises(SettingInvalid, match="SKEIN_PC2_ALLOW_WIDE=1"):
        Pc2Settings.read(settings)
    assert "SKEIN_PC2_ALLOW_WIDE=1" in config_check(**settings)
    assert not config_check(**settings, SKEIN_PC2_ALLOW_WIDE="1")


@over("narrow", NARROW)
def test_addresses_that_were_set_by_hand_are_enough(narrow: str) -> None:
    assert not config_check(SKEIN_PC2_HOST=EVERYWHERE, SKEIN_PC2_ALLOW=narrow)


def test_the_second_setting_opens_nothing_by_itself() -> None:
    assert "SKEIN_PC2_ALLOW" in config_check(SKEIN_PC2_HOST=EVERYWHERE, SKEIN_PC2_ALLOW_WIDE="1")


def closed_by_default() -> dict[str, str]:
    return {name: value for name, value in test_environment().items() if name != "SKEIN_PC2_ENABLED"}


def test_a_cluster_of_one_machine_has_no_ports_for_assistants_until_they_are_enabled() -> None:
    closed = closed_by_default()
    opened = {**closed, "SKEIN_PC2_ENABLED": "1"}

    ports = [set(registry.ports(ProcessSettings.read(each), each)) for each in (closed, opened)]

    assert not any(name.startswith("SKEIN_PC2_") for name in ports[0])
    assert {setting_of(number) for number in registry.PC2_PORTS} <= ports[1]
    assert set(registry.local_names(opened)) - set(registry.local_names(closed)) == {"pc2"}


@pytest.mark.system
async def test_a_program_of_another_user_of_the_machine_finds_no_port_of_skein_up(tmp_path: Path) -> None:
    with free_ports([setting_of(number) for number in registry.PC2_PORTS], "127.0.0.1") as ports:
        environment = {**closed_by_default(), **ports, "SKEIN_DATA_DIR": str(tmp_path)}
        async with single_process_cluster(tmp_path, environment=environment, durable=False) as cluster:
            refused = []
            for port in ports.values():
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", int(port))
                refused.append(port)
            async with aio.insecure_channel(cluster.addresses["gateway"]) as channel:
                status = await until_all_serve(Stubs.of(channel, cluster.credentials.api_key).gateway)

    assert refused == list(ports.values())
    assert "pc2" not in {each.service for each in status.services}


def test_a_process_without_an_allow_list_exits_and_names_the_setting() -> None:
    environment = {**test_environment(), **OPEN, "SKEIN_PC2_API_KEY": "sk", "SKEIN_GATEWAY_ADDRESS": "127.0.0.1:1"}

    ended = CliRunner(env=environment).invoke(skein, ["serve", "pc2"])

    assert isinstance(ended.exception, SettingInvalid)
    # The output of the command and its exit code, without a traceback.
    failure = command_error(ended.exception)
    assert failure is not None
    assert failure.exit_code == CANNOT_START
    assert "SKEIN_PC2_ALLOW" in str(failure)


def own_address() -> str:
    """Return an address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: it is looked up which way a packet would go.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("This machine has no address but loopback.")
        return str(probe.getsockname()[0])


async def closed_at_once(address: str, port: str) -> bool:
    """Connect; return whether the other side closes without sending a byte."""
    async with asyncio.timeout(30):
        try:
            reader, writer = await asyncio.open_connection(address, int(port))
        except ConnectionError:
            return True
        try:
            return await reader.read() == b""
        except ConnectionError:
            return True
        finally:
            writer.close()


async def test_a_peer_outside_the_allow_list_is_disconnected_on_every_port(
    cluster: Cluster, tenant: Tenant, log: io.StringIO
) -> None:
    address = own_address()
    settings = {**OPEN, "SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_ALLOW": "203.0.113.7"}
    async with assistant_of(settings, patient=True, gateway=cluster.endpoint) as assistant:
        ports = {number: assistant.ports[number].rpartition(":")[2] for number in PORTS}
        before = messages()

        closed = [await closed_at_once(address, port) for port in ports.values() for _ in range(CONNECTIONS)]
        heard = messages() - before
        health = await assistant.send(5570, b'{"action": "ping"}')

    assert all(closed)
    assert heard == 0
    # Once for each port, however often it came.
    assert log.getvalue().count("peer_refused") == len(PORTS)
    assert address in log.getvalue()
    assert_healthy(health)


async def test_a_peer_of_the_list_is_answered(cluster: Cluster, tenant: Tenant) -> None:
    address = own_address()
    settings = {**OPEN, "SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_ALLOW": address}
    async with assistant_of(settings, patient=True, gateway=cluster.endpoint) as assistant:
        ports: Mapping[int, str] = {5570: assistant.ports[5570].replace(EVERYWHERE, address)}
        peer = type(assistant)(assistant.context, ports, assistant.environment, assistant.running)
        document = await peer.send(5570, b'{"action": "ping"}')

    assert_healthy(document)


def messages() -> float:
    """Return how many messages were answered in this process."""
    return sum(sample.value for metric in REPLIES.collect() for sample in metric.samples if "total" in sample.name)
