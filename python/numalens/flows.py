"""MemProf's flows: the accesses to one object, or by one thread, in order of time.

    for obj in profile.objects():
        for event in profile.object_flow(obj):
            if event.is_distant: ...

With samples an event is one of them. Exact counts keep no single accesses: an event is what one thread did in one time bin, at the bin's beginning.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Object:
    """Memory that the program knows by one name or one allocation."""

    id: int
    profile: int
    kind: str
    name: str
    base: int
    size: int
    thread: int | None
    birth_s: float
    death_s: float | None
    accesses: int
    function: str | None
    file: str | None
    line: int | None


@dataclass(frozen=True)
class Event:
    """One sampled access, or the accesses of one kind in a time bin."""

    time_s: float
    thread: int
    #: Node that the thread was bound to; None: unpinned.
    node: int | None
    #: Node of the page; None: it had none.
    home: int | None
    object: int | None
    #: `read`, `write`, `read_write`.
    access: str
    count: int
    #: Access class, a word of docs/reference/metrics.md.
    access_class: str
    site: int | None
    stack: int | None
    address: int | None
    #: Cycles, and what answered, where the hardware told.
    latency: int | None
    source: str | None

    @property
    def is_distant(self) -> bool:
        """Whether thread and page were on different nodes."""
        return self.access_class in ("remote", "memory_tier_remote")

    @property
    def hit_dram(self) -> bool | None:
        """Whether memory answered, not a cache; None: nobody knows."""
        return None if self.source in (None, "unknown") else self.source in ("local_memory", "remote_memory")


class Flow:
    """Events in order of time. It can be gone through any number of times."""

    def __init__(self, profile, query, parameters):
        self._profile, self._query, self._parameters = profile, query, parameters

    def __iter__(self) -> Iterator[Event]:
        # A cursor of its own: two flows may be gone through at once.
        cursor = self._profile.connection.cursor()
        cursor.execute(self._query, self._parameters)
        while rows := cursor.fetchmany(10_000):
            for row in rows:
                yield Event(row[0] / 1e9, *row[1:])

    def by_thread(self) -> Iterator[tuple[int, list[Event]]]:
        """Events of each thread together."""
        threads: dict[int, list[Event]] = {}
        for event in self:
            threads.setdefault(event.thread, []).append(event)
        yield from sorted(threads.items())


_SAMPLES = """select time_ns, thread, node, home, object, access::varchar, 1, class::varchar, site, stack, address, latency, source::varchar
    from samples where profile = $profile and {which}"""
_BINS = """select bin * {bin_ns}::ubigint as time_ns, thread, node, home, {object}, access, n, class::varchar, site, null, null, null, null from (
    select *, 'read' as access, reads as n from {table} where profile = $profile and {which} and reads > 0
    union all select *, 'write' as access, writes as n from {table} where profile = $profile and {which} and writes > 0)"""


def _flow(profile, number: int, which: str, value: int, table: str) -> Flow:
    parameters = {"profile": number, "value": value}
    # Beside exact counts there may be samples of some accesses: they are not all.
    if profile.metas[number]["unit"] != "accesses":
        query = _SAMPLES.format(which=which)
    else:
        obj = "object" if table == "object_accesses" else "null"
        query = _BINS.format(which=which, table=table, object=obj, bin_ns=int(profile.metas[number]["bin_ns"]))
    return Flow(profile, f"select * from ({query}) order by time_ns, thread", parameters)


def of_object(profile, obj) -> Flow:
    """The object event flow."""
    number, key = (obj.profile, obj.id) if isinstance(obj, Object) else (0, int(obj))
    return _flow(profile, number, "object = $value", key, "object_accesses")


def of_thread(profile, thread: int, number: int = 0) -> Flow:
    """The thread event flow."""
    return _flow(profile, number, "thread = $value", int(thread), "site_accesses")


def objects(profile) -> list[Object]:
    """Objects, the most accessed first."""
    rows = profile.rows(
        """with counts as (
            select profile, object, sum(reads + writes)::hugeint as n from object_accesses group by profile, object
            union all select profile, object, (local + remote + unpinned_page + unpinned_thread + unpinned_both + memory_tier_local
                + memory_tier_remote + first_touch + unpinned_first_touch)::hugeint from class_sums where object is not null)
        select o.object, o.profile, o.kind::varchar as kind, o.name, o.base, o.size, o.thread, o.birth_ns, o.death_ns,
               coalesce(c.n, 0) as n, functions.name as function, frames.file, frames.line
        from objects o left join counts c on c.profile = o.profile and c.object = o.object
        left join frames on frames.profile = o.profile and frames.site = o.site and frames.depth = 0
        left join functions on functions.profile = o.profile and functions.function = frames.function
        order by n desc, o.profile, o.object"""
    )
    return [
        Object(
            id=r["object"],
            profile=r["profile"],
            kind=r["kind"],
            name=r["name"],
            base=r["base"],
            size=r["size"],
            thread=r["thread"],
            birth_s=r["birth_ns"] / 1e9,
            death_s=None if r["death_ns"] is None else r["death_ns"] / 1e9,
            accesses=int(r["n"]),
            function=r["function"],
            file=r["file"],
            line=r["line"],
        )
        for r in rows
    ]
