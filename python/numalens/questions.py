"""Questions about many profiles at once (ranks, hosts), as SQL that DuckDB and Spark both understand.

Tables have a column `profile`; a rank stands in `processes`. Answers have every host, rank, line or object, the worst first, and say which `stands_out`.

The rule: something stands out where its remote share is far above the median of all, in units of their spread.

    deviation = (share - median) / (1.4826 * MAD), and it stands out above 3.5

MAD is the median distance from the median, at least one percentage point, so that shares which differ by less than five points are alike. Both are medians, as a mean and a standard deviation are moved by the very ones that are looked for.

Lines and objects are compared with themselves in other profiles. One stands out where it does so in a profile, and costs it there at least a hundredth of all accesses in remote ones beyond the median.
"""

#: The classes of accesses that go to another node.
_REMOTE = "case when class in ('remote', 'memory_tier_remote') then reads + writes else 0 end"
_PERCENT = "cast({part} as double) * 100 / cast({all} as double)"
_DEVIATION = "({share} - {median}) / (1.4826 * greatest({mad}, 1.0))"
_LEAST_DEVIATION = 3.5
#: Least part of a profile's accesses, in percent.
_LEAST_EXCESS = 1.0

_BY_PROCESS = f"""by_process as (
    select profile, process, sum(reads + writes) as accesses, sum({_REMOTE}) as remote from site_accesses group by profile, process)"""

#: Ranks by their share of remote accesses.
RANKS_THAT_STAND_OUT = f"""
with {_BY_PROCESS},
sums as (
    select p.profile, p.host, p.rank as mpi_rank, cast(sum(s.accesses) as bigint) as accesses, cast(sum(s.remote) as bigint) as remote
    from by_process s join processes p on p.profile = s.profile and p.process = s.process
    group by p.profile, p.host, p.rank),
shares as (select *, {_PERCENT.format(part="remote", all="accesses")} as remote_share from sums where accesses > 0),
middle as (select median(remote_share) as median_share from shares),
spread as (select median(abs(remote_share - median_share)) as mad from shares cross join middle),
judged as (
    select profile, host, mpi_rank, accesses, remote, remote_share, median_share,
           {_DEVIATION.format(share="remote_share", median="median_share", mad="mad")} as deviation
    from shares cross join middle cross join spread)
select *, deviation > {_LEAST_DEVIATION} as stands_out from judged order by deviation desc, profile, host, mpi_rank nulls last
"""

#: Hosts by their share of remote accesses, and by how much of what its nodes serve the busiest one serves.
HOSTS_THAT_STAND_OUT = f"""
with {_BY_PROCESS},
sums as (
    select p.host, count(distinct p.profile) as profiles, cast(sum(s.accesses) as bigint) as accesses, cast(sum(s.remote) as bigint) as remote
    from by_process s join processes p on p.profile = s.profile and p.process = s.process
    group by p.host),
by_home as (
    select profile, process, home, sum(reads + writes) as served from site_accesses where home is not null group by profile, process, home),
by_node as (
    select p.host, s.home as node, cast(sum(s.served) as bigint) as served
    from by_home s join processes p on p.profile = s.profile and p.process = s.process
    group by p.host, s.home),
ranked as (
    select *, row_number() over (partition by host order by served desc, node) as place, sum(served) over (partition by host) as all_served
    from by_node),
busiest as (
    select host, node as busiest_node, {_PERCENT.format(part="served", all="all_served")} as busiest_share from ranked where place = 1 and all_served > 0),
shares as (
    select sums.*, {_PERCENT.format(part="remote", all="accesses")} as remote_share, busiest_node, busiest_share
    from sums left join busiest on busiest.host = sums.host where accesses > 0),
middle as (select median(remote_share) as median_share, median(busiest_share) as median_busiest from shares),
spread as (
    select median(abs(remote_share - median_share)) as mad, median(abs(busiest_share - median_busiest)) as mad_busiest from shares cross join middle),
judged as (
    select host, profiles, accesses, remote, remote_share, median_share,
           {_DEVIATION.format(share="remote_share", median="median_share", mad="mad")} as deviation,
           busiest_node, busiest_share, median_busiest,
           coalesce({_DEVIATION.format(share="busiest_share", median="median_busiest", mad="mad_busiest")}, 0.0) as busiest_deviation
    from shares cross join middle cross join spread)
select *, deviation > {_LEAST_DEVIATION} or busiest_deviation > {_LEAST_DEVIATION} as stands_out
from judged order by greatest(deviation, busiest_deviation) desc, host
"""

#: Nodes by what they serve in each profile, the busiest first.
NODES_THAT_STAND_OUT = """
with sums as (
    select profile, home, sum(reads + writes) as accesses from site_accesses where home is not null group by profile, home)
select profile, home as node, accesses,
       cast(accesses as double) * 100 / cast(sum(accesses) over (partition by profile) as double) as share
from sums order by share desc, profile, node
"""


def _things(keys: str, sums: str) -> str:
    """What each thing with these keys does in each profile, compared with itself. `sums`: keys, profile, accesses, remote."""
    named = keys.split(", ")
    join = " and ".join(f"{{0}}.{key} is not distinct from {{1}}.{key}" for key in named)
    return f"""
with sums as ({sums}),
whole as (select profile, sum(accesses) as all_accesses from sums group by profile),
shares as (select *, {_PERCENT.format(part="remote", all="accesses")} as remote_share from sums where accesses > 0),
middle as (select {keys}, median(remote_share) as median_share from shares group by {keys}),
distances as (
    select shares.*, middle.median_share, abs(shares.remote_share - middle.median_share) as distance
    from shares join middle on {join.format("middle", "shares")}),
spread as (select {keys}, median(distance) as mad from distances group by {keys}),
judged as (
    select distances.*, whole.all_accesses,
           {_DEVIATION.format(share="distances.remote_share", median="distances.median_share", mad="spread.mad")} as deviation,
           cast(round(cast(distances.remote as double) - distances.median_share * cast(distances.accesses as double) / 100) as bigint) as beyond
    from distances join spread on {join.format("spread", "distances")} join whole on whole.profile = distances.profile),
flagged as (
    select *, deviation > {_LEAST_DEVIATION} and cast(beyond as double) * 100 >= {_LEAST_EXCESS} * cast(all_accesses as double) as is_out,
           row_number() over (partition by {keys} order by deviation desc, profile) as place
    from judged)
select {keys}, count(distinct profile) as profiles, cast(sum(accesses) as bigint) as accesses, cast(sum(remote) as bigint) as remote,
       max(median_share) as median_share, count(case when is_out then 1 end) as profiles_out,
       max(case when place = 1 then profile end) as worst_profile, max(case when place = 1 then remote_share end) as worst_share,
       cast(sum(case when is_out then beyond else 0 end) as bigint) as excess, count(case when is_out then 1 end) > 0 as stands_out
from flagged group by {keys}
order by excess desc, remote desc, accesses desc, {", ".join(f"{key} nulls last" for key in named)}
"""


#: Source lines by the remote accesses that they have beyond the median of all profiles.
LINES_THAT_STAND_OUT = _things(
    "file, line, function_name",
    f"""
    select f.file, f.line, coalesce(g.name, 'unknown') as function_name, s.profile, sum(s.accesses) as accesses, sum(s.remote) as remote
    from (select profile, site, sum(reads + writes) as accesses, sum({_REMOTE}) as remote from site_accesses group by profile, site) s
    left join frames f on f.profile = s.profile and f.site = s.site and f.depth = 0
    left join functions g on g.profile = f.profile and g.function = f.function
    group by f.file, f.line, coalesce(g.name, 'unknown'), s.profile""",
)

#: Objects, by what they are and the line that allocated them, by the same.
OBJECTS_THAT_STAND_OUT = _things(
    "kind, name, file, line, function_name",
    f"""
    select o.kind, o.name, f.file, f.line, g.name as function_name, s.profile,
           sum(s.accesses) as accesses, sum(s.remote) as remote
    from (select profile, object, sum(reads + writes) as accesses, sum({_REMOTE}) as remote from object_accesses group by profile, object) s
    join objects o on o.profile = s.profile and o.object = s.object
    left join frames f on f.profile = o.profile and f.site = o.site and f.depth = 0
    left join functions g on g.profile = f.profile and g.function = f.function
    group by o.kind, o.name, f.file, f.line, g.name, s.profile""",
)


class Questions:
    """The questions, one call each, for whoever answers SQL with `rows`: what stands out alone, the worst first."""

    def rows(self, query: str) -> list[dict]:
        """The rows of a query as dictionaries."""
        raise NotImplementedError

    def _out(self, question: str) -> list[dict]:
        return [row for row in self.rows(question) if row["stands_out"]]

    def hosts_that_stand_out(self) -> list[dict]:
        """Hosts with far more remote accesses than others, or of which one node serves far more of them."""
        return self._out(HOSTS_THAT_STAND_OUT)

    def ranks_that_stand_out(self) -> list[dict]:
        """Ranks with far more remote accesses than others."""
        return self._out(RANKS_THAT_STAND_OUT)

    def lines_that_stand_out(self) -> list[dict]:
        """Source lines that are far more remote in some profiles than in others."""
        return self._out(LINES_THAT_STAND_OUT)

    def objects_that_stand_out(self) -> list[dict]:
        """Objects that are far more remote in some profiles than in others."""
        return self._out(OBJECTS_THAT_STAND_OUT)
