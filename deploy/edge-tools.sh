#!/bin/sh
# Fetches the programs that tests/edge needs into .edge, without installing anything on the machine. Run by make.
# What is on the search path already is used as it is.
set -eu

command -v promtool >/dev/null || [ -x .edge/usr/bin/promtool ] || {
    mkdir -p .edge/packages
    # A package is unpacked, not installed: installing Debian's prometheus would also start a server.
    [ "$(id -u)" != 0 ] || apt-get update --quiet=2
    (cd .edge/packages && apt-get download --quiet=2 prometheus)
    for package in .edge/packages/prometheus_*.deb; do dpkg -x "$package" .edge; done
}
