"""deploy/kubernetes says what the code says: services, ports, settings, roles, and who may speak to whom."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fix_settings
import pytest
import yaml
from fix_catalogue import over
from fix_settings import SECRETS, VARIABLES

from skein_cluster import registry
from skein_cluster.config.unknown_settings import refuse_unknown_settings
from skein_kit.database import citus
from skein_kit.database.connection_settings import database_role
from skein_kit.database.schema_migrations import OWNER
from skein_kit.settings import ProcessSettings, SettingInvalid
from skein_pc2.settings import Pc2Settings
from skein_worker.service import STOP_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FOLDER = DEPLOY / "kubernetes"
LOADED = {service.name: service for service in registry.load()}
ADMIN = fix_settings.FIELDS["SKEIN_ADMIN_PORT"]
PART_OF = {"app.kubernetes.io/part-of": "skein"}
POSTGRES = {"cnpg.io/cluster": "postgres"}
# Services that call hosts outside, by the classes that do so: mail, and URLs that others chose.
GOING_OUT = {"Mailer": {465, 587}, "SafeHttpClient": {443}, "ChatModel": {443}, "FactModels": {443}}
# Nothing else of the file differs from deploy/postgres/postgresql.conf; the operator sets the first itself.
OF_THE_OPERATOR = {"listen_addresses"}
OF_THE_MACHINE = {"max_connections", "shared_buffers", "effective_cache_size", "maintenance_work_mem"}


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(path.read_text("utf-8"), Loader=yaml.CSafeLoader) if isinstance(each, dict)]


def kustomization(folder: str) -> dict[str, Any]:
    (result,) = documents(FOLDER / folder / "kustomization.yaml")
    return result


OBJECTS = [
    each
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name not in {"kustomization.yaml", "rules.yaml"} and not {"overlays", "every-service"} & set(path.parts)
    for each in documents(path)
]
EVERY: dict[str, Any] = documents(FOLDER / "components/every-service/patch.yaml")[0]["spec"]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == kind}


DEPLOYMENTS, SERVICES, POLICIES = named("Deployment"), named("Service"), named("NetworkPolicy")
(CLUSTER,) = named("Cluster").values()


def container(name: str) -> dict[str, Any]:
    (result,) = DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"]
    return dict(result)


def environment(name: str) -> dict[str, str]:
    """Return the variables that are written down; those from Secrets have an empty value here."""
    return {each["name"]: each.get("value", "") for each in container(name)["env"]}


def literals() -> dict[str, str]:
    """Return what the generated ConfigMaps of all parts say."""
    return {
        name: value
        for path in FOLDER.rglob("kustomization.yaml")
        for generator in documents(path)[0].get("configMapGenerator", [])
        for name, _, value in (literal.partition("=") for literal in generator.get("literals", []))
    }


def labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, **PART_OF}


def policy_of(name: str) -> dict[str, Any]:
    (spec,) = (
        each["spec"] for each in POLICIES.values() if each["spec"]["podSelector"] == {"matchLabels": labels(name)}
    )
    return dict(spec)


def peers(rule: dict[str, Any], side: str) -> Iterator[dict[str, str]]:
    for peer in rule.get(side, []):
        if set(peer) == {"podSelector"}:
            yield peer["podSelector"]["matchLabels"]


def edges(name: str, direction: str, side: str) -> dict[str, set[Any]]:
    """Return the services that a policy names, each with the ports."""
    results: dict[str, set[Any]] = {}
    for rule in policy_of(name)[direction]:
        for selected in peers(rule, side):
            if selected.items() >= PART_OF.items():
                ports = {port["port"] for port in rule["ports"]}
                results.setdefault(selected["app.kubernetes.io/name"], set()).update(ports)
    return results


def code_of(name: str) -> str:
    return "\n".join(path.read_text("utf-8") for path in (ROOT / f"services/{name}").rglob("*.py"))


# Pods.


def test_every_service_has_a_deployment_that_runs_it_and_nothing_else() -> None:
    assert {name: container(name)["args"] for name in DEPLOYMENTS} == {name: ["serve", name] for name in LOADED}
    for name, deployment in DEPLOYMENTS.items():
        assert deployment["spec"]["selector"]["matchLabels"] == labels(name)
        assert deployment["spec"]["template"]["metadata"]["labels"] == labels(name)
        assert container(name)["envFrom"][0] == {"configMapRef": {"name": "skein-process"}}


@over("name", LOADED)
def test_a_pod_opens_the_ports_of_the_code(name: str) -> None:
    expected = {registry.PORTS[name], ADMIN}
    if name == "gateway":
        expected.add(fix_settings.FIELDS["SKEIN_HTTP_PORT"])
    if name == "pc2":
        expected |= set(registry.PC2_PORTS)

    assert {port["containerPort"] for port in container(name)["ports"]} == expected


@over("name", LOADED)
def test_calls_are_balanced_over_the_addresses_of_all_pods(name: str) -> None:
    headless = SERVICES["gateway-pods" if name == "gateway" else name]["spec"]

    assert headless["clusterIP"] == "None"
    assert headless["selector"] == labels(name)
    assert {port["port"]: port["targetPort"] for port in headless["ports"]} == {
        registry.PORTS[name]: "grpc",
        ADMIN: "admin",
    }


def test_public_ports_have_services_that_are_not_headless() -> None:
    public = {name: each["spec"] for name, each in SERVICES.items() if each["spec"].get("clusterIP") != "None"}

    assert {name: {port["port"] for port in each["ports"]} for name, each in public.items()} == {
        "gateway": {registry.PORTS["gateway"], fix_settings.FIELDS["SKEIN_HTTP_PORT"]},
        "pc2-door": set(registry.PC2_PORTS),
    }


def test_every_variable_is_a_setting() -> None:
    pods = [*DEPLOYMENTS.values(), *named("Job").values()]
    variables = {
        each["name"]
        for pod in pods
        for each in pod["spec"]["template"]["spec"]["containers"][0]["env"]
        if each["name"].startswith("SKEIN_")
    }
    text = (FOLDER / "components/pooler/kustomization.yaml").read_text("utf-8")

    assert variables | set(literals()) | set(re.findall(r"name: (SKEIN_\w+)", text)) <= VARIABLES


@over("name", LOADED)
def test_a_service_gets_the_address_of_each_that_it_calls_and_of_no_other(name: str) -> None:
    addresses = {key: value for key, value in environment(name).items() if key.endswith("_ADDRESS")}

    assert addresses == {
        f"SKEIN_{other.upper()}_ADDRESS": (
            # A name that stands for every pod: gRPC takes turns among its addresses.
            f"dns:///{'gateway-pods' if other == 'gateway' else other}:{registry.PORTS[other]}"
        )
        for other in LOADED[name].depends_on
    }


@over("name", LOADED)
def test_a_service_can_start_with_its_variables(name: str) -> None:
    variables = {**literals(), **environment(name)}

    refuse_unknown_settings(variables)
    ProcessSettings.read(variables)


def test_no_secret_stands_in_a_file() -> None:
    for path in FOLDER.rglob("*.yaml"):
        for secret, value in re.findall(r"name: (SKEIN_\w+)[,\n]\s+value: ([^\n]+)", path.read_text("utf-8")):
            if secret in SECRETS:
                assert re.search(r"://\w+:\$\(\w+\)@", value), f"{path.name}: {secret}"
    assert not {name for name in literals() if name in SECRETS or "PASSWORD" in name}


def test_every_secret_that_a_pod_cannot_do_without_is_made_by_the_script(tmp_path: Path) -> None:
    made = {each["name"]: each["envs"][0] for each in kustomization("secrets")["secretGenerator"] if "envs" in each}
    subprocess.run([DEPLOY / "secrets.sh", "kubernetes", tmp_path], check=True, capture_output=True)
    files = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    needed = {
        (reference["name"], reference["key"])
        for pod in [*DEPLOYMENTS.values(), *named("Job").values()]
        for each in pod["spec"]["template"]["spec"]["containers"][0]["env"]
        if "valueFrom" in each and not (reference := each["valueFrom"]["secretKeyRef"]).get("optional")
    }

    assert set(made.values()) == set(files)
    for name, key in needed:
        assert re.search(rf"^{key}=\S+$", files[made[name]], re.MULTILINE), name
    for service in registry.WITH_DATABASE:
        assert f"username={database_role(service)}\n" in files[f"{service}-database.env"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    again = subprocess.run([DEPLOY / "secrets.sh", "kubernetes", tmp_path], check=False, capture_output=True)
    assert again.returncode != 0


def test_each_pod_has_the_certificate_of_its_own_service_alone() -> None:
    made = {each["name"]: each["files"] for each in kustomization("secrets")["secretGenerator"] if "files" in each}
    mounted = {
        name: [
            volume["secret"]["secretName"]
            for volume in pod["spec"]["template"]["spec"]["volumes"]
            if volume.get("secret", {}).get("secretName", "").startswith("skein-mtls")
        ]
        for name, pod in DEPLOYMENTS.items()
    }

    assert mounted == {name: [f"skein-mtls-{name}"] for name in LOADED}
    assert made == {
        f"skein-mtls-{name}": [f"mtls/{name}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")] for name in LOADED
    }


def test_the_system_key_is_given_to_those_alone_whose_code_reads_it() -> None:
    assert {name for name in LOADED if "SKEIN_SYSTEM_KEY" in environment(name)} == {
        name for name in LOADED if "settings.system_key" in code_of(name)
    }


def test_a_pod_can_do_no_more_than_it_needs() -> None:
    jobs = [job["spec"]["template"]["spec"] for job in named("Job").values()]

    for pod in (EVERY["template"]["spec"], *jobs):
        (only,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        # Kubernetes' own SKEIN_AUTH_PORT and the like would be taken for settings.
        assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
        assert "tmp" in {mount["name"] for mount in only["volumeMounts"]}
    assert "USER 10001:10001" in (DEPLOY / "Dockerfile").read_text("utf-8")


def test_a_pod_is_asked_on_the_admin_port_and_has_time_to_drain() -> None:
    pod = EVERY["template"]["spec"]
    probes = {name: pod["containers"][0][f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    variables = literals()

    assert {name: (probe["path"], probe["port"]) for name, probe in probes.items()} == {
        "startup": ("/livez", "admin"),
        "readiness": ("/readyz", "admin"),
        "liveness": ("/livez", "admin"),
    }
    assert variables["SKEIN_ADMIN_PORT"] == str(ADMIN)
    drain, grace = float(variables["SKEIN_DRAIN_SECONDS"]), float(variables["SKEIN_GRACE_SECONDS"])
    assert pod["terminationGracePeriodSeconds"] > drain + grace + STOP_SECONDS
    # Who calls notices at the next look at the name, which readiness decides.
    readiness = pod["containers"][0]["readinessProbe"]
    assert drain > readiness["periodSeconds"] * readiness["failureThreshold"]
    assert EVERY["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@over("name", LOADED)
def test_a_service_asks_for_resources_and_survives_a_drained_machine(name: str) -> None:
    budget = named("PodDisruptionBudget")[name]["spec"]

    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels(name)}}
    resources = container(name)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_images_are_of_the_version_of_the_code() -> None:
    version = tomllib.loads((ROOT / "libs/protos/pyproject.toml").read_text("utf-8"))["project"]["version"]
    texts = [path.read_text("utf-8") for path in FOLDER.rglob("*.yaml")]

    assert {tag for text in texts for tag in re.findall(r"(?:image: skein:|newTag: )([^\s}]+)", text)} == {version}


def test_cold_storage_is_a_volume_that_the_image_s_user_may_write_to() -> None:
    for name in ("session", "memory"):
        folder = environment(name)[f"SKEIN_{name.upper()}_ARCHIVE_DIR"]
        mount = next(each["mountPath"] for each in container(name)["volumeMounts"] if each["name"] == "archives")
        assert folder.startswith(f"{mount}/")
        assert f"{name}-archives" in named("PersistentVolumeClaim")
    assert EVERY["template"]["spec"]["securityContext"]["fsGroup"] == 10001


# The network.


def test_pods_without_a_policy_cannot_connect_to_each_other() -> None:
    assert POLICIES["default-deny-all"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@over("name", LOADED)
def test_a_service_may_call_those_that_its_code_calls_and_no_other(name: str) -> None:
    assert edges(name, "egress", "to") == {other: {registry.PORTS[other]} for other in LOADED[name].depends_on}


@over("name", [name for name in LOADED if name != "gateway"])
def test_a_service_may_be_called_by_those_whose_code_calls_it_and_by_no_other(name: str) -> None:
    assert edges(name, "ingress", "from") == {
        other: {"grpc"} for other, service in LOADED.items() if name in service.depends_on
    }


def test_everybody_may_come_to_the_gateway_and_to_nothing_else() -> None:
    open_ports = {
        name: {port["port"] for rule in policy_of(name)["ingress"] if "from" not in rule for port in rule["ports"]}
        for name in LOADED
    }

    assert {name: ports for name, ports in open_ports.items() if ports} == {
        "gateway": {"grpc", "http"},
    }


def test_pc2_is_closed_until_an_overlay_names_the_assistants_addresses() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_PC2_ALLOW"):
        Pc2Settings.read({**literals(), **environment("pc2")})
    assert "type" not in SERVICES["pc2-door"]["spec"]
    assert {path for path in FOLDER.rglob("kustomization.yaml") if "components/pc2" in path.read_text("utf-8")} == {
        FOLDER / "overlays/assistants/kustomization.yaml"
    }


def test_the_overlay_for_assistants_opens_their_ports_to_the_addresses_that_it_names() -> None:
    folder = FOLDER / "overlays/assistants"
    deployment, service = documents(folder / "addresses.yaml")
    (policy,) = documents(folder / "network.yaml")
    (patched,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {**environment("pc2"), **{each["name"]: each["value"] for each in patched["env"]}}
    allowed = [str(network) for network in Pc2Settings.read(variables).networks()]
    (rule,) = policy["spec"]["ingress"]

    assert service["spec"]["loadBalancerSourceRanges"] == allowed
    assert [peer["ipBlock"]["cidr"] for peer in rule["from"]] == allowed
    assert {port["port"] for port in rule["ports"]} == {f"zmq-{port}" for port in registry.PC2_PORTS}
    assert policy["spec"]["podSelector"] == {"matchLabels": labels("pc2")}
    # Without it every peer has the address of a machine of the cluster.
    assert service["spec"]["externalTrafficPolicy"] == "Local"


@over("name", LOADED)
def test_the_database_is_reached_by_those_that_have_one(name: str) -> None:
    reaching = any(selected == POSTGRES for rule in policy_of(name)["egress"] for selected in peers(rule, "to"))
    let_in = {
        selected.get("app.kubernetes.io/name")
        for rule in POLICIES["postgres"]["spec"]["ingress"]
        if rule["ports"] == [{"port": 5432}]
        for selected in peers(rule, "from")
    }
    through_pooler = {
        selected["app.kubernetes.io/name"]
        for rule in POLICIES["pooler"]["spec"]["ingress"]
        for selected in peers(rule, "from")
    }
    (to_pooler,) = (
        each["values"]
        for each in POLICIES["to-pooler"]["spec"]["podSelector"]["matchExpressions"]
        if each["key"] == "app.kubernetes.io/name"
    )

    assert reaching == LOADED[name].has_database
    assert let_in - {None, "migrate"} == through_pooler == set(to_pooler) == set(registry.WITH_DATABASE)


@over("name", LOADED)
def test_the_world_is_reached_by_those_whose_code_goes_there_and_never_our_own_network(name: str) -> None:
    expected = {
        port
        for word, ports in GOING_OUT.items()
        if re.search(rf"\b{word}\.(?:of|from_settings)\(", code_of(name))
        for port in ports
    }
    rules = [rule for rule in policy_of(name)["egress"] if any("ipBlock" in peer for peer in rule["to"])]

    assert {port["port"] for rule in rules for port in rule["ports"]} == expected
    for rule in rules:
        for peer in rule["to"]:
            assert peer["ipBlock"]["except"]


def test_prometheus_may_look_at_every_pod_and_every_pod_may_send_traces() -> None:
    scraped, traces = POLICIES["scraped"]["spec"], POLICIES["traces"]["spec"]
    collector = yaml.safe_load((DEPLOY / "otel/collector.yaml").read_text("utf-8"))
    port = int(collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2])

    assert scraped["podSelector"] == traces["podSelector"] == {"matchLabels": PART_OF}
    assert scraped["ingress"][0]["ports"] == [{"port": ADMIN}]
    assert traces["egress"][0]["ports"] == [{"port": port}]
    assert literals()["SKEIN_OTLP_ENDPOINT"].endswith(f".monitoring:{port}")


# Postgres.


def test_each_service_connects_as_its_own_role_with_the_operators_password() -> None:
    roles = {each["name"]: each for each in CLUSTER["spec"]["managed"]["roles"]}

    assert set(roles) == {database_role(name) for name in registry.WITH_DATABASE}
    for name, service in LOADED.items():
        url = environment(name).get("SKEIN_DATABASE_URL")
        assert (url is not None) == service.has_database
        if url is not None:
            variable = f"SKEIN_{name.upper()}_DATABASE_PASSWORD"
            assert url.startswith(
                f"postgresql://{database_role(name)}:$({variable})@postgres-rw:5432/skein?sslmode=verify-full"
            )
            (entry,) = (each for each in container(name)["env"] if each["name"] == variable)
            assert entry["valueFrom"]["secretKeyRef"]["name"] == roles[database_role(name)]["passwordSecret"]["name"]
            # A value may name variables that stand before it.
            names = list(environment(name))
            assert names.index(variable) < names.index("SKEIN_DATABASE_URL")
            assert roles[database_role(name)]["login"]
            assert not roles[database_role(name)]["inherit"]


def test_a_pooler_is_before_every_pool_and_what_listens_goes_past_it() -> None:
    results = [
        (each["target"], yaml.safe_load(each["patch"])) for each in kustomization("components/pooler")["patches"]
    ]
    patches = {target["name"]: patch for target, patch in results if target["kind"] == "Deployment"}
    ((certificates,),) = (patch for target, patch in results if target["kind"] == "Cluster")
    direct = {name for name, patch in patches.items() if any("DIRECT" in str(each["value"]) for each in patch)}
    parameters = named("Pooler")["pooler"]["spec"]["pgbouncer"]["parameters"]

    assert set(patches) == set(registry.WITH_DATABASE)
    for name, (first, *_) in patches.items():
        position = int(first["path"].split("/")[-2])
        before = container(name)["env"][position]
        assert before["name"] == "SKEIN_DATABASE_URL"
        assert first["value"] == before["value"].replace("@postgres-rw:", "@pooler:")
    # A client compares the host's name with the certificate's.
    assert certificates["path"] == "/spec/certificates"
    assert "pooler" in certificates["value"]["serverAltDNSNames"]
    # auth's pod is where an operator runs `skein bootstrap`.
    assert direct == {"auth", "worker"}
    assert int(parameters["max_prepared_statements"]) >= int(str(fix_settings.FIELDS["SKEIN_STATEMENT_CACHE_SIZE"]))


def test_postgres_has_the_same_settings_as_elsewhere() -> None:
    text = (DEPLOY / "postgres/postgresql.conf").read_text("utf-8")
    elsewhere = dict(re.findall(r"^(\w+) = '?([^'\n]*)'?$", text, re.MULTILINE))
    (larger,) = documents(FOLDER / "overlays/production/postgres.yaml")

    parameters = CLUSTER["spec"]["postgresql"]["parameters"]
    assert parameters == {name: value for name, value in elsewhere.items() if name not in OF_THE_OPERATOR}
    assert set(larger["spec"]["postgresql"]["parameters"]) <= OF_THE_MACHINE


def test_postgres_has_connections_for_every_pod_that_there_may_be() -> None:
    production = kustomization("overlays/production")
    (larger,) = documents(FOLDER / "overlays/production/postgres.yaml")
    assistants = kustomization("overlays/assistants")
    most = {each["name"]: each["count"] for overlay in (production, assistants) for each in overlay["replicas"]}
    most |= {
        each["metadata"]["name"]: each["spec"]["maxReplicas"]
        for each in documents(FOLDER / "overlays/production/autoscaling.yaml")
    }
    # A pool, the pulse, the worker's queue; and one pod more during a rollout.
    each_pod = int(str(fix_settings.FIELDS["SKEIN_POOL_SIZE"])) + 2
    needed = sum((most[name] + 1) * each_pod for name in registry.WITH_DATABASE)

    assert set(most) == set(LOADED)
    assert int(larger["spec"]["postgresql"]["parameters"]["max_connections"]) >= needed + 20
    alone = int(CLUSTER["spec"]["postgresql"]["parameters"]["max_connections"])
    assert alone >= 2 * each_pod * len(registry.WITH_DATABASE)


# Citus.


def test_citus_s_machines_have_the_rights_and_settings_that_skein_migrate_gives() -> None:
    folder = FOLDER / "overlays/citus"
    overlay = kustomization("overlays/citus")
    patches = {each["target"]["kind"]: yaml.safe_load(each["patch"]) for each in overlay["patches"][1:]}
    workers = documents(folder / "workers.yaml")
    (coordinator,) = documents(folder / "coordinator.yaml")
    (larger,) = documents(FOLDER / "overlays/production/postgres.yaml")
    added = [each["value"] for each in patches["Cluster"]]
    owner = {each["name"]: each for each in added if isinstance(each, dict)}[OWNER]

    for name, value in citus.SETTINGS.items():
        assert f"ALTER DATABASE skein SET {name} = '{value}'" in added
    assert "CREATE EXTENSION citus" in added
    assert patches["Job"][0]["value"] == ["migrate", "--citus"]
    assert {"SKEIN_DATABASE_CITUS=true"} <= set(overlay["configMapGenerator"][0]["literals"])
    assert (owner["login"], owner["bypassrls"]) == (True, True)
    parameters = {
        **CLUSTER["spec"]["postgresql"]["parameters"],
        **larger["spec"]["postgresql"]["parameters"],
        **coordinator["spec"]["postgresql"]["parameters"],
    }
    assert int(parameters["max_prepared_transactions"]) >= int(parameters["max_connections"])
    for worker in workers:
        assert worker["spec"]["postgresql"]["parameters"] == parameters
        assert worker["spec"]["managed"]["roles"] == [owner, *CLUSTER["spec"]["managed"]["roles"]]
        assert worker["spec"]["imageName"] == coordinator["spec"]["imageName"]
        assert worker["spec"]["postgresql"]["shared_preload_libraries"] == ["citus"]


def test_every_worker_of_citus_is_backed_up_reached_by_the_others_and_scraped() -> None:
    folder = FOLDER / "overlays/citus"
    workers = documents(folder / "workers.yaml")
    (coordinator,) = documents(folder / "coordinator.yaml")
    between, _ = documents(folder / "network.yaml")
    (scraped,) = documents(folder / "scraping.yaml")
    backups = {each["spec"]["cluster"]["name"] for each in documents(folder / "backups.yaml")}

    assert backups == {each["metadata"]["name"] for each in workers}
    for machine in (coordinator, *workers):
        given = machine["spec"]["inheritedMetadata"]["labels"]
        assert between["spec"]["podSelector"]["matchLabels"].items() <= given.items()
    for worker in workers:
        given = worker["spec"]["inheritedMetadata"]["labels"]
        assert scraped["spec"]["selector"]["matchLabels"].items() <= given.items()
        assert [each["isWALArchiver"] for each in worker["spec"]["plugins"]] == [True]


# What watches it.


def test_the_rules_are_those_of_prometheus_and_the_dashboards_those_of_grafana() -> None:
    checked = subprocess.run(
        [sys.executable, FOLDER / "rules.py", "--check"], check=False, capture_output=True, text=True
    )

    assert checked.returncode == 0, checked.stderr


def test_pods_are_scraped_as_rules_and_dashboards_expect() -> None:
    (monitor,) = (each["spec"] for each in OBJECTS if each["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["endpoints"]

    assert endpoint["port"] == "admin"
    assert {each.get("targetLabel") for each in endpoint["relabelings"]} == {"process", None}
    assert monitor["selector"]["matchLabels"] == PART_OF
    assert monitor["jobLabel"] in PART_OF
    for overlay in ("single", "production"):
        assert kustomization(f"overlays/{overlay}")["labels"] == [{"pairs": PART_OF}]


def test_every_dashboard_is_there() -> None:
    folder = DEPLOY / "grafana/dashboards"
    generators = documents(folder / "kustomization.yaml")[0]["configMapGenerator"]

    assert {file for each in generators for file in each["files"]} == {path.name for path in folder.glob("*.json")}
