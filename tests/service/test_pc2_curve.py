"""The ports with CURVE: encrypted, for clients whose keys the operator allowed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
import zmq.auth
from click.testing import CliRunner
from fix_cluster import Cluster, Tenant
from fix_pc2 import DedicatedAssistant, assert_healthy, assistant_of

from skein_cluster.main import skein
from skein_kit.settings import SettingInvalid
from skein_pc2.transport.curve import CurveCertificates

# No handshake of this machine takes so long.
SILENCE_MILLISECONDS = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make certificates as the operator does."""
    certificate_folder = tmp_path / "certificates"
    result = CliRunner().invoke(
        skein, ["pc2", "certificates", str(certificate_folder), "--client", "kitchen", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert [path.rpartition("/")[2] for path in json.loads(result.stdout)["created"]] == [
        "server.key_secret",
        "kitchen.key_secret",
    ]
    return certificate_folder


@pytest.fixture
async def secured(cluster: Cluster, tenant: Tenant, folder: Path) -> AsyncIterator[DedicatedAssistant]:
    """Run a pc2 that speaks CURVE alone."""
    environment = {
        "SKEIN_PC2_API_KEY": tenant.api_key,
        "SECURE_ZMQ": "1",
        "SKEIN_PC2_CERTIFICATES": str(folder),
    }
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as result:
        yield result


@asynccontextmanager
async def client(
    assistant: DedicatedAssistant, port: int, folder: Path, secret: Path | None
) -> AsyncIterator[zmq.asyncio.Socket]:
    async with assistant.socket(zmq.REQ, port) as peer:
        peer.disconnect(f"tcp://{assistant.ports[port]}")
        if secret is not None:
            peer.curve_publickey, peer.curve_secretkey = zmq.auth.load_certificate(secret)
            peer.curve_serverkey = zmq.auth.load_certificate(folder / "server.key")[0]
        peer.connect(f"tcp://{assistant.ports[port]}")
        yield peer


async def send_encrypted(
    assistant: DedicatedAssistant, port: int, folder: Path, secret: Path | None, **message: Any
) -> Any:
    """Send a message with CURVE; return None without a reply."""
    async with client(assistant, port, folder, secret) as peer:
        await peer.send(json.dumps(message).encode())
        waits = SILENCE_MILLISECONDS if secret is None or secret.stem != "kitchen" else 30_000
        return json.loads(await peer.recv()) if await peer.poll(waits) else None


@pytest.mark.parametrize("port", [5570, 5596, 5574, 7140, 5617])
async def test_an_admitted_client_is_answered(secured: DedicatedAssistant, folder: Path, port: int) -> None:
    assert_healthy(await send_encrypted(secured, port, folder, folder / "kitchen.key_secret", action="ping"))


async def test_an_admitted_client_stores_and_reads(secured: DedicatedAssistant, folder: Path) -> None:
    secret = folder / "kitchen.key_secret"
    payload = {"memory_type": "context", "content": {"text": "in secret"}}

    created = await send_encrypted(secured, 5570, folder, secret, action="create", payload=payload)
    read = await send_encrypted(
        secured, 5570, folder, secret, action="read", payload={"memory_id": created["data"]["memory_id"]}
    )

    assert read["data"]["content"]["text"] == "in secret"


async def test_a_health_port_that_publishes_answers_alone_with_curve(secured: DedicatedAssistant, folder: Path) -> None:
    assert_healthy(await send_encrypted(secured, 5599, folder, folder / "kitchen.key_secret", action="ping"))


@pytest.mark.system
@pytest.mark.parametrize("port", [5570, 5596, 5617])
async def test_without_a_certificate_there_is_no_answer(secured: DedicatedAssistant, folder: Path, port: int) -> None:
    assert await send_encrypted(secured, port, folder, None, action="ping") is None


@pytest.mark.system
async def test_a_client_is_admitted_by_its_file_and_barred_without_it(
    secured: DedicatedAssistant, folder: Path, tmp_path: Path, log: io.StringIO
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    zmq.auth.create_certificates(elsewhere, "stranger")
    zmq.auth.create_certificates(elsewhere, "kitchen")
    stranger = elsewhere / "stranger.key_secret"

    unknown = await send_encrypted(secured, 5570, folder, stranger, action="ping")
    shutil.copy(elsewhere / "kitchen.key", folder / "late.key")
    admitted = await send_encrypted(secured, 5570, folder, elsewhere / "kitchen.key_secret", action="ping")
    (folder / "late.key").unlink()
    shutil.move(elsewhere / "kitchen.key_secret", elsewhere / "late.key_secret")
    barred = await send_encrypted(secured, 5570, folder, elsewhere / "late.key_secret", action="ping")

    assert unknown is None
    assert admitted["status"] == "ok"
    assert barred is None
    assert "client_refused" in log.getvalue()


@pytest.mark.system
async def test_the_servers_own_certificate_is_not_a_clients(secured: DedicatedAssistant, folder: Path) -> None:
    assert await send_encrypted(secured, 5570, folder, folder / "server.key_secret", action="ping") is None


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (shutil.rmtree, "server.key_secret"),
        (lambda folder: (folder / "server.key_secret").unlink(), "server.key_secret"),
        (lambda folder: (folder / "server.key_secret").write_text("nonsense"), "server.key_secret"),
        (lambda folder: shutil.copy(folder / "server.key", folder / "server.key_secret"), "server.key_secret"),
        (lambda folder: (folder / "server.key_secret").chmod(0o640), "chmod 600"),
        (lambda folder: folder.chmod(0o777), "chmod 700"),
    ],
)
def test_an_unsuitable_folder_is_rejected_with_the_reason(folder: Path, break_it: Any, words: str) -> None:
    break_it(folder)

    with pytest.raises(SettingInvalid, match=words) as caught:
        CurveCertificates.read(folder)

    assert "skein pc2 certificates" in str(caught.value) or "chmod" in str(caught.value)


def test_a_folder_must_be_named() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_PC2_CERTIFICATES"):
        CurveCertificates.read(None)


async def test_pc2_does_not_start_without_its_certificates(tmp_path: Path) -> None:
    environment = {"SECURE_ZMQ": "1", "SKEIN_PC2_CERTIFICATES": str(tmp_path / "missing")}

    with pytest.raises(SettingInvalid, match=r"server\.key_secret"):
        async with assistant_of(environment):
            pass


def test_secret_keys_are_private_and_never_overwritten(folder: Path) -> None:
    again = CliRunner().invoke(skein, ["pc2", "certificates", str(folder), "--client", "kitchen"])
    more = CliRunner().invoke(skein, ["pc2", "certificates", str(folder), "--client", "hall"])

    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key_secret")} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (again.exit_code, more.exit_code) == (1, 0)
    assert "kitchen" in again.output
    assert "server" not in more.stdout


@pytest.mark.parametrize("name", ["server", "../kitchen", "", ".hidden", "a/b"])
def test_a_client_is_called_by_a_plain_name(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(skein, ["pc2", "certificates", str(tmp_path / "c"), "--client", name])

    assert result.exit_code == 2
    assert not (tmp_path / "c").exists()
