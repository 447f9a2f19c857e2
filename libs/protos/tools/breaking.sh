#!/bin/sh
# Refuses a change of the protos that would break somebody who was built against main.
set -eu

for ref in main origin/main; do
    if git rev-parse --quiet --verify "$ref^{commit}" >/dev/null 2>&1; then
        # Before the first contract reached main there was nothing to break.
        git cat-file -e "$ref:buf.yaml" 2>/dev/null || exit 0
        exec .venv/bin/buf breaking --against ".git#ref=$ref"
    fi
done
echo "buf breaking: no main to compare with, so nothing was compared" >&2
