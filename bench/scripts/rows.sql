create table t(a integer primary key, b text, c int);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 600000)
insert into t select i, 'row' || i, (i * 7919) % 1009 from n;
create index tc on t(c);
select c, count(*), max(b) from t group by c order by 2 desc limit 3;
select sum(length(b)) from t where c in (select c from t where a % 17 = 3);
