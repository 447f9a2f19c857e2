#!/bin/sh
# Fetches a Go toolchain, gRPC's libraries and the plugins of protoc into .edge/go. Run by make. The libraries are those of
# Debian 13, unpacked and not installed, because Debian 12 has a gRPC of 2020.
set -eu

home=$PWD/.edge/go
packages="golang-google-grpc-dev golang-google-protobuf-dev golang-google-genproto-dev golang-golang-x-net-dev
    golang-golang-x-sys-dev golang-golang-x-text-dev golang-github-golang-protobuf-1-5-dev protoc-gen-go protoc-gen-go-grpc"
rm -rf "$home"
mkdir -p "$home/lists/partial" "$home/archives/partial"
.venv/bin/python -m uv pip install --quiet --no-deps --no-build --require-hashes --target "$home/toolchain" -r tests/edge/go.lock

# Debian's own archive, wherever the machine's settings of apt have it.
[ "$(id -u)" != 0 ] || apt-get update --quiet=2
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
[ -n "$archive" ] || { echo "apt has no index of Debian's archive; run apt-get update on Debian as root" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" >"$home/sources.list"
cat >"$home/apt.conf" <<END
Dir::Etc::SourceList "$home/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$home/lists";
Dir::Cache "$home/archives";
END
export APT_CONFIG="$home/apt.conf"
apt-get update --quiet=2
# shellcheck disable=SC2086 # Several names.
(cd "$home/archives" && apt-get download --quiet=2 $packages)
for package in "$home"/archives/*.deb; do dpkg -x "$package" "$home"; done
