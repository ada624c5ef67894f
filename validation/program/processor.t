#!/usr/bin/env python3
"""A program that was built for another processor says so before it executes instructions of that processor."""
import os
import re
import subprocess

from program import DECKS, PROGRAM, Tap, alone

tap = Tap()
with open(PROGRAM, "rb") as file:
    program = file.read()
found = max(re.findall(rb"(?<=\0)pni ssse3 [a-z0-9_ ]*avx[a-z0-9_ ]*\0", program), key=len, default=None)
if not found:
    print("1..0 # SKIP it was not built for a processor with AVX")
    raise SystemExit
# A forged build that needs one more feature than there is: the last name is changed.
forged = found[:-2] + b"X\0"
other = os.path.join(DECKS.name, "xgsw")
with open(other, "wb") as file:
    file.write(program.replace(found, forged))
os.chmod(other, 0o755)
loader = subprocess.run(["/lib64/ld-linux-x86-64.so.2", "--help"], capture_output=True, text=True, check=False).stdout
level = (re.findall(r"^  (x86-64-v\d) \(supported", loader, re.M) or ["x86-64"])[0]
run = alone("--version", program=other)
tap.ok(run.returncode == 2 and run.stdout == "" and run.stderr ==
       f"xgsw: built for another processor: this one lacks {forged.split()[-1].decode()[:-1]}; "
       f"build with `make MARCH={level}`, or on a node like this\n",
       f"it names what this processor lacks, and {level}, the highest level that glibc finds here", run.stderr)
listing = subprocess.run(["objdump", "-d", os.environ.get("BUILD", "build/mpicc") + "/src/base/processor.o"],
                         capture_output=True, text=True, check=True).stdout
tap.ok("call" in listing and not re.search(r"\sv[a-z0-9]+ .*%[xyz]mm", listing),
       "the code that says it has no instruction of AVX", listing[:2000])
tap.ok(alone("--version").returncode == 0, "the program itself runs")
tap.done()
