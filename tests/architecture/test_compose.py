"""docker-compose.yml says what the code says: services, ports, settings, who calls whom."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from fix_catalogue import over
from fix_compose import interpolate
from fix_settings import VARIABLES

from skein_cluster import registry
from skein_kit.database.connection_settings import database_role
from skein_pc2.settings import Pc2Settings

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
LOADED = {service.name: service for service in registry.load()}
JOBS = ("migrate", "bootstrap", "certificates")
OURS = (*LOADED, *JOBS)
OTHERS = sorted(set(SERVICES) - set(OURS))
# Circles that compose cannot express: the first one starts without the second and calls it later.
NOT_WAITED_FOR = {("auth", "tenancy"), ("gateway", "pc2"), ("worker", "gateway")}
# A reference to a variable of .env, and what follows the name: ":?…" makes it needed, ":-…" gives a default.
REFERENCE = re.compile(r"\$\{(\w+)(:[?-])?[^}]*\}")


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}


def depends_on(name: str) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] | list[str] = SERVICES[name].get("depends_on", {})
    return result if isinstance(result, dict) else {each: {"condition": "service_started"} for each in result}


def test_the_file_is_of_the_compose_specification() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_service_runs_once_under_its_own_name() -> None:
    assert {name: SERVICES[name]["command"] for name in LOADED} == {name: ["serve", name] for name in LOADED}


@over("name", LOADED)
def test_a_service_waits_for_the_schema_and_for_those_that_it_calls(name: str) -> None:
    service = LOADED[name]
    called = {other for other in service.depends_on if (name, other) not in NOT_WAITED_FOR}
    expected = {other: {"condition": "service_healthy"} for other in called}
    expected["certificates"] = {"condition": "service_completed_successfully"}
    if service.has_database:
        expected["migrate"] = {"condition": "service_completed_successfully"}

    assert depends_on(name) == expected


@pytest.mark.parametrize("variables", [{}, {"SKEIN_SUBNET_PREFIX": "172.30.58"}], ids=["default", "second-stack"])
def test_the_assistants_ports_take_connections_of_this_machine_alone(variables: dict[str, str]) -> None:
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    subnet, gateway = (interpolate(network[name], variables) for name in ("subnet", "gateway"))
    values = {key: interpolate(value, variables) for key, value in environment("pc2").items()}

    settings = Pc2Settings.read(values)

    assert subnet == f"{variables.get('SKEIN_SUBNET_PREFIX', '172.30.57')}.0/24"
    assert ip_address(gateway) in ip_network(subnet)
    assert [str(allowed) for allowed in settings.networks()] == [f"{gateway}/32"]


def test_nothing_waits_for_itself() -> None:
    TopologicalSorter({name: set(depends_on(name)) for name in SERVICES}).prepare()


def test_every_circle_that_is_excepted_is_one() -> None:
    for first, second in NOT_WAITED_FOR:
        assert second in LOADED[first].depends_on
        assert first in LOADED[second].depends_on


@over("name", LOADED)
def test_a_service_gets_the_address_of_each_that_it_calls_and_of_no_other(name: str) -> None:
    addresses = {key: value for key, value in environment(name).items() if key.endswith("_ADDRESS")}

    assert addresses == {
        f"SKEIN_{other.upper()}_ADDRESS": f"{other}:{registry.PORTS[other]}" for other in LOADED[name].depends_on
    }


@over("name", OURS)
def test_every_variable_is_a_setting(name: str) -> None:
    assert set(environment(name)) <= VARIABLES


@over("name", LOADED)
def test_a_service_connects_as_its_own_role_and_only_if_it_has_one(name: str) -> None:
    url = environment(name).get("SKEIN_DATABASE_URL")

    assert (url is not None) == LOADED[name].has_database
    if url is not None:
        password = f"${{SKEIN_{name.upper()}_DATABASE_PASSWORD:?}}"
        assert url == f"postgresql://{database_role(name)}:{password}@postgres:5432/skein"


def test_migrations_give_each_role_the_password_that_its_service_uses() -> None:
    passwords = {key for key in environment("migrate") if key.endswith("_DATABASE_PASSWORD")}

    assert passwords == {f"SKEIN_{name.upper()}_DATABASE_PASSWORD" for name in registry.WITH_DATABASE}
    assert environment("migrate")["SKEIN_DATABASE_URL"].startswith("postgresql://postgres:")


def test_each_container_has_the_certificate_of_its_own_service_alone() -> None:
    mounted = {
        name: [volume for volume in service.get("volumes", []) if volume.startswith("mtls-")]
        for name, service in SERVICES.items()
    }

    assert {name: volumes for name, volumes in mounted.items() if volumes} == {
        **{name: [f"mtls-{name}:/etc/skein/mtls:ro"] for name in LOADED},
        "certificates": ["mtls-authority:/etc/skein/all-mtls/authority"]
        + [f"mtls-{name}:/etc/skein/all-mtls/{name}" for name in registry.NAMES],
    }

    dockerfile = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    # A new volume gets the owner of the folder in the image.
    assert all(f"/etc/skein/all-mtls/{name}" in dockerfile for name in ("authority", *registry.NAMES))


def test_the_system_key_is_given_to_those_alone_whose_code_reads_it() -> None:
    code = {
        name: "\n".join(file.read_text("utf-8") for file in (ROOT / f"services/{name}").rglob("*.py"))
        for name in LOADED
    }

    assert {name for name in LOADED if "SKEIN_SYSTEM_KEY" in environment(name)} == {
        name for name in LOADED if "settings.system_key" in code[name]
    }


@over("name", sorted(SERVICES))
def test_a_published_port_is_one_of_the_code_and_of_this_machine_alone(name: str) -> None:
    ports = {
        **{service: {str(port)} for service, port in registry.PORTS.items()},
        "prometheus": {"9090"},
        "jaeger": {"16686"},
        "grafana": {"3000"},
    }
    ports["gateway"].add("8080")
    # The protocol's ports are the keys of its table of dialects.
    ports["pc2"] |= set(
        re.findall(r"^ +(\d{4}): ", (ROOT / "services/pc2/skein_pc2/service.py").read_text(), re.MULTILINE)
    )

    for published in SERVICES[name].get("ports", []):
        host, outside, inside = published.split(":")
        assert host == "127.0.0.1"
        assert outside == inside
        assert inside in ports[name]


@over("name", sorted(SERVICES))
def test_every_image_is_pinned(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")

    assert re.search(r"\d+\.\d+", tag), "no version"
    assert "latest" not in tag


def test_every_container_of_ours_runs_one_image_that_is_built_once() -> None:
    version = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]["version"]

    assert {SERVICES[name]["image"] for name in OURS} == {f"skein:{version}"}
    assert [name for name in SERVICES if "build" in SERVICES[name]] == ["migrate"]


@over("name", OURS)
def test_a_container_of_ours_can_do_no_more_than_it_needs(name: str) -> None:
    service = SERVICES[name]

    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


@over("name", LOADED)
def test_a_service_s_health_is_asked_as_the_image_says_and_it_gets_time_to_drain(name: str) -> None:
    assert "test" not in SERVICES[name]["healthcheck"]
    assert "disable" not in SERVICES[name]["healthcheck"]
    seconds = float(environment(name)["SKEIN_DRAIN_SECONDS"]) + float(environment(name)["SKEIN_GRACE_SECONDS"])
    assert float(SERVICES[name]["stop_grace_period"].removesuffix("s")) > seconds


def test_files_that_are_mounted_exist_and_are_read_only() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source, _, rest = volume.partition(":")
            if source.startswith("."):
                assert (ROOT / source).exists(), source
                assert rest.endswith(":ro"), volume
            else:
                assert source in COMPOSE["volumes"]


def test_cold_storage_lies_in_a_volume_of_its_own_that_the_image_s_user_may_write_to() -> None:
    folders = {name: f"SKEIN_{name.upper()}_ARCHIVE_DIR" for name in LOADED}
    having = {name: variable for name, variable in folders.items() if variable in VARIABLES}
    image = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    sources = set()

    for name, variable in having.items():
        (volume,) = [each for each in SERVICES[name]["volumes"] if not each.startswith("mtls-")]
        source, target = volume.split(":")
        sources.add(source)
        assert environment(name)[variable].startswith(f"{target}/")
        assert f"install --directory --owner=10001 --group=10001 --mode=0700 {target}" in image
    assert set(having) == {"memory", "session"}
    assert len(sources) == len(having)


def test_no_secret_has_a_default_and_each_one_missing_stops_compose(tmp_path: Path) -> None:
    made = secrets(tmp_path)
    needed = {name for name, how in references() if how == ":?"}
    optional = {name for name, how in references() if how == ":-"}

    assert needed == set(made)
    assert {how for _, how in references()} == {":?", ":-"}
    assert not {name for name in optional if "PASSWORD" in name or name == "SKEIN_SYSTEM_KEY"}


def test_secrets_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    first = secrets(tmp_path)

    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert len(set(first.values())) == len(first)
    assert re.fullmatch(r"[0-9a-f]{64}", first["SKEIN_MASTER_KEY"])
    assert all(re.fullmatch(r"[0-9a-f]{48,64}", value) for value in first.values())
    again = subprocess.run([str(ROOT / "deploy/secrets.sh")], cwd=tmp_path, check=False, capture_output=True)
    assert again.returncode != 0
    assert read(tmp_path / ".env") == first


def references() -> set[tuple[str, str | None]]:
    return {(match[1], match[2]) for match in REFERENCE.finditer(FILE.read_text("utf-8"))}


def secrets(folder: Path) -> dict[str, str]:
    subprocess.run([str(ROOT / "deploy/secrets.sh")], cwd=folder, check=True, capture_output=True)
    return read(folder / ".env")


def read(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text("utf-8").splitlines())
