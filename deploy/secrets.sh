#!/bin/sh
# Makes .env, the secrets of docker-compose.yml, each random and of letters and digits alone, readable by you alone.
# `deploy/secrets.sh kubernetes [FOLDER]` makes those of deploy/kubernetes instead: files in its folder `secrets`.
# A file that exists is never touched: its secrets are what the database and the sealed keys were made with.
set -eu

secret() {
    head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

umask 077
if [ "${1:-}" = kubernetes ]; then
    folder="${2:-deploy/kubernetes/secrets}"
    for name in owner auth tenancy session memory recall worker; do
        [ ! -e "$folder/$name-database.env" ] || { echo "$folder holds secrets already; they are in use." >&2; exit 1; }
    done
    for name in owner auth tenancy session memory recall worker; do
        printf 'username=skein_%s\npassword=%s\n' "$name" "$(secret 24)" >"$folder/$name-database.env"
    done
    printf 'SKEIN_SYSTEM_KEY=%s\n' "$(secret 24)" >"$folder/system-key.env"
    # 32 bytes, as what it seals with needs.
    printf 'SKEIN_MASTER_KEY=%s\n' "$(secret 32)" >"$folder/master-key.env"
    echo "Made the secrets in $folder: kubectl apply -k $folder, then keep a copy where you keep secrets and remove them." >&2
    exit 0
fi

if [ -e .env ]; then
    echo ".env exists already; its secrets are in use. deploy/runbooks/rotate-secrets.md says how to change them." >&2
    exit 1
fi

for name in POSTGRES_PASSWORD SKEIN_SYSTEM_KEY GRAFANA_PASSWORD SKEIN_AUTH_DATABASE_PASSWORD \
    SKEIN_TENANCY_DATABASE_PASSWORD SKEIN_SESSION_DATABASE_PASSWORD SKEIN_MEMORY_DATABASE_PASSWORD \
    SKEIN_RECALL_DATABASE_PASSWORD SKEIN_WORKER_DATABASE_PASSWORD; do
    printf '%s=%s\n' "$name" "$(secret 24)"
done >.env
# 32 bytes, as what it seals with needs.
printf 'SKEIN_MASTER_KEY=%s\n' "$(secret 32)" >>.env
echo "Made .env: keep a copy of it where you keep secrets; without SKEIN_SYSTEM_KEY the signing keys cannot be opened," >&2
echo "and without SKEIN_MASTER_KEY the secrets among the memories are lost." >&2
