"""A profile, or several as one: tables, SQL, lines, objects, flows."""

import builtins
import glob
import json
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from . import flows
from .questions import Questions
from .tables import Files, schemas


class ProfileError(ValueError):
    """What was asked for is no profile, or damaged."""


@dataclass(frozen=True)
class Line:
    """A source line, with the accesses from it. Without line information `file` and `line` are None."""

    file: str | None
    line: int | None
    function: str
    accesses: int
    remote: int


def open(path) -> "Profile":
    """The profile at `path`: a directory, one that is still being recorded, or a packed file."""
    return Profile([path])


def open_all(pattern) -> "Profile":
    """Several profiles as one, by a pattern such as `run-*.numalens` or a list of paths.

    All tables have a column `profile`, the number of the profile in the order of paths; ids are unique within one profile only.
    """
    return Profile(_paths(pattern))


def _paths(pattern) -> list:
    paths = sorted(glob.glob(pattern)) if isinstance(pattern, str) else builtins.list(pattern)
    if not paths:
        raise ProfileError(f"no profiles match {pattern}")
    return paths


def _meta(files: Files) -> dict:
    rows = pq.read_table(str(files.directory / "meta.parquet")).to_pydict()
    return {key: json.loads(value) for key, value in zip(rows["key"], rows["value"])}


class Profile(Questions):
    """One profile, or several that are looked at together."""

    def __init__(self, paths):
        self.paths = [str(path) for path in paths]
        self._schemas = schemas()
        try:
            self._files = [Files(path) for path in paths]
            self.metas = [_meta(files) for files in self._files]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ProfileError(str(error)) from error
        self.connection = duckdb.connect()
        for table in self._schemas:
            self._view(table)

    @property
    def meta(self) -> dict:
        """How it was made (of the first, when there are several)."""
        return self.metas[0]

    @property
    def tables(self) -> list[str]:
        """The tables that a profile may have; those that this one lacks are empty."""
        return list(self._schemas)

    def _view(self, table: str):
        """A table of all profiles in one read: the path of its file tells whose a row is."""
        numbers = {}
        for number, (files, meta) in enumerate(zip(self._files, self.metas)):
            numbers.update((path, number) for path in files.of(table, meta.get("files")))
        if not numbers:
            columns = [pa.field("profile", pa.uint32()), *self._schemas[table]]
            plain = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in columns]
            # A table of its own: what is registered only its own connection sees, and flows have one each.
            self.connection.register("absent", pa.schema(plain).empty_table())
            self.connection.execute(f'create table "{table}" as select * from absent').fetchall()
            self.connection.unregister("absent")
            return
        self.connection.register("found", pa.table({"filename": [*numbers], "profile": pa.array(numbers.values(), pa.uint32())}))
        self.connection.execute(f'create table "files of {table}" as select * from found').fetchall()
        self.connection.unregister("found")
        paths = ", ".join("'" + path.replace("'", "''") + "'" for path in numbers)
        read = f"read_parquet([{paths}], union_by_name = true"
        if len(self._files) == 1:
            view = f"select 0::uinteger as profile, * from {read})"
        else:
            view = f"""select files.profile, read.* exclude (filename) from {read}, filename = true) as read
                join "files of {table}" as files on files.filename = read.filename"""
        self.connection.execute(f'create view "{table}" as {view}').fetchall()

    def sql(self, query: str, parameters=None) -> duckdb.DuckDBPyRelation:
        """A query over the tables; the answer has `.arrow()`, `.pl()`, `.df()`, `.fetchall()`, `.show()`."""
        return self.connection.sql(query, params=parameters)

    def rows(self, query: str, parameters=None) -> list[dict]:
        """The rows of a query as dictionaries."""
        answer = self.sql(query, parameters)
        return [] if answer is None else [dict(zip(answer.columns, row)) for row in answer.fetchall()]

    def table(self, name: str) -> pa.Table:
        """A table as Arrow, with its own columns; several profiles have the column `profile` before them."""
        if name not in self._schemas:
            raise KeyError(f"no table {name}: there are {', '.join(self._schemas)}")
        answer = self.sql(f'select * from "{name}"').to_arrow_table()
        return answer if len(self._files) > 1 else answer.drop_columns(["profile"])

    def polars(self, name: str):
        """A table as a Polars frame."""
        import polars

        return polars.from_arrow(self.table(name))

    def pandas(self, name: str):
        """A table as a pandas frame."""
        return self.table(name).to_pandas()

    def weight(self, row) -> int:
        """What one counted sample of a row stands for: 1 where the unit counts accesses or time itself."""
        return row["period"] if self.meta["unit"] == "estimated accesses" else 1

    def nodes(self) -> list[int]:
        """The machine's nodes."""
        return [row["node"] for row in self.rows("select distinct node from machine order by node")]

    def matrix(self) -> tuple[list[int], list[list[int]], list[int]]:
        """Accesses by the thread's node (rows) and the page's home (columns): nodes, rows, and the row of unpinned threads.

        A profile of another tool's sums has them in `node_accesses`, own recordings in `site_accesses`.
        """
        estimated = "period" if self.meta["unit"] == "estimated accesses" else "1"
        cells = self.rows(
            f"""select node, home, sum(n)::hugeint as n from (
                select node, home, (reads + writes) * {estimated} as n from site_accesses
                union all select node, home, accesses as n from node_accesses)
            where home is not null group by node, home"""
        )
        nodes = self.nodes()
        at = {(cell["node"], cell["home"]): int(cell["n"]) for cell in cells}
        return nodes, [[at.get((i, j), 0) for j in nodes] for i in nodes], [at.get((None, j), 0) for j in nodes]

    def lines(self) -> list[Line]:
        """Source lines, those with most remote accesses first: the innermost line of each instruction."""
        estimated = "period" if self.meta["unit"] == "estimated accesses" else "1"
        rows = self.rows(
            f"""with counts as (
                select profile, site, sum((reads + writes) * {estimated})::hugeint as accesses,
                       sum(case when class in ('remote', 'memory_tier_remote') then (reads + writes) * {estimated} else 0 end)::hugeint as remote
                from site_accesses group by profile, site
                union all
                select profile, site, (local + remote + unpinned_page + unpinned_thread + unpinned_both + memory_tier_local + memory_tier_remote
                       + first_touch + unpinned_first_touch)::hugeint, (remote + memory_tier_remote)::hugeint
                from class_sums where site is not null)
            select frames.file, frames.line, coalesce(functions.name, 'unknown') as function, sum(accesses) as accesses, sum(remote) as remote
            from counts
            left join frames on frames.profile = counts.profile and frames.site = counts.site and frames.depth = 0
            left join functions on functions.profile = frames.profile and functions.function = frames.function
            group by all order by remote desc, accesses desc, file, line"""
        )
        return [Line(r["file"], r["line"], r["function"], int(r["accesses"]), int(r["remote"])) for r in rows]

    def objects(self) -> builtins.list["flows.Object"]:
        """Objects, the most accessed first."""
        return flows.objects(self)

    def object_flow(self, obj) -> "flows.Flow":
        """MemProf's object event flow: every event of one object (or of one object's id), in order of time."""
        return flows.of_object(self, obj)

    def thread_flow(self, thread: int) -> "flows.Flow":
        """MemProf's thread event flow: every event of one thread, in order of time."""
        return flows.of_thread(self, thread)
