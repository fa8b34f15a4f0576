"""The same questions in Spark, on a local cluster of two workers: `make spark` (it downloads Spark, and needs Java 17)."""

import tempfile
import unittest

from pyspark.sql import SparkSession
from test_numalens import synthetic

import numalens


class Cluster(unittest.TestCase):
    def test_spark_and_duckdb_give_the_same_answers(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = [synthetic(directory, f"run-{rank}.numalens", engine) for rank, engine in enumerate(["sample", "exact"])]
            run = numalens.open_all(paths)
            session = SparkSession.builder.master("local-cluster[2,1,1024]").appName("numalens").getOrCreate()
            self.addCleanup(session.stop)
            numalens.spark.views(session, paths)
            for question in ["RANKS_THAT_STAND_OUT", "NODES_THAT_STAND_OUT", "LINES_THAT_STAND_OUT"]:
                text = getattr(numalens.questions, question)
                theirs = [tuple(row) for row in session.sql(text).collect()]
                ours = [tuple(row.values()) for row in run.rows(text)]
                plain = [[tuple(round(float(v), 6) if isinstance(v, float) or hasattr(v, "as_tuple") else v for v in row) for row in rows] for rows in (theirs, ours)]
                self.assertEqual(*plain, question)


if __name__ == "__main__":
    unittest.main()
