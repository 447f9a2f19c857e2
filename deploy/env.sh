#!/bin/sh
# Makes .venv, the environment of this clone, from requirements.lock: with the newest Python >= 3.11 on this machine
# that has a wheel for everything locked, of those that were built to be fast if there are such. Any path will do, with
# spaces or very long. Run from the root, by make.
set -eu

here=$(pwd)
ready=.venv/ready # Written last; holds the path that the environment was made for, since it works at no other.

say() { printf '%s\n' "$*" >&2; }

# A release of CPython with its global lock (no free-threaded wheels of grpcio exist) and all that venv needs.
usable() {
    "$1" -c '
import ensurepip, ssl, sys, sysconfig, venv
sys.exit(not (sys.version_info >= (3, 11) and sys.version_info.releaselevel == "final"
              and sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")))
' >/dev/null 2>&1
}

# Built with the optimizations of its makers, as those of distributions, images and installers are. What a version manager
# compiles by itself is not, as a rule, and a service takes about a tenth more of a processor with it.
optimized() {
    "$1" -c '
import sys, sysconfig
made_with = sysconfig.get_config_var("CONFIG_ARGS") or ""
sys.exit(not (sys.base_prefix == "/usr" or "--enable-optimizations" in made_with))
' >/dev/null 2>&1
}

# Pythons of the search path, then those of the usual version managers, newest first, one path a line.
pythons() {
    if [ -n "${SKEIN_PYTHON:-}" ]; then
        command -v "$SKEIN_PYTHON" || true
        return
    fi
    minor=30
    while [ "$minor" -ge 11 ]; do
        command -v "python3.$minor" || true
        for found in "$HOME"/.pyenv/versions/3."$minor".*/bin/python3 \
            "$HOME"/.local/share/uv/python/cpython-3."$minor".*/bin/python3 \
            /opt/homebrew/bin/python3."$minor" /usr/local/bin/python3."$minor" /usr/bin/python3."$minor"; do
            [ ! -x "$found" ] || printf '%s\n' "$found"
        done
        minor=$((minor - 1))
    done
    command -v python3 || true
}

# The lock's own lines for one package, hashes included.
locked() {
    awk -v name="$1==" 'index($0, name) == 1 { on = 1; print; next } on && /^    --hash/ { print; next } on { exit }' \
        requirements.lock
}

fill() {
    if ! .venv/bin/python -m uv --version >/dev/null 2>&1; then
        locked uv >.venv/uv.txt
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.txt
    fi
    # uv knows no pip settings; an index named for pip alone is meant for it as well.
    if [ -n "${PIP_INDEX_URL:-}" ] && [ -z "${UV_DEFAULT_INDEX:-}" ]; then
        export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
    fi
    .venv/bin/python -m uv pip install --quiet --python .venv/bin/python --no-deps --no-build --require-hashes \
        -r requirements.lock &&
        .venv/bin/python -m uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation \
            -r requirements.in
}

if [ -f "$ready" ] && [ "$(cat "$ready")" = "$here" ] && usable .venv/bin/python; then
    rm -f "$ready"
    say "Bringing .venv up to date with requirements.lock"
    if fill; then
        printf '%s\n' "$here" >"$ready"
        exit 0
    fi
    exit 1
fi

# The optimized ones, then all.
chosen() {
    pythons | while IFS= read -r python; do
        if usable "$python" && optimized "$python"; then printf '%s\n' "$python"; fi
    done
    pythons
}

seen=" "
chosen >"${TMPDIR:-/tmp}/skein-pythons.$$"
trap 'rm -f "${TMPDIR:-/tmp}/skein-pythons.$$"' EXIT
while IFS= read -r python; do
    usable "$python" || continue
    version=$("$python" -c 'import platform; print(platform.python_version())')
    minor=${version%.*}
    case "$seen" in *" $minor "*) continue ;; esac
    seen="$seen$minor "
    say "Making .venv with Python $version"
    rm -rf .venv
    if "$python" -m venv .venv </dev/null && fill </dev/null; then
        printf '%s\n' "$here" >"$ready"
        exit 0
    fi
    say "Python $version did not work out; its reasons stand above."
done <"${TMPDIR:-/tmp}/skein-pythons.$$"

say "No Python worked. Skein needs CPython 3.11 or newer with its venv module (on Debian: apt install python3-venv)"
say "and a package index; SKEIN_PYTHON names the one to take when it stands elsewhere."
exit 1
