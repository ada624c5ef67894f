#!/usr/bin/env python3
"""make bench in its small form, whole: it ends well and prints one line for each layout, family and precision. No test
judges a time: the small form has no limits."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "program"))
from program import Tap  # pylint: disable=wrong-import-position

FAMILIES = ("llama3.1-8b", "nemotron4-340b", "gpt3-175b", "grok1-314b")
ROW = re.compile(r"(\S+) +(fp32|bf16) +(\S+) s +(\S+) GF/s  of sgemm +(\S+)  of Llama's +(\S+)  products +(\S+)%")
tap = Tap()
done = subprocess.run(["validation/bench/run", "--small"], env=dict(os.environ, OMP_WAIT_POLICY="passive"),
                      capture_output=True, text=True, check=False)
rows = [found.groups() for found in map(ROW.match, done.stdout.splitlines()) if found]
tap.ok(done.returncode == 0, "the whole benchmark ends with status 0", done.stdout + done.stderr)
wanted = [(family, precision) for family in FAMILIES for precision in ("fp32", "bf16")]
tap.ok([row[:2] for row in rows] == 2 * wanted, "one line for each layout, family and precision", done.stdout)
tap.ok(len(rows) > 0 and all(float(number) > 0 for row in rows for number in row[4:]),
       "each with its ratio to sgemm, and to Llama's ratio", done.stdout)
rates = [float(rate) for rate in re.findall(r"sgemm (\S+) GF/s in FP32", done.stdout)]
for i, rate in enumerate(rates):
    wrong = [row for row in rows[i * len(wanted):][:len(wanted)]      # of numbers that are rounded to 0.01 and 0.001
             if abs(float(row[3]) / rate - float(row[4])) > 0.0005 + 0.005 * (1 + float(row[4])) / (rate - 0.005)]
    tap.ok(rate > 0 and not wrong, "the ratio is the line's speed by that of sgemm", f"{wrong} {done.stdout}")
for word, count in (("slice", 2), ("journal", 1), ("checkpoint index", 2)):
    found = sum(line.startswith(word) for line in done.stdout.splitlines())
    tap.ok(found == count, f"lines of {word}: {count}", done.stdout)
tap.done()
