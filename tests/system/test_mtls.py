"""TLS between the services, each in a process of its own: who is let in, who is not, and how certificates change."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shutil
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from cryptography import x509
from fix_cluster import Stubs, test_environment, until_all_serve
from fix_http import get
from fix_tls import Certificates, made_in
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_cluster.config.check import find_problems
from skein_cluster.processes.multi_process import multi_process_cluster
from skein_cluster.processes.single_process import LocalCluster
from skein_kit.rpc.channel import ServiceChannel
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_kit.tls.mutual_tls import MutualTlsFiles

# Eight processes start one after the other.
pytestmark = pytest.mark.timeout(300)
SERVING = health_pb2.HealthCheckResponse.SERVING
INTERNAL = ("auth", "tenancy", "session", "memory", "recall", "worker", "pc2")
# No call that is refused takes as long as its deadline.
_DEADLINE = 20.0


@dataclass(frozen=True)
class TlsCluster:
    """A cluster of processes that trust one authority alone, and the files that they read."""

    cluster: LocalCluster
    files: Certificates
    channel: aio.Channel
    folder: Path

    @property
    def tenant(self) -> Stubs:
        return Stubs.of(self.channel, self.cluster.credentials.api_key)


def settings_of(files: Certificates) -> dict[str, str]:
    return {
        "SKEIN_MTLS_CERTIFICATE": str(files.certificate),
        "SKEIN_MTLS_KEY": str(files.key),
        "SKEIN_MTLS_CA": str(files.authority),
    }


def certificates(folder: Path) -> Certificates:
    folder.mkdir()
    return made_in(folder)


@pytest.fixture(scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TlsCluster]:
    folder = tmp_path_factory.mktemp("mtls")
    files = certificates(folder / "files")
    environment = {**test_environment(), **settings_of(files), "SKEIN_DATA_DIR": str(folder / "data")}
    async with (
        multi_process_cluster(folder / "data", environment=environment, durable=False, ready_seconds=150) as cluster,
        aio.insecure_channel(cluster.addresses["gateway"]) as channel,
    ):
        yield TlsCluster(cluster, files, channel, folder)


async def health(channel: aio.Channel) -> int:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_DEADLINE)
    return int(answer.status)


def credentials(files: Certificates, *, shows_itself: bool = True) -> grpc.ChannelCredentials:
    shown = (files.key.read_bytes(), files.certificate.read_bytes()) if shows_itself else (None, None)
    return grpc.ssl_channel_credentials(files.authority.read_bytes(), *shown)


async def refused(channel: aio.Channel) -> str:
    """Return why a connection is refused; a timeout is not a refusal."""
    async with channel:
        with pytest.raises(aio.AioRpcError) as caught:
            await health(channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    return caught.value.details() or ""


async def test_services_that_show_their_certificates_work_together(secured: TlsCluster) -> None:
    made = await secured.tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="the kettle is red"))
    )
    response = await secured.tenant.recall.Recall(recall_pb2.RecallRequest(query="what colour is the kettle?"))

    assert [hit.memory.memory_id for hit in response.hits] == [made.memory.memory_id]
    await until_all_serve(secured.tenant.gateway)


@pytest.mark.parametrize("service", INTERNAL)
async def test_every_internal_port_answers_those_alone_who_have_a_certificate(
    secured: TlsCluster, service: str
) -> None:
    address = secured.cluster.addresses[service]

    async with aio.secure_channel(address, credentials(secured.files)) as known:
        await _until_serving(known)
    await refused(aio.insecure_channel(address))
    await refused(aio.secure_channel(address, credentials(secured.files, shows_itself=False)))


async def test_a_certificate_of_another_authority_is_refused(secured: TlsCluster, tmp_path: Path) -> None:
    other = certificates(tmp_path / "other")
    pretender = replace(other, authority=secured.files.authority)

    await refused(aio.secure_channel(secured.cluster.addresses["memory"], credentials(pretender)))


async def test_a_service_of_another_authority_is_not_believed(secured: TlsCluster, tmp_path: Path) -> None:
    other = certificates(tmp_path / "other")
    doubter = replace(secured.files, authority=other.authority)

    why = await refused(aio.secure_channel(secured.cluster.addresses["memory"], credentials(doubter)))

    assert "CERTIFICATE_VERIFY_FAILED" in why.upper().replace(" ", "_")


async def test_a_caller_that_is_not_let_in_learns_it_at_once_and_its_log_says_why(
    secured: TlsCluster, tmp_path: Path, log: io.StringIO
) -> None:
    other = certificates(tmp_path / "other")
    settings = ProcessSettings(mtls_certificate=other.certificate, mtls_key=other.key, mtls_ca=other.authority)
    channel = ServiceChannel(
        lambda: secured.cluster.addresses["memory"],
        {},
        mutual=MutualTlsFiles.from_settings(settings),
        service="memory",
    )

    for _ in range(3):
        with pytest.raises(aio.AioRpcError) as caught:
            await health(cast("aio.Channel", channel))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    await channel.close()

    (line,) = [json.loads(line) for line in log.getvalue().splitlines() if "mtls_peer_unreachable" in line]
    assert line["peer"] == secured.cluster.addresses["memory"]
    assert "handshake" in line["why"].lower()


async def test_the_admin_port_and_the_gateway_s_ports_ask_for_no_certificate(secured: TlsCluster) -> None:
    async with aio.insecure_channel(secured.cluster.addresses["gateway"]) as channel:
        await _until_serving(channel)
    for admin in {*secured.cluster.admins.values()}:
        async with asyncio.timeout(60):
            while (await get(admin, "/readyz"))[0] != 200:
                await asyncio.sleep(0.05)


@pytest.mark.essential
async def test_certificates_change_without_a_restart_and_no_call_fails(secured: TlsCluster, tmp_path: Path) -> None:
    new = certificates(tmp_path / "new")
    files = secured.files
    done = asyncio.Event()
    answered = 0

    async def ask_again_and_again() -> None:
        nonlocal answered
        while not done.is_set():
            await secured.tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(), timeout=_DEADLINE)
            answered += 1

    asking = asyncio.create_task(ask_again_and_again())
    # First every process trusts both authorities, then every process shows the new certificate.
    old_authority = files.authority.read_bytes()
    _write(files.authority, old_authority + new.authority.read_bytes())
    both = Certificates(files.authority, new.certificate, new.key)
    for service in INTERNAL:
        await _until_let_in(secured.cluster.addresses[service], credentials(both))
    _write(files.certificate, new.certificate.read_bytes())
    _write(files.key, new.key.read_bytes())
    for service in INTERNAL:
        address = secured.cluster.addresses[service]
        while await _serial(address, both) != _serial_of(new.certificate):
            await asyncio.sleep(0.1)
    # A client that trusts only the old one is refused once it is gone from the file.
    _write(files.authority, new.authority.read_bytes())
    while True:
        async with aio.secure_channel(secured.cluster.addresses["auth"], credentials(new)) as channel:
            await _until_serving(channel)
        if answered > 20:
            break
        await asyncio.sleep(0.05)
    done.set()
    await asking

    await until_all_serve(secured.tenant.gateway)


def _write(path: Path, content: bytes) -> None:
    """Put new content in place of a file at once, as a mounted secret is changed."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    shutil.move(beside, path)


async def _until_serving(channel: aio.Channel) -> None:
    """Ask a service that answers until it says that it serves: on a machine that stands still, it may be late."""
    async with asyncio.timeout(60):
        while await health(channel) != SERVING:
            await asyncio.sleep(0.05)


async def _until_let_in(address: str, credentials: grpc.ChannelCredentials) -> None:
    for _ in range(600):
        with contextlib.suppress(aio.AioRpcError):
            async with aio.secure_channel(address, credentials) as channel:
                await _until_serving(channel)
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(address)


async def _serial(address: str, files: Certificates) -> int:
    """Return the serial number of the certificate that a service shows to a new connection."""
    context = ssl.create_default_context(cafile=files.authority)
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).serial_number
    finally:
        writer.close()


def _serial_of(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("SKEIN_MTLS_KEY", "SKEIN_MTLS_KEY is missing."),
        ("SKEIN_MTLS_CA", "SKEIN_MTLS_CA is missing."),
    ],
)
def test_two_of_the_three_settings_are_refused(tmp_path: Path, without: str, message: str) -> None:
    settings = settings_of(made_in(tmp_path))
    del settings[without]

    (problem,) = find_problems(["gateway"], settings)

    assert problem.endswith(message)


def test_files_that_do_not_fit_are_refused_at_the_start(tmp_path: Path) -> None:
    one, other = certificates(tmp_path / "one"), certificates(tmp_path / "other")

    def mutual(files: Certificates) -> None:
        MutualTlsFiles.from_settings(
            ProcessSettings(mtls_certificate=files.certificate, mtls_key=files.key, mtls_ca=files.authority)
        )

    with pytest.raises(SettingInvalid, match="SKEIN_MTLS_KEY is not the key of the certificate in"):
        mutual(replace(one, key=other.key))
    with pytest.raises(SettingInvalid, match="SKEIN_MTLS_CA names a file that holds no certificate"):
        mutual(replace(one, authority=one.key))
    with pytest.raises(SettingInvalid, match="SKEIN_MTLS_CA names a file that cannot be read"):
        mutual(replace(one, authority=tmp_path / "none"))


def test_files_that_turn_bad_leave_the_last_good_ones_in_use(tmp_path: Path, log: io.StringIO) -> None:
    files, clock = made_in(tmp_path), [0.0]
    mutual = MutualTlsFiles(files.certificate, files.key, files.authority, clock=lambda: clock[0])
    before = mutual.material

    files.key.write_bytes(b"nonsense")
    clock[0] += 10
    kept = mutual.material
    again = made_in(tmp_path)
    clock[0] += 10
    after = mutual.material

    assert kept is before
    assert after is not before
    assert after.certificate == again.certificate.read_bytes()
    assert "SKEIN_MTLS_KEY names a file that is no PEM private key." in log.getvalue()
