"""The whole cluster behind TLS, in one process and in many."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import test_environment, until_all_serve
from fix_tls import made_in
from fix_web import Web

from skein_client import Client
from skein_cluster.processes.multi_process import multi_process_cluster
from skein_cluster.processes.shared_ports import shared_port_cluster
from skein_cluster.processes.single_process import single_process_cluster

FORMS = {
    "one process": single_process_cluster,
    "a process for each service": multi_process_cluster,
    "processes that share ports": functools.partial(shared_port_cluster, processes=2),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_a_cluster_comes_up_behind_tls(tmp_path: Path, form: Callable[..., Any]) -> None:
    files = made_in(tmp_path)
    environment = {
        **test_environment(),
        "SKEIN_TLS_CERTIFICATE": str(files.certificate),
        "SKEIN_TLS_KEY": str(files.key),
        "SKEIN_CA_FILE": str(files.authority),
    }
    trusting = ssl.create_default_context(cafile=files.authority)
    data = tmp_path / "data"

    async with form(data, environment=environment, durable=False) as cluster:
        payload = json.loads((data / "credentials.json").read_text("utf-8"))
        async with Client(endpoint=payload["endpoint"], api_key=payload["api_key"], ca_file=files.authority) as skein:
            await until_all_serve(skein.gateway)
        async with Web.of(cluster.addresses["http"], scheme="https", verify=trusting) as web:
            document = (await web.get("/.well-known/oauth-authorization-server")).json()
            page = await web.get("/device")

    assert payload["endpoint"].startswith("https://")
    assert document["issuer"] == payload["http"]
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-skein-form=")
    assert "; Secure" in cookie
