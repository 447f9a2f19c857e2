#!/bin/sh
# Makes an environment without tools and without links into the clone; the image is made of it. Two steps, so that an
# image whose pins did not change comes from the builder's cache:
#   deploy/install.sh locked DIR    an environment in DIR with everything pinned, hashes checked
#   deploy/install.sh ours DIR      our own distributions, built and put into it
set -eu

step=$1
target=$2
tools="$target-build"

# uv knows no pip settings; an index named for pip alone is meant for it as well.
if [ -n "${PIP_INDEX_URL:-}" ]; then
    export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
else
    unset PIP_INDEX_URL
fi

install() {
    "$tools/bin/python" -m uv pip install --quiet --python "$target/bin/python" --no-deps --compile-bytecode "$@"
}

case "$step" in
locked)
    "${SKEIN_PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r deploy/build.lock
    "${SKEIN_PYTHON:-python3}" -m venv --without-pip "$target"
    install --no-build --require-hashes -r deploy/requirements.lock
    # 60 MB that no service loads: the tests of other projects, the C library beside onnxruntime's own module, which
    # contains it, and onnxruntime's tools for making models.
    for packages in "$target"/lib/python*/site-packages; do
        find "$packages" -type d -name tests -prune -exec rm -rf {} +
        rm -rf "$packages"/onnxruntime/capi/libonnxruntime.so.* "$packages"/onnxruntime/transformers \
            "$packages"/onnxruntime/tools "$packages"/onnxruntime/quantization "$packages"/onnxruntime/datasets
    done
    ;;
ours)
    wheels="$tools/wheels"
    # What adapts frameworks runs beside agents, not in a service.
    sed -n '/langgraph/d; /adapters/d; s|^-e ||p' requirements.in | while IFS= read -r folder; do
        (cd "$folder" && "$tools/bin/python" -m hatchling build --target wheel --directory "$wheels" >/dev/null)
    done
    install "$wheels"/*.whl
    ;;
*)
    echo "$0: no step is called $step" >&2
    exit 2
    ;;
esac
