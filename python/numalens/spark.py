"""The same tables in Spark: `views(session, paths)`, then `session.sql(numalens.questions.…)`."""

from functools import reduce

from .profile import ProfileError, _meta
from .tables import Files, schemas


def views(session, paths):
    """Makes a temporary view of every table that one of the profiles has, with the column `profile`. Directories only."""
    from pyspark.sql import functions

    opened = [Files(path) for path in paths]
    if any(files.path.is_file() for files in opened):
        raise ProfileError("Spark's workers read directories: unpack packed profiles with `numalens unpack`")
    listed = [_meta(files).get("files") for files in opened]
    for table in schemas():
        parts = []
        for number, (files, names) in enumerate(zip(opened, listed)):
            found = files.of(table, names)
            if found:
                parts.append(session.read.parquet(*found).withColumn("profile", functions.lit(number)))
        if parts:
            union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
            union.createOrReplaceTempView(table)
