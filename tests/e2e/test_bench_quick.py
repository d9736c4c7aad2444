# SPDX-License-Identifier: Apache-2.0
"""bench/run --quick measures every row and writes well-formed JSON. No figure is judged here."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = ["help", "start", "first", "idle", "missing", "restart", "other_node", "next_round", "lost_agent", "left",
        "rendezvous", "output", "store"]


def bench(*arguments: str) -> subprocess.CompletedProcess:
    line = [sys.executable, str(ROOT / "bench/run"), "--bin-dir", os.environ["CXXRUN_BIN_DIR"], *arguments]
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=540, check=False)


class BenchTest(unittest.TestCase):
    def test_quick_run_measures_every_row(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.json"
            done = bench("--quick", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(path.read_text())
        self.assertTrue(told["quick"])
        self.assertGreater(told["machine"]["cpus"], 0)
        self.assertEqual(set(told["versions"]), {"cxxrun", "hydra", "parallel", "torchrun"})
        self.assertEqual([row["row"] for row in told["rows"]], ROWS)
        for row in told["rows"]:
            with self.subTest(row["row"]):
                self.check_row(row)

    def check_row(self, row: dict) -> None:
        self.assertTrue(row["measures"])
        for measure in row["measures"].values():
            self.assertIn("unit", measure)
            for who, cell in measure["cells"].items():
                if cell["n"] == 0:
                    self.assertTrue(cell["note"], f"{who} has neither a figure nor a reason")
                else:
                    self.assertLessEqual(cell["min"], cell["median"])
                    self.assertLessEqual(cell["median"], cell["max"])
            ours = measure["cells"].get("cxxrun")
            if ours is not None and row["row"] != "store":
                self.assertGreater(ours["n"], 0, f"{row['row']}: no figure of ours: {ours['note']}")
        for bar in row["bars"]:
            self.assertIn(bar["met"], (True, False, None))
            self.assertTrue(bar["bar"] and bar["figure"])

    def test_unknown_row_is_refused_and_the_rows_are_named(self):
        done = bench("no-such-row")
        self.assertEqual(done.returncode, 2)
        self.assertIn("restart", done.stderr)


if __name__ == "__main__":
    unittest.main()
