"""The same tables in Spark: `profiles = open_all(session, "run-*.numalens")`, then `profiles.ranks_that_stand_out()` or `profiles.rows("select …")`."""

import os
from urllib.parse import quote

import pyarrow as pa

from .profile import ProfileError, _meta, _paths
from .questions import Questions
from .tables import Files, schemas


class Profiles(Questions):
    """Many profiles, as temporary views of a session."""

    def __init__(self, session, paths):
        self.session, self.paths = session, [str(path) for path in paths]

    def sql(self, query: str):
        """A query over the tables, as a data frame of Spark."""
        return self.session.sql(query)

    def rows(self, query: str) -> list[dict]:
        """The rows of a query as dictionaries."""
        return [row.asDict() for row in self.sql(query).collect()]


def open_all(session, pattern) -> Profiles:
    """Several profiles as one, as `numalens.open_all` does. Directories only, at paths that all workers have."""
    return views(session, _paths(pattern))


def views(session, paths) -> Profiles:
    """Makes a temporary view of every table, with the column `profile`."""
    paths = list(paths)
    opened = [Files(path) for path in paths]
    if any(files.path.is_file() for files in opened):
        raise ProfileError("Spark's workers read directories: unpack packed profiles with `numalens unpack`")
    listed = [_meta(files).get("files") for files in opened]
    # All files are named. By default Spark has its workers look for more than a few, with a task for each.
    listing = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = session.conf.get(listing)
    session.conf.set(listing, str(len(paths) * 100))
    try:
        for table, columns in schemas().items():
            numbers = {}
            for number, (files, names) in enumerate(zip(opened, listed)):
                numbers.update((os.path.abspath(path), number) for path in files.of(table, names))
            _view(session, table, _schema(columns), numbers)
    finally:
        session.conf.set(listing, before)
    return Profiles(session, paths)


def _view(session, table, schema, numbers: dict[str, int]):
    """One read for all files of a table: a plan of a thousand unions would never be made."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if not numbers:
        whole = t.StructType([t.StructField("profile", t.IntegerType(), False), *schema.fields])
        session.createDataFrame([], whole).createOrReplaceTempView(table)
        return
    known = t.StructType([t.StructField("known_path", t.StringType()), t.StructField("profile", t.IntegerType())])
    named = session.createDataFrame([(_as_spark_names(path), number) for path, number in numbers.items()], known)
    # The schema is given: Spark would look at every file for it.
    rows = session.read.schema(schema).parquet(*map(_literal, numbers))
    rows = rows.withColumn("read_path", f.regexp_replace(f.col("_metadata.file_path"), "^file:/+", "/"))
    # A path that Spark writes in another way must not lose its rows.
    nobodys = f.raise_error(f.concat(f.lit("no profile has "), f.col("read_path"))).cast("int")
    joined = rows.join(f.broadcast(named), f.col("read_path") == f.col("known_path"), "left")
    joined = joined.withColumn("profile", f.coalesce(f.col("profile"), nobodys))
    joined.select("profile", *schema.fieldNames()).createOrReplaceTempView(table)


def _schema(columns: pa.Schema):
    """The types that Spark has for the columns: it knows no numbers without a sign."""
    from pyspark.sql import types as t

    known = {
        pa.uint16(): t.IntegerType(),
        pa.uint32(): t.LongType(),
        pa.uint64(): t.DecimalType(20, 0),
        pa.float64(): t.DoubleType(),
        pa.bool_(): t.BooleanType(),
    }
    return t.StructType([t.StructField(c.name, known.get(c.type, t.StringType()), True) for c in columns])


def _as_spark_names(path: str) -> str:
    """The path as Spark has it in `_metadata`: as Java's URIs have it, which leave letters of all languages alone."""
    return "".join(c if ord(c) > 127 else quote(c, safe="/_-!.~'()*,;:$&+=@") for c in path)


def _literal(path: str) -> str:
    """The path for Spark's readers, which take a pattern."""
    return "".join("\\" + c if c in "*?[]{}\\" else c for c in path)
