#!/usr/bin/env python3
"""Losses and gradient norms of every step, bit for bit, against expected.txt.

The cases are those of host-RANKS.dat and emulator-RANKS.dat. bits.t (host) and emulator.t print TAP with it.

The bits belong to a kind of machine: the processor and oneDNN's instruction set choose the kernels, compiler and flags
the order of our own sums, the C library the exponentials. Elsewhere no case is compared, unless XGSW_BITS_AGAINST
(XGSW_BITS_AGAINST_EMULATOR) names a binary of another build: then both are run here and compared.

Where a change is meant to change numbers:  validation/bits/bits.py --renew  with ./xgsw and
build/emulator/xgsw-emulator as they shall be, and the commit must say which cases changed, and why.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
EXPECTED = HERE / "expected.txt"
PROGRAM = {"host": os.environ.get("XGSW", str(TOP / "xgsw")),
           "emulator": os.environ.get("XGSW_EMULATOR", str(TOP / "build/emulator/xgsw-emulator"))}
AGAINST = {"host": "XGSW_BITS_AGAINST", "emulator": "XGSW_BITS_AGAINST_EMULATOR"}


def decks(machine):
    """(ranks, path) of its decks, few ranks first."""
    return sorted((int(path.stem.split("-")[1]), path) for path in HERE.glob(f"{machine}-*.dat"))


def sections(path):
    """The cases of a deck as the deck says them, each on one line."""
    parts = re.split(r"\n(?=\[)", path.read_text())
    return ["; ".join(part.strip().splitlines()) for part in parts if part.startswith("[")]


def named(machine):
    """(deck's name, case, what a test calls it) of every case."""
    for _, path in decks(machine):
        for case, section in enumerate(sections(path), 1):
            yield path.stem, case, f"{path.stem} case {case}: {section}"


def kind(program):
    """What decides the bits of a build, here."""
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    said = dict(line.split(None, 1) for line in run.stdout.splitlines())
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    processor = {"vendor_id": "unknown", "cpu family": "?", "model": "?",
                 **dict(re.findall(r"^(\w[\w ]*?)\s*: (.*)$", first, re.MULTILINE))}
    return {"processor": "{vendor_id} family {cpu family} model {model}".format_map(processor),
            "products": said["products"], "compiler": said["compiler"],
            "flags": " ".join(flag for flag in said["flags"].split() if flag.startswith(("-O", "-f", "-m"))),
            "library": "{} {}".format(*os.confstr("CS_GNU_LIBC_VERSION").split())}


def numbers(machine, program):
    """{(deck, case): [(loss, norm) of every step, as hexadecimal floats]}"""
    found = {}
    for ranks, path in decks(machine):
        command = [TOP / "run/local", "-q", "-n", str(ranks), "-x", program, path]
        for asked in ("--json", "-"), ():   # programs before the rules xgsw-2.2 have no --json
            run = subprocess.run([*command, *asked], capture_output=True, text=True, check=False,
                                 env={**os.environ, "OMP_NUM_THREADS": "1"})
            if "--json is not an option" not in run.stderr:
                break
        for line in run.stdout.splitlines():
            result = json.loads(line[line.index("{"):]) if re.match(r"(XGSW_RESULT )?\{", line) else {}
            if "losses" in result:
                steps = zip(result["losses"], result["gradient_norms"])
                found[path.stem, result["case"]] = [(written(loss), written(norm)) for loss, norm in steps]
        if run.returncode != 0:
            print(f"# {path.name} ended with status {run.returncode}",
                  *(run.stdout + run.stderr).splitlines()[-20:], sep="\n#   ")
    return found


def written(number):
    return "not finite" if number is None else float(number).hex()


def expected():
    """What expected.txt holds: the kind of machine, and numbers as numbers() gives them."""
    of, steps = {}, {}
    for line in EXPECTED.read_text().splitlines():
        words = line.split()
        if line.startswith("kind "):
            of[words[1]] = line.split(None, 2)[2]
        elif line and not line.startswith("#"):
            deck, case, loss, norm = words[0], int(words[2]), words[6], words[8]
            steps.setdefault((deck, case), []).append((loss, norm))
    return of, steps


def renew():
    """Writes expected.txt anew from the builds at hand."""
    lines = ["# Losses and gradient norms of every step of the decks beside this file, as hexadecimal floats,",
             "# and the kind of machine that they belong to.",
             "# validation/bits/bits.py says how they are compared, and renewed.", ""]
    lines += [f"kind {name} {value}" for name, value in kind(PROGRAM["host"]).items()]
    for machine, program in PROGRAM.items():
        found = numbers(machine, program)
        for _, path in decks(machine):
            for case, section in enumerate(sections(path), 1):
                lines += ["", f"# {section}"]
                lines += [f"{path.stem} case {case} step {step} loss {loss} norm {norm}"
                          for step, (loss, norm) in enumerate(found[path.stem, case])]
    EXPECTED.write_text("\n".join(lines) + "\n")


def difference(wanted, found):
    """Where two lists of steps differ, in words; empty if nowhere."""
    if len(wanted) != len(found):
        return f"{len(found)} steps, {len(wanted)} expected"
    for step, (want, have) in enumerate(zip(wanted, found)):
        for name, a, b in zip(("loss", "gradient norm"), want, have):
            if a != b:
                return f"step {step}: {name} {b}, expected {a}"
    return ""


def flipped(number):
    """Its last hexadecimal digit, in the lowest bit."""
    mantissa, exponent = number.split("p")
    return f"{mantissa[:-1]}{int(mantissa[-1], 16) ^ 1:x}p{exponent}"


def compared(machine, wanted, found):
    """(name, difference) of every case."""
    for deck, case, name in named(machine):
        key = deck, case
        yield name, difference(wanted[key], found.get(key, [])) if key in wanted else "not in expected.txt"


def test(machine):
    """Prints TAP; True if nothing differs."""
    program, (of, wanted) = PROGRAM[machine], expected()
    other, here = os.environ.get(AGAINST[machine]), kind(program)
    strange = [f"{name} {here.get(name)}, recorded {value}" for name, value in of.items() if here.get(name) != value]
    sample = wanted[decks(machine)[0][1].stem, 1]
    touched = [*sample[:-1], (sample[-1][0], flipped(sample[-1][1]))]
    seen = difference(sample, touched) and not difference(sample, sample)
    results = [("a last digit that differs is seen", "" if seen else "it is not")]
    if strange and not other:
        results += [(f"all cases # SKIP the recorded bits are of another kind of machine ({strange[0]}); "
                     f"{AGAINST[machine]} takes another build to compare with", "")]
    else:
        results += compared(machine, numbers(machine, other) if other else wanted, numbers(machine, program))
    for number, (name, differs) in enumerate(results, 1):
        print(f"not ok {number} - {name}\n# {differs}" if differs else f"ok {number} - {name}")
    print(f"1..{len(results)}")
    return not any(differs for _, differs in results)


if __name__ == "__main__":
    if sys.argv[1:] != ["--renew"]:
        sys.exit(__doc__)
    renew()
