"""Who vouches for a record's root: the run's own output, somebody who knows it, or a key (ssh-keygen -Y, OpenSSH 8.2 or
later). What is signed is the root's 64 hex digits and a newline, in the namespace xgsw: validation/RECORD.md."""

import os
import re
import subprocess

from validate.findings import count

NAMESPACE = "xgsw"
ROOT_LINE = re.compile(r"^Root +([0-9a-f]{64})$", re.MULTILINE)
UNSIGNED = ("UNSIGNED: nothing outside the record vouches for its root {}; whoever holds it can rechain it. --root HEX "
            "or --log OUTPUT compares the root with what the run printed, --verify SIGNERS its signature")


class NoSigning(Exception):
    """ssh-keygen is missing, or refuses."""


def keygen(*arguments, message=None):
    """Whether it agrees, and what it says."""
    try:
        done = subprocess.run(["ssh-keygen", "-Y", *arguments], input=message, capture_output=True, text=True,
                              check=False)
    except FileNotFoundError:
        raise NoSigning("ssh-keygen is not installed; on Debian and Ubuntu: apt install openssh-client") from None
    return done.returncode == 0, (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip()


def fingerprint(key):
    """SHA256:... of a key, or nothing where ssh-keygen does not tell."""
    done = subprocess.run(["ssh-keygen", "-l", "-f", key], capture_output=True, text=True, check=False)
    return next((word for word in done.stdout.split() if word.startswith("SHA256:")), "")


def refuse_findings(record, f, of_case):
    """A signature says that its owner answers for the record: not for one that is FAILED."""
    found = f.sentences + [f"{name}: {sentence}" for name, of in of_case.items() for sentence in of.sentences]
    if found:
        raise NoSigning(f"{record} is not signed: {found[0]} ({count(len(found), 'finding')}; without --sign all are "
                        "printed)")


def sign(record, root, key):
    """In words with which key, and where the signature is, beside the record; one that is there is not replaced."""
    name = record + ".sig"
    if os.path.lexists(name):
        raise NoSigning(f"{name} exists, and is not replaced")
    agrees, text = keygen("sign", "-f", key, "-n", NAMESPACE, message=root + "\n")
    if not agrees:
        raise NoSigning(f"ssh-keygen cannot sign with {key}: {text}")
    with open(name, "x", encoding="ascii") as file:
        file.write(text + "\n")
    return f"SIGNED with the key {key} ({fingerprint(key)}), the signature is {name}"


def verify(record, root, signers, signer, f):
    """In words who signed; nothing and a finding where that fails."""
    name = record + ".sig"
    if not os.path.exists(name):
        f.add(f"it is not signed: there is no {name}")
        return None
    if signer is None:
        agrees, text = keygen("find-principals", "-f", signers, "-s", name)
        signer = text.split("\n", 1)[0].split(",", 1)[0]
        if not agrees:
            f.add(f"{name} is of no signer that {signers} allows: {text}")
            return None
    agrees, text = keygen("verify", "-f", signers, "-I", signer, "-n", NAMESPACE, "-s", name, message=root + "\n")
    f.demand(agrees, f"{name} is no signature of {signer} over the root {root}: {text}")
    return f"SIGNED by {signer}" if agrees else None


def printed_root(log):
    """The last that an output has, or nothing."""
    with open(log, encoding="utf-8", errors="replace") as file:
        found = ROOT_LINE.findall(file.read())
    return found[-1] if found else None


def compare(root, known, where, f):
    f.demand(root == known, f"the root is {root}, {where} {known}: it is another record, or was changed and rechained")
    return f"root as {where}" if root == known else None


def vouchers(arguments, root, f, of_case):
    """In words, each who vouches for the root; signs it first where that is asked for and nothing is found, neither in
    the record as a whole (f) nor in its cases."""
    if root is None and not arguments.sign:
        return []
    printed = printed_root(arguments.log) if arguments.log else None
    words = [arguments.root and compare(root, arguments.root.lower(), "given", f),
             printed and compare(root, printed, "printed", f)]
    if arguments.sign:
        refuse_findings(arguments.record, f, of_case)
        words.append(sign(arguments.record, root, arguments.sign))
    if arguments.verify:
        words.append(verify(arguments.record, root, arguments.verify, arguments.signer, f))
    return [word for word in words if word]
