"""The package on the synthetic profile of the project's tests: 77 accesses, 32 of them remote.

NUMALENS_SYNTHETIC names the program that writes that profile (an example of crates/profile).
"""

import contextlib
import io
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import unittest
import zipfile

import matplotlib

matplotlib.use("Agg")

import numalens  # noqa: E402

HERE = pathlib.Path(__file__).parent


def synthetic(directory, name, engine="sample"):
    """Path of a new synthetic profile."""
    path = pathlib.Path(directory) / name
    subprocess.run([os.environ["NUMALENS_SYNTHETIC"], str(path), engine], check=True, stdout=subprocess.DEVNULL)
    return path


def fleet(folder, profiles=20, facts=3200):
    """Paths of the profiles of a new fleet: 20 ranks on 10 hosts, of which crates/profile/src/testing/fleet.rs says who stands out."""
    command = [os.environ["NUMALENS_SYNTHETIC"], "--fleet", str(profiles), "--facts", str(facts), str(folder)]
    subprocess.run(command, check=True)
    return sorted(pathlib.Path(folder).iterdir())


class WithProfile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.path = synthetic(cls.directory.name, "app.numalens")
        cls.exact_path = synthetic(cls.directory.name, "exact.numalens", "exact")
        cls.profile = numalens.open(cls.path)
        cls.exact = numalens.open(cls.exact_path)


class Tables(WithProfile):
    def test_meta_says_how_it_was_made(self):
        self.assertEqual(self.profile.meta["engine"], "sample")
        self.assertEqual(self.profile.meta["command"], ["./app", "8"])

    def test_tables_come_as_arrow_polars_and_pandas(self):
        threads = self.profile.table("threads")
        self.assertEqual(threads.column("name").to_pylist(), ["app", "worker", "floater", "child"])
        self.assertEqual(threads.column_names[0], "process")
        self.assertEqual(list(self.profile.pandas("threads")["name"]), ["app", "worker", "floater", "child"])
        self.assertEqual(self.profile.polars("threads")["tid"].to_list(), [1000, 1001, 1002, 1003])

    def test_a_table_that_the_profile_lacks_is_empty_and_has_its_columns(self):
        self.assertEqual(self.exact.rows("select count(*) as n from node_accesses where allocated > 0"), [{"n": 0}])
        self.assertIn("latency", self.exact.table("samples").column_names)

    def test_a_table_that_is_none_is_refused(self):
        with self.assertRaisesRegex(KeyError, "no table nonsense: there are"):
            self.profile.table("nonsense")

    def test_sql(self):
        rows = self.profile.rows("select class::varchar as class, sum(reads + writes) as n from site_accesses group by 1 order by 2 desc limit 1")
        self.assertEqual([(row["class"], int(row["n"])) for row in rows], [("remote", 32)])
        answer = self.profile.rows("select name from threads where thread = ?", [3])
        self.assertEqual(answer, [{"name": "child"}])

    def test_a_packed_profile_is_opened_as_a_directory_is(self):
        packed = pathlib.Path(self.directory.name) / "packed.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in self.path.iterdir():
                archive.write(file, file.name)
        self.assertEqual(numalens.open(packed).matrix(), self.profile.matrix())

    def test_what_pack_wrote_is_opened(self):
        # `numalens pack` puts the tables into a directory of the archive.
        packed = pathlib.Path(self.directory.name) / "app.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for file in self.path.iterdir():
                archive.write(file, f"app.numalens/{file.name}")
            archive.writestr("../evil.parquet", "outside")
            archive.writestr("app.numalens/notes.txt", "no table")
        self.assertEqual(numalens.open(packed).matrix(), self.profile.matrix())
        self.assertEqual(numalens.open(packed).meta, self.profile.meta)

    def test_what_is_no_profile_is_refused(self):
        with self.assertRaisesRegex(numalens.ProfileError, "no profile"):
            numalens.open(self.directory.name)
        damaged = pathlib.Path(self.directory.name) / "damaged.numalens"
        damaged.mkdir()
        (damaged / "meta.parquet").write_bytes(b"PAR1 nonsense PAR1")
        with self.assertRaises(numalens.ProfileError):
            numalens.open(damaged)
        with self.assertRaisesRegex(numalens.ProfileError, "no profiles match"):
            numalens.open_all(self.directory.name + "/none-*")


class Figures(WithProfile):
    def test_the_matrix(self):
        nodes, rows, unpinned = self.profile.matrix()
        self.assertEqual(nodes, [0, 1, 2, 3])
        self.assertEqual(rows, [[16, 0, 0, 0], [32, 6, 0, 0], [0, 0, 0, 10], [0, 0, 0, 0]])
        self.assertEqual(unpinned, [4, 3, 3, 2])
        self.assertEqual(self.exact.matrix(), self.profile.matrix())

    def test_lines_most_remote_first(self):
        first = self.profile.lines()[0]
        self.assertEqual((first.file, first.line, first.function, first.remote), ("app.c", 21, "step", 32))
        self.assertEqual(sum(line.accesses for line in self.profile.lines()), 77)

    def test_objects_most_accessed_first(self):
        first = self.profile.objects()[0]
        self.assertEqual((first.kind, first.name, first.accesses, first.function, first.line), ("heap", "a", 53, "main", 50))


class Flows(WithProfile):
    def test_the_object_event_flow_is_in_order_of_time(self):
        array = self.profile.objects()[0]
        events = list(self.profile.object_flow(array))
        self.assertEqual(len(events), 53)
        self.assertEqual([event.time_s for event in events], sorted(event.time_s for event in events))
        # First written by thread 0 on its node, then used by thread 1 from another.
        self.assertEqual((events[0].thread, events[0].access, events[0].is_distant), (0, "write", False))
        self.assertEqual(sum(event.is_distant for event in events), 32)
        self.assertEqual({thread for thread, _ in self.profile.object_flow(array).by_thread()}, {0, 1, 2})

    def test_exact_counts_make_the_same_flow_in_bins(self):
        events = list(self.exact.object_flow(self.exact.objects()[0]))
        self.assertEqual(sum(event.count for event in events), 53)
        self.assertEqual(sum(event.count for event in events if event.is_distant), 32)
        self.assertIsNone(events[0].latency)

    def test_an_object_by_its_id(self):
        self.assertEqual(len(list(self.profile.object_flow(0))), 53)

    def test_the_thread_event_flow(self):
        self.assertEqual(sum(event.count for event in self.profile.thread_flow(1)), 39)
        self.assertEqual(sum(event.count for event in self.exact.thread_flow(1)), 39)

    def test_two_flows_at_once(self):
        left, right = self.profile.thread_flow(0), self.profile.thread_flow(1)
        self.assertEqual(len(list(zip(left, right))), 16)


class Many(WithProfile):
    def test_ranks_nodes_and_lines_that_stand_out(self):
        run = numalens.open_all([self.path, self.exact_path])
        ranks = run.rows(numalens.questions.RANKS_THAT_STAND_OUT)
        # Two processes in each profile share a row: they have no rank and one host.
        self.assertEqual([(row["profile"], int(row["accesses"])) for row in ranks], [(0, 77), (1, 77)])
        # 2 of them to memory without CPUs.
        self.assertAlmostEqual(ranks[0]["remote_share"], 34 * 100 / 77)
        nodes = run.rows(numalens.questions.NODES_THAT_STAND_OUT)
        self.assertEqual((nodes[0]["node"], int(nodes[0]["accesses"])), (0, 52))
        lines = run.rows(numalens.questions.LINES_THAT_STAND_OUT)
        self.assertEqual((lines[0]["line"], lines[0]["profiles"], int(lines[0]["remote"])), (21, 2, 64))


class Fleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.run_of_all = numalens.open_all(fleet(pathlib.Path(directory.name) / "fleet"))

    def test_a_host_whose_pages_are_all_on_one_node(self):
        hosts = self.run_of_all.hosts_that_stand_out()
        self.assertEqual([(row["host"], row["profiles"], row["busiest_node"]) for row in hosts], [("host-03", 2, 1)])
        self.assertEqual(hosts[0]["busiest_share"], 100)
        self.assertGreater(hosts[0]["remote_share"], 70)

    def test_ranks(self):
        ranks = self.run_of_all.ranks_that_stand_out()
        self.assertEqual({row["mpi_rank"] for row in ranks[:2]}, {6, 7})
        self.assertEqual({row["mpi_rank"] for row in ranks[2:4]}, {3, 12})
        self.assertEqual({row["mpi_rank"] for row in ranks[4:]}, {1, 9, 18, 19})
        everyone = self.run_of_all.rows(numalens.questions.RANKS_THAT_STAND_OUT)
        self.assertEqual(len(everyone), 20)
        self.assertEqual([row for row in everyone if row["stands_out"]], ranks)

    def test_the_rule_is_of_medians(self):
        # As statistics has them, from the shares themselves.
        ranks = self.run_of_all.rows(numalens.questions.RANKS_THAT_STAND_OUT)
        shares = [row["remote"] * 100 / row["accesses"] for row in ranks]
        middle = statistics.median(shares)
        spread = max(1.0, statistics.median(abs(share - middle) for share in shares))
        for row, share in zip(ranks, shares):
            self.assertAlmostEqual(row["deviation"], (share - middle) / (1.4826 * spread))
            self.assertEqual(row["stands_out"], row["deviation"] > 3.5)

    def test_a_line_and_an_object_that_are_remote_in_some_ranks(self):
        lines = {row["line"]: row for row in self.run_of_all.lines_that_stand_out()}
        # Each fault, and the host on which all is remote.
        self.assertEqual({line: row["profiles_out"] for line, row in lines.items()}, {88: 4, 120: 4, 150: 4})
        objects = {row["name"]: row for row in self.run_of_all.objects_that_stand_out()}
        self.assertEqual({name: row["line"] for name, row in objects.items()}, {"mesh": 12, "halo": 13, "table": 14})
        self.assertIn(objects["table"]["worst_profile"], {1, 6, 7, 18})
        self.assertEqual(objects["table"]["excess"], lines[150]["excess"])

    def test_the_number_of_a_profile_is_that_of_its_path(self):
        rows = self.run_of_all.rows("select profile, rank from processes order by profile")
        self.assertEqual([row["rank"] for row in rows], list(range(20)))
        self.assertIn("rank-0007", self.run_of_all.paths[7])


class Plots(WithProfile):
    def test_the_matrix_has_a_cell_for_each_pair(self):
        axes = numalens.plot.matrix(self.profile)
        self.assertEqual(axes.images[0].get_array().shape, (5, 4))
        # 32 of the 76 accesses to pages that have a home.
        self.assertIn("42.1", [text.get_text() for text in axes.texts])

    def test_pages_of_an_object(self):
        axes = numalens.plot.pages(self.profile, self.profile.objects()[0])
        grid = axes.images[0].get_array()
        self.assertEqual(grid.shape, (3, 9))
        self.assertEqual(int(grid.sum()), 53)

    def test_the_timeline_has_a_curve_for_each_class(self):
        axes = numalens.plot.timeline(self.profile)
        self.assertEqual(sum(sum(line.get_ydata()) for line in axes.lines), 77)


class Notebook(WithProfile):
    def test_the_notebook_runs_from_the_recording_to_the_finding(self):
        notebook = json.loads((HERE / "../notebooks/from-recording-to-finding.ipynb").read_text(encoding="utf-8"))
        names = {"PROFILE": str(self.path)}
        printed = io.StringIO()
        for cell in notebook["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and not source.startswith("PROFILE ="):
                with contextlib.redirect_stdout(printed):
                    exec(compile(source, "notebook", "exec"), names)
        self.assertIn("app.c:21 step: 32 of 39 remote", printed.getvalue())
        self.assertEqual(names["worst"].line, 21)
        self.assertEqual(names["array"].name, "a")


if __name__ == "__main__":
    unittest.main()
