#!/bin/sh
# Initializes the data folder the first time, then becomes PostgreSQL; as root it gives root up first.
set -eu

if [ "$(id -u)" = 0 ]; then
    install --directory --owner postgres --mode 0700 "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --clear-groups "$0" "$@"
fi

: "${POSTGRES_USER:=postgres}"
: "${POSTGRES_DB:=$POSTGRES_USER}"

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    : "${POSTGRES_PASSWORD:?is needed to initialize the database}"
    # Begun and not ended, it begins anew the next time.
    trap 'rm -rf "$PGDATA"/*' EXIT
    password=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
    initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile "$password" --auth-local trust \
        --auth-host scram-sha-256 --encoding UTF8
    rm "$password"
    printf 'host %s all all scram-sha-256\n' all replication >>"$PGDATA/pg_hba.conf"
    # On its socket only, so that nobody takes it for ready before the scripts have run.
    pg_ctl --pgdata "$PGDATA" --options "-c listen_addresses=''" --wait start
    export PGHOST=/tmp PGUSER="$POSTGRES_USER"
    [ "$POSTGRES_DB" = postgres ] || psql --dbname postgres --command "CREATE DATABASE \"$POSTGRES_DB\""
    for script in /docker-entrypoint-initdb.d/*.sql; do
        [ ! -e "$script" ] || psql --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 --file "$script"
    done
    pg_ctl --pgdata "$PGDATA" --mode fast --wait stop
    trap - EXIT
fi
exec "$@"
