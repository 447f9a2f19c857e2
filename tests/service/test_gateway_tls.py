"""Both ports of the gateway behind TLS, and the client, the command and pages that use them."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from fix_tls import Certificates, made_in, private
from fix_web import Web

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein_client import Client, NotConfigured, Unavailable
from skein_client.retry import RetryPolicy
from skein_client.sync import Client as SyncClient
from skein_gateway.service import SERVICE
from skein_kit.host.process import Host, run_services
from skein_kit.settings import ProcessSettings, SettingInvalid

ONCE = RetryPolicy(attempts=1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return made_in(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secured(certificates: Certificates) -> dict[str, Any]:
    """What a gateway behind TLS is told."""
    return {
        "SKEIN_TLS_CERTIFICATE": str(certificates.certificate),
        "SKEIN_TLS_KEY": str(certificates.key),
        "SKEIN_CA_FILE": str(certificates.authority),
    }


async def test_the_client_talks_to_an_endpoint_behind_tls(
    cluster: Cluster, tenant: Tenant, certificates: Certificates, secured: dict[str, Any]
) -> None:
    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        endpoint = f"https://{gateway.host.addresses['gateway']}"
        async with Client(endpoint=endpoint, api_key=tenant.api_key, ca_file=certificates.authority) as skein:
            me = await skein.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.tenant_id == str(tenant.tenant_id)


async def test_the_environment_says_whose_certificates_are_good(
    cluster: Cluster, tenant: Tenant, secured: dict[str, Any]
) -> None:
    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        environment = {
            **secured,
            "SKEIN_ENDPOINT": f"https://{gateway.host.addresses['gateway']}",
            "SKEIN_API_KEY": tenant.api_key,
        }
        async with Client.from_environment(environment) as skein:
            me = await skein.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.tenant_id == str(tenant.tenant_id)


async def test_a_certificate_of_an_unknown_authority_is_refused(
    cluster: Cluster, tenant: Tenant, secured: dict[str, Any]
) -> None:
    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        endpoint = f"https://{gateway.host.addresses['gateway']}"
        async with Client(endpoint=endpoint, api_key=tenant.api_key, timeout=30, retries=ONCE) as skein:
            with pytest.raises(Unavailable):
                await skein.auth.GetMe(auth_pb2.GetMeRequest())


@pytest.mark.system
async def test_the_gateway_behind_tls_knows_its_own_state(
    cluster: Cluster, tenant: Tenant, certificates: Certificates, secured: dict[str, Any]
) -> None:
    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        endpoint = f"https://{gateway.host.addresses['gateway']}"
        async with Client(endpoint=endpoint, api_key=tenant.api_key, ca_file=certificates.authority) as skein:
            status = await skein.gateway.GetClusterStatus(gateway_pb2.GetClusterStatusRequest())

    assert {s.service: s.state for s in status.services}["gateway"] == gateway_pb2.SERVICE_STATE_SERVING


async def test_http_is_served_behind_tls_from_1_2_on(
    cluster: Cluster, tenant: Tenant, certificates: Certificates, secured: dict[str, Any]
) -> None:
    new = ssl.create_default_context(cafile=certificates.authority)
    old = ssl.create_default_context(cafile=certificates.authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        for context in (new, old):
            async with Web.of(gateway.host.addresses["http"], scheme="https", verify=context) as web:
                assert (await web.get("/healthz")).status_code == 200


@pytest.mark.system
async def test_the_command_talks_to_an_endpoint_behind_tls(
    cluster: Cluster, tenant: Tenant, secured: dict[str, Any], tmp_path: Path
) -> None:
    from asyncio import to_thread  # noqa: PLC0415

    async with gateway_before(cluster, tenant, {}, **secured) as gateway:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")},
            "SKEIN_CA_FILE": secured["SKEIN_CA_FILE"],
            "SKEIN_ENDPOINT": f"https://{gateway.host.addresses['gateway']}",
            "SKEIN_API_KEY": tenant.api_key,
            "SKEIN_DATA_DIR": str(tmp_path),
        }
        ran = await to_thread(
            subprocess.run,
            [sys.executable, "-m", "skein_cluster", "status", "--json"],
            env=environment,
            capture_output=True,
            check=False,
            timeout=60,
        )

    assert ran.returncode == 0, ran.stderr.decode()
    assert json.loads(ran.stdout)


def test_a_file_of_certificates_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(NotConfigured, match="SKEIN_CA_FILE"),
        SyncClient(endpoint="https://127.0.0.1:1", api_key="k", ca_file=tmp_path / "nowhere"),
    ):
        pass


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"SKEIN_TLS_KEY": ""}, "SKEIN_TLS_KEY is missing"),
        ({"SKEIN_TLS_CERTIFICATE": ""}, "SKEIN_TLS_CERTIFICATE is missing"),
        ({"SKEIN_TLS_CERTIFICATE": "/nowhere"}, "SKEIN_TLS_CERTIFICATE names a file that cannot be read"),
        ({"SKEIN_TLS_KEY": "CERTIFICATE"}, "SKEIN_TLS_KEY names a file that is no PEM private key"),
        ({"SKEIN_TLS_KEY": "OTHER"}, "SKEIN_TLS_KEY is not the key of the certificate"),
        ({"SKEIN_TLS_KEY": "LOCKED"}, "SKEIN_TLS_KEY is encrypted with a password"),
        ({"SKEIN_TLS_CERTIFICATE": "BROKEN"}, "SKEIN_TLS_CERTIFICATE or SKEIN_TLS_KEY cannot be used"),
    ],
    ids=["no key", "no certificate", "not there", "no key in it", "another key", "a password", "broken"],
)
async def test_files_that_cannot_be_used_stop_the_start(
    cluster: Cluster,
    certificates: Certificates,
    secured: dict[str, Any],
    tmp_path: Path,
    wrong: dict[str, str],
    message: str,
) -> None:
    made = {
        "CERTIFICATE": certificates.certificate.read_bytes(),
        "OTHER": private(ec.generate_private_key(ec.SECP256R1())),
        "LOCKED": private(ec.generate_private_key(ec.SECP256R1()), b"secret"),
        "BROKEN": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    }
    for name, value in wrong.items():
        if value in made:
            (tmp_path / value).write_bytes(made[value])
            wrong = {name: str(tmp_path / value)}
    environment = {**cluster.environment, **secured, **wrong}
    host = Host(
        settings=ProcessSettings.read(environment),
        environment=environment,
        schema_version=0,
        addresses={**cluster.addresses, "gateway": "127.0.0.1:0"},
    )

    with pytest.raises(SettingInvalid, match=message):
        async with run_services([SERVICE], host):
            pass
