"""Questions about many profiles at once (ranks, hosts), as SQL that DuckDB and Spark both understand.

Tables have a column `profile`; a rank stands in `processes`.
"""

#: Ranks by their share of remote accesses, the worst first, with how far they are from the mean of all, in standard deviations.
RANKS_THAT_STAND_OUT = """
with sums as (
    select p.profile, p.host, p.rank as mpi_rank,
           sum(s.reads + s.writes) as accesses,
           sum(case when s.class in ('remote', 'memory_tier_remote') then s.reads + s.writes else 0 end) as remote
    from site_accesses s join processes p on p.profile = s.profile and p.process = s.process
    group by p.profile, p.host, p.rank),
shares as (select *, cast(remote as double) * 100 / cast(accesses as double) as remote_share from sums where accesses > 0)
select profile, host, mpi_rank, accesses, remote_share,
       (remote_share - avg(remote_share) over ()) / nullif(stddev_pop(remote_share) over (), 0) as deviation
from shares order by remote_share desc, profile
"""

#: Nodes by what they serve in each profile, the busiest first.
NODES_THAT_STAND_OUT = """
with sums as (
    select profile, home, sum(reads + writes) as accesses from site_accesses where home is not null group by profile, home)
select profile, home as node, accesses,
       cast(accesses as double) * 100 / cast(sum(accesses) over (partition by profile) as double) as share
from sums order by share desc, profile, node
"""

#: Source lines by their remote accesses over all profiles.
LINES_THAT_STAND_OUT = """
select f.file, f.line, g.name as function_name, count(distinct s.profile) as profiles,
       sum(s.reads + s.writes) as accesses,
       sum(case when s.class in ('remote', 'memory_tier_remote') then s.reads + s.writes else 0 end) as remote
from site_accesses s
join frames f on f.profile = s.profile and f.site = s.site and f.depth = 0
join functions g on g.profile = f.profile and g.function = f.function
group by f.file, f.line, g.name order by remote desc, accesses desc, f.file, f.line
"""
