"""kubectl builds what deploy/kubernetes describes, and every object is one that Kubernetes and the operators accept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fix_node import PACKAGES, newer_node, tool

from skein_cluster import registry
from skein_cluster.service_certificates import authority

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
OVERLAYS = ("single", "production", "assistants", "large", "citus")
# The oldest that has every field in use, and the newest that schemas are known of.
VERSIONS = ("1.31", "1.37")
OPERATORS = ("postgresql.cnpg.io/v1", "monitoring.coreos.com/v1")
# Of a plugin whose schemas come in no package.
UNKNOWN = {"ObjectStore"}


def built(folder: Path) -> list[dict[str, Any]]:
    ran = subprocess.run([tool("kubectl"), "kustomize", folder], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    # Kustomize warns of fields that will go away.
    assert "Warning" not in ran.stderr
    return list(yaml.load_all(ran.stdout, yaml.CSafeLoader))


@pytest.fixture(scope="module")
def overlays() -> dict[str, list[dict[str, Any]]]:
    return {name: built(FOLDER / "overlays" / name) for name in OVERLAYS}


@pytest.fixture(scope="module")
def objects(
    overlays: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Everything that may be applied, each different object once."""
    secrets = tmp_path_factory.mktemp("secrets")
    shutil.copy(FOLDER / "secrets/kustomization.yaml", secrets)
    subprocess.run([ROOT / "deploy/secrets.sh", "kubernetes", secrets], check=True, capture_output=True)
    authority.issue(secrets / "mtls", {name: [name] for name in registry.NAMES})
    result = [each for objects in overlays.values() for each in objects] + built(secrets) + built(FOLDER / "bootstrap")
    return list({json.dumps(each, sort_keys=True): each for each in result}.values())


def problems(objects: list[dict[str, Any]]) -> list[str]:
    """Return what Kubernetes' own schemas and the operators' say is wrong."""
    plain = [each for each in objects if each["apiVersion"] not in OPERATORS and each["kind"] not in UNKNOWN]
    operators = [each for each in objects if each["apiVersion"] in OPERATORS]
    here = Path(__file__).parent
    return complaints(
        plain,
        [sys.executable, here / "kinds.py", *VERSIONS],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".edge/python")},
    ) + complaints(
        operators, [newer_node(), "--input-type=module", "--eval", (here / "crds.mjs").read_text("utf-8")], cwd=PACKAGES
    )


def complaints(objects: list[dict[str, Any]], command: list[Any], **options: Any) -> list[str]:
    """Give a program objects, and return the problems that it prints."""
    ran = subprocess.run(command, input=json.dumps(objects), check=False, capture_output=True, text=True, **options)
    assert ran.returncode == 0, ran.stderr
    payload: list[str] = json.loads(ran.stdout)
    return payload


@pytest.mark.essential
def test_every_object_is_accepted_as_it_is_and_a_misspelt_field_would_be_noticed(objects: list[dict[str, Any]]) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}, "dota": {}}
    cluster = {
        "apiVersion": OPERATORS[0],
        "kind": "Cluster",
        "metadata": {"name": "postgres"},
        "spec": {"instances": 1, "storage": {"size": "1Gi", "sice": "1Gi"}},
    }

    # At once, because reading the schemas takes seconds.
    actual_problems = problems([*objects, config, cluster])

    assert {each["apiVersion"] for each in objects} > set(OPERATORS)
    assert [each for each in actual_problems if "dota" not in each and "sice" not in each] == []
    assert len([each for each in actual_problems if "dota" in each]) == len(VERSIONS)
    assert len([each for each in actual_problems if "sice" in each]) == 1


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_that_an_overlay_names_are_in_it(overlays: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    objects = overlays[overlay]
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    made_elsewhere = {"postgres-ca", *(f"skein-mtls-{name}" for name in registry.NAMES)}
    for deployment in (each for each in objects if each["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        for source in container["envFrom"]:
            assert ("ConfigMap", source["configMapRef"]["name"]) in names
        for volume in pod["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
            if "secret" in volume:
                assert volume["secret"]["secretName"] in made_elsewhere
        assert ("ServiceAccount", pod["serviceAccountName"]) in names
        for variable in container["env"]:
            if variable["name"].endswith("_ADDRESS"):
                host = variable["value"].removeprefix("dns:///").partition(":")[0]
                # Without assistants there is no pc2, and the gateway says so in its status.
                assert ("Service", host) in names or host == "pc2"
        # The patch of all services is laid over each.
        assert container["livenessProbe"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in objects if each["kind"] == "HorizontalPodAutoscaler"}
    for name in scaled:
        (deployment,) = (each for each in objects if each["kind"] == "Deployment" and each["metadata"]["name"] == name)
        # Each deploy would set the number back.
        assert "replicas" not in deployment["spec"]
        assert "cpu" in deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
