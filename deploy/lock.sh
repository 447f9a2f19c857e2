#!/bin/sh
# Compiles requirements.lock (services and tools) and deploy/requirements.lock (services alone, for the image).
# Pins stay unless a pyproject.toml rules them out; `deploy/lock.sh --upgrade` looks for newer versions of everything.
set -eu

ours=$(sed -n 's|^-e ./[a-z]*/\(.*\)|--no-emit-package skein-\1|p' requirements.in)

compile() {
    # shellcheck disable=SC2086 # a list of options
    .venv/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --excludes excludes.txt $ours "$@" requirements.in
}

compile --group dev --output-file requirements.lock "$@"
compile --constraints requirements.lock --output-file deploy/requirements.lock
