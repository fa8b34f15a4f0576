# sqlite3 on a file: write-ahead log, indices, a window function, an integrity check.
sqlite3 db <<'END'
pragma journal_mode = wal;
create table t(a integer primary key, b text, c real);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000) insert into t select x, hex(x * 7919 % 10007), x / 3.0 from n;
create index i on t(b);
select count(distinct b), sum(a), round(avg(c), 6) from t;
select b, count(*) from t group by b having count(*) > 2 order by 1 limit 3;
select a, row_number() over (partition by length(b) order by b desc, a) from t order by 2, 1 limit 3;
delete from t where a % 3 = 0; vacuum; pragma integrity_check; select count(*) from t;
END
