from __future__ import annotations

import contextlib
import errno
import socket

import pytest
import zmq
from fix_catalogue import over
from grpc import aio

from skein_cluster.processes.ports import PORTS, free_ports, reserved_ports
from skein_kit.host.process import PortTaken
from skein_kit.settings import SettingInvalid

HOST = "127.0.0.1"


def listening(port: int | str) -> contextlib.closing[socket.socket]:
    return contextlib.closing(socket.create_server((HOST, int(port))))


def test_a_reserved_port_is_not_found_again() -> None:
    with free_ports(["first"], HOST) as ports:
        only = range(int(ports["first"]), int(ports["first"]) + 1)
        with pytest.raises(OSError, match=r"^no port of 127\.0\.0\.1"), free_ports(["second"], HOST, among=only):
            pass
    with free_ports(["second"], HOST, among=only) as again:
        assert int(again["second"]) in only


def test_each_name_has_a_free_port_of_its_own() -> None:
    with listening(0) as server:
        taken = server.getsockname()[1]
        with pytest.raises(OSError, match=r"^no port of"), free_ports(["one"], HOST, among=range(taken, taken + 1)):
            pass
    with free_ports(["one", "two", "three"], HOST) as ports:
        assert len(set(ports.values())) == 3


async def test_the_server_that_it_is_kept_for_listens_on_it_again_and_again() -> None:
    with free_ports(["port"], HOST) as ports:
        address = f"{HOST}:{ports['port']}"
        for _ in range(2):
            with listening(ports["port"]):
                pass
            with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
                router.bind(f"tcp://{address}")
            server = aio.server(options=[("grpc.so_reuseport", 0)])
            assert server.add_insecure_port(address)
            await server.start()
            await server.stop(grace=None)


def test_a_port_that_is_kept_refuses_connections() -> None:
    with free_ports(["port"], HOST) as ports, contextlib.closing(socket.socket()) as caller:
        assert caller.connect_ex((HOST, int(ports["port"]))) == errno.ECONNREFUSED


def test_a_port_that_is_wanted_is_kept_though_a_connection_ended_there() -> None:
    with listening(0) as server:
        port = server.getsockname()[1]
        with socket.create_connection((HOST, port)) as caller:
            accepted, _ = server.accept()
            # Who ends first keeps the port busy for a while.
            accepted.close()
            assert caller.recv(1) == b""

    with reserved_ports({"SKEIN_HTTP_PORT": (HOST, port), "SKEIN_GATEWAY_PORT": (HOST, 0)}) as ports:
        assert ports["SKEIN_HTTP_PORT"] == str(port)
        with listening(port):
            pass


def test_a_port_in_use_is_named_with_its_setting() -> None:
    with listening(0) as server:
        port = server.getsockname()[1]
        with (
            pytest.raises(PortTaken, match=rf"^Port {port} is in use; set SKEIN_ADMIN_PORT to another port\.$"),
            reserved_ports({"SKEIN_ADMIN_PORT recall": (HOST, port)}),
        ):
            pass


@over("host", ["192.0.2.1", "*"])
@over("port", [0, 20_000])
def test_a_port_of_another_host_is_not_checked(host: str, port: int) -> None:
    with reserved_ports({"SKEIN_HTTP_PORT": (host, port)}) as ports:
        assert int(ports["SKEIN_HTTP_PORT"]) in ({port} if port else PORTS)


def test_two_settings_with_one_port_are_refused() -> None:
    with (
        pytest.raises(SettingInvalid, match=r"^SKEIN_HTTP_PORT and SKEIN_PC2_PORT_5570 are both port 20000\.$"),
        reserved_ports({"SKEIN_HTTP_PORT": (HOST, 20_000), "SKEIN_PC2_PORT_5570": ("127.0.0.2", 20_000)}),
    ):
        pass


@over("port", [65_536, -1])
def test_an_invalid_port_is_refused(port: int) -> None:
    with (
        pytest.raises(SettingInvalid, match=rf"^SKEIN_ADMIN_PORT should be a port from 0 to 65535, not {port}\.$"),
        reserved_ports({"SKEIN_ADMIN_PORT worker": (HOST, port)}),
    ):
        pass


def test_a_free_port_is_none_that_another_wants() -> None:
    with free_ports(["port"], HOST) as ports:
        port = int(ports["port"])
    with (
        pytest.raises(OSError, match=r"^no port of"),
        reserved_ports(
            {"SKEIN_AUTH_PORT": (HOST, 0), "SKEIN_PC2_PORT_5570": (HOST, port)}, among=range(port, port + 1)
        ),
    ):
        pass
