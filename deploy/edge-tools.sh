#!/bin/sh
# Fetches the programs that tests/edge needs into .edge. Run by make. What is on the search path already is used as it is;
# only a browser is installed on the machine, because it is too much to unpack.
set -eu

command -v promtool >/dev/null || [ -x .edge/usr/bin/promtool ] || {
    mkdir -p .edge/packages
    # A package is unpacked, not installed: installing Debian's prometheus would also start a server.
    [ "$(id -u)" != 0 ] || apt-get update --quiet=2
    (cd .edge/packages && apt-get download --quiet=2 prometheus)
    for package in .edge/packages/prometheus_*.deb; do dpkg -x "$package" .edge; done
}

command -v pgbouncer >/dev/null || [ -x .edge/usr/sbin/pgbouncer ] || {
    mkdir -p .edge/packages
    [ "$(id -u)" != 0 ] || apt-get update --quiet=2
    # With the two libraries that a machine may be without.
    (cd .edge/packages && apt-get download --quiet=2 pgbouncer libc-ares2 libevent-2.1-7)
    for package in pgbouncer libc-ares2 libevent-2.1-7; do dpkg -x .edge/packages/"$package"_*.deb .edge; done
}

# Builds what deploy/kubernetes describes; needs no cluster. Debian's own is too old for it.
command -v kubectl >/dev/null || { echo "kubectl is missing; install a version from 1.28 on" >&2; exit 1; }

# The pages are looked at in a real browser. Debian's own; it brings no fonts.
command -v chromium >/dev/null || {
    [ "$(id -u)" = 0 ] || { echo "chromium is missing; install Debian's package chromium" >&2; exit 1; }
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium fonts-dejavu-core
}

# Signs and checks what a release has.
command -v ssh-keygen >/dev/null || { echo "ssh-keygen is missing; install OpenSSH's client" >&2; exit 1; }

# Other people's clients: what tests/edge/package-lock.json names, checked against its checksums.
command -v npm >/dev/null || { echo "npm is missing; install Node 20 or newer" >&2; exit 1; }
cmp --silent tests/edge/package-lock.json .edge/node/fetched.json || {
    mkdir -p .edge/node
    cp tests/edge/.npmrc tests/edge/package.json tests/edge/package-lock.json .edge/node/
    (cd .edge/node && npm ci --silent)
    cp tests/edge/package-lock.json .edge/node/fetched.json
}

# Python packages go to a folder of their own.
cmp --silent tests/edge/python.lock .edge/python/fetched.lock || {
    rm -rf .edge/python
    .venv/bin/python -m uv pip install --quiet --no-deps --no-build --require-hashes --target .edge/python \
        -r tests/edge/python.lock
    cp tests/edge/python.lock .edge/python/fetched.lock
}
