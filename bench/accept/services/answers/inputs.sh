#!/usr/bin/env bash
# Makes the data of the services, always the same but for what the servers choose by chance.
set -euo pipefail

usage() {
    cat <<'HELP'
usage: inputs.sh DIR

Makes in DIR (about 600 MiB, half a minute on two cores), not as root, since PostgreSQL refuses it:
  servers/   what lies beside this script
  redis/     dump.rdb of 400,000 keys of 600 bytes
  postgres/  data directory of pgbench at scale 8
  mariadb/   data directory with one table of sysbench of 400,000 rows
  nginx/     nginx.conf (PORT stands for the port) and 512 files of 64 KiB
  classes/   Server.java, compiled
What a missing tool would make is left out and named on a line that starts with SKIP.
A finished DIR is recognised by its file `complete` and left as it is.
HELP
}

case "${1:-}" in
    -h | --help) usage; exit 0 ;;
    '') usage >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
[ -e complete ] && exit 0
dir=$PWD
for bin in /usr/lib/postgresql/*/bin; do PATH="$bin:$PATH"; done
export LC_ALL=C PATH="$PATH:/usr/sbin:/usr/bin:/bin"

# Servers that were started here and have not ended.
pids=()
pid=
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done' EXIT

has() {
    local tool
    for tool in "${@:2}"; do
        command -v "$tool" >/dev/null || { echo "SKIP $1: no $tool"; return 1; }
    done
}

# Until a command succeeds, at most 30 s.
await() {
    local _
    for _ in {1..300}; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "inputs.sh: no answer to $1" >&2
    exit 1
}

redis() {
    mkdir redis
    redis-server --port 0 --unixsocket "$dir/redis/socket" --dir "$dir/redis" --save "" >redis.log &
    pids+=($!)
    await redis-cli -s redis/socket ping
    redis-benchmark -s redis/socket -t set -n 1600000 -r 400000 -d 600 -P 64 -q >/dev/null
    redis-cli -s redis/socket save >/dev/null
    redis-cli -s redis/socket shutdown nosave
}

postgres_data() {
    initdb -D postgres -U postgres -A trust --no-sync >postgres.log
    pg_ctl -D postgres -s -w -l postgres.log -o "-k $dir/postgres -c listen_addresses= -c fsync=off" start
    pgbench -h "$dir/postgres" -U postgres -i -q -s 8 postgres 2>>postgres.log
    pg_ctl -D postgres -s -w stop
}

mariadb_data() {
    mariadb-install-db --no-defaults --datadir="$dir/mariadb" --auth-root-authentication-method=normal \
        --innodb-log-file-size=16M >mariadb.log 2>&1
    mariadbd --no-defaults --datadir="$dir/mariadb" --skip-networking --socket="$dir/socket" \
        --pid-file="$dir/mariadb.pid" --innodb-log-file-size=16M --innodb-buffer-pool-size=256M \
        --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-dump-pct=100 >>mariadb.log 2>&1 &
    pids+=($!)
    await mariadb-admin --no-defaults --socket="$dir/socket" -u root ping
    mariadb-admin --no-defaults --socket="$dir/socket" -u root create test 2>/dev/null || true
    sysbench oltp_point_select --db-driver=mysql --mysql-socket="$dir/socket" --mysql-user=root \
        --mysql-db=test --table-size=400000 prepare >>mariadb.log
    mariadb-admin --no-defaults --socket="$dir/socket" -u root shutdown
    wait "${pids[-1]}"
}

nginx_files() {
    mkdir -p nginx/files
    local i
    for i in {1..512}; do head -c 65536 /dev/zero | tr '\0' x >"nginx/files/$i"; done
    cat >nginx/nginx.conf <<CONF
daemon off;
worker_processes 1;
pid nginx.pid;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:PORT;
        root $dir/nginx/files;
    }
}
CONF
}

cp -r "$here/servers" .
if has redis redis-server redis-cli redis-benchmark; then redis; fi
if has postgres initdb pg_ctl pgbench; then postgres_data; fi
if has mariadb mariadb-install-db mariadbd mariadb-admin sysbench; then mariadb_data; fi
if has nginx nginx; then nginx_files; fi
if has java javac; then javac -d classes servers/Server.java; fi
touch complete
