"""The same questions in Spark, on a local cluster of two workers: `make spark` (it downloads Spark, and needs Java 17)."""

import math
import pathlib
import tempfile
import unittest

from pyspark.sql import SparkSession
from test_numalens import fleet, synthetic

import numalens

QUESTIONS = [name for name in dir(numalens.questions) if name.endswith("_THAT_STAND_OUT")]


def alike(left, right):
    """Whether two answers are equal, but for how sums of fractions were rounded."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return left == right


class Cluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Two workers, each a process of its own. Small tables need no two hundred parts.
        session = SparkSession.builder.master("local-cluster[2,1,1024]").appName("numalens")
        for name, value in [("spark.sql.shuffle.partitions", "4"), ("spark.ui.enabled", "false"), ("spark.ui.showConsoleProgress", "false")]:
            session = session.config(name, value)
        cls.session = session.getOrCreate()
        cls.addClassCleanup(cls.session.stop)
        directory = tempfile.TemporaryDirectory(prefix="many profiles 100% [a+b] ü ")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)

    def compare(self, paths):
        run, profiles = numalens.open_all(paths), numalens.spark.open_all(self.session, paths)
        for question in QUESTIONS:
            text = getattr(numalens.questions, question)
            theirs, ours = profiles.rows(text), run.rows(text)
            self.assertEqual([row.keys() for row in theirs], [row.keys() for row in ours], question)
            for left, right in zip(theirs, ours):
                self.assertTrue(all(alike(left[key], right[key]) for key in left), f"{question}: {left} and {right}")
        return profiles

    def test_spark_and_duckdb_give_the_same_answers(self):
        self.compare([synthetic(self.directory, f"run-{rank}.numalens", engine) for rank, engine in enumerate(["sample", "exact"])])

    def test_a_fleet_stands_out_in_both(self):
        profiles = self.compare(fleet(self.directory / "fleet"))
        self.assertEqual([row["host"] for row in profiles.hosts_that_stand_out()], ["host-03"])
        self.assertEqual({row["mpi_rank"] for row in profiles.ranks_that_stand_out()}, {1, 3, 6, 7, 9, 12, 18, 19})
        self.assertEqual({row["line"] for row in profiles.lines_that_stand_out()}, {88, 120, 150})
        self.assertEqual({row["name"] for row in profiles.objects_that_stand_out()}, {"mesh", "halo", "table"})
        self.assertEqual(profiles.rows("select count(*) as n from samples"), [{"n": 0}])


if __name__ == "__main__":
    unittest.main()
