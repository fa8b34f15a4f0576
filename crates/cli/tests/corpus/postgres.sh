# postgres with pgbench: parallel clients, a query with parallel workers, a clean stop. It refuses to run as root.
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH
as=
if [ "$(id -u)" = 0 ]; then
    chown nobody . && as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
fi
export PGHOST="$PWD" PGUSER=p PGDATABASE=postgres HOME="$PWD"
$as initdb -D d -U p -A trust --no-sync --no-instructions >/dev/null 2>&1
echo "$?"
$as pg_ctl -D d -l log -w -o "-c listen_addresses='' -c unix_socket_directories='$PWD' -c fsync=off" start >/dev/null
echo "$?"
$as pgbench -q -i -s 1 2>/dev/null
$as pgbench -n -c 4 -j 2 -t 50 | grep -E 'actually processed|failed transactions'
$as psql -Atc 'select count(*) from pgbench_history' \
    -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)' \
    -c 'set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; select count(*), sum(aid) from pgbench_accounts' \
    -c "select md5(string_agg(i::text, ',' order by md5(i::text))) from generate_series(1, 20000) i" -c 'select 1/0' 2>&1
$as pg_ctl -D d -m fast -w stop >/dev/null
echo "$?"
