"""Runs a deck of xgsw under ReFrame 4:  reframe -c run/packaging/reframe/xgsw.py -r
It takes the xgsw of XGSW_TOP (which the module sets), else that on the path, else that whose folder holds this file.
    -S deck=/path/my.dat -S num_tasks=512 -S num_tasks_per_node=8    another deck, on other ranks
    -P deck=a.dat,b.dat                                              a test for each deck
XGSW_REFERENCE names a JSON file with a site's references:
    {"SYSTEM:PARTITION": {"case1-llama3.1-8b-bf16": [105000, -0.05, 0.05, "tokens/s"], "valid": [1, 0, 0, "cases"]}}
"""
import json
import os
import shutil

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_before, sanity_function, variable

HERE = os.path.dirname(os.path.realpath(__file__))
FOUND = shutil.which("xgsw") or f"{HERE}/../../../xgsw"
TOP = os.environ.get("XGSW_TOP") or os.path.dirname(os.path.realpath(FOUND))


def references():
    """Returns those of the site, as ReFrame takes them."""
    with open(os.environ.get("XGSW_REFERENCE", os.devnull), encoding="utf-8") as f:
        places = json.loads(f.read() or "{}")
    return {place: {name: tuple(row) for name, row in rows.items()} for place, rows in places.items()}


@rfm.simple_test
class XgswTest(rfm.RunOnlyRegressionTest):
    """Needs exit status 0 and a verdict PASSED or ACCEPTED; measures tokens/s of each case."""

    descr = "LLM pre-training steps, timed and checked by xgsw"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    num_tasks = 2
    deck = variable(str, value="gsw.dat")
    executable = f"{TOP}/xgsw"
    keep_files = ["*.h5", "*.verdict"]
    reference = references()

    @run_before("run")
    def set_command(self):
        """Lets run/local start the ranks where the partition has no parallel launcher."""
        self.executable_opts = [self.deck]
        if self.current_partition.launcher_type.registered_name == "local":
            self.executable = f"{TOP}/run/local"
            self.executable_opts = ["-n", str(self.num_tasks), self.deck]

    @sanity_function
    def is_passed(self):
        return sn.all([sn.assert_found(r"^(PASSED|ACCEPTED)(: |, but )", self.stdout),
                       sn.assert_in(self.job.exitcode, (0, None))])

    @run_before("performance")
    def read_results(self):
        """Measures tokens/s of each case, and how many cases are PASSED and VALID."""
        log = os.path.join(self.stagedir, str(self.stdout))
        cases = sn.extractall(r"^XGSW_RESULT (.*)", log, 1, json.loads).evaluate()
        rows = {"case{case}-{workload}-{precision}".format(**case): (case["tokens_per_second"] or 0, "tokens/s")
                for case in cases}
        rows["passed"] = sum(case["verdict"] == "PASSED" for case in cases), "cases"
        rows["valid"] = sum(case["valid"] for case in cases), "cases"
        self.perf_variables = {name: sn.make_performance_function(sn.defer(value), unit)
                               for name, (value, unit) in rows.items()}
