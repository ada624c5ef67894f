"""Finds the Python packages that these programs need: in this python, else in Debian's python3. If both lack them,
prints how to install them."""

import os
import sys
from importlib import import_module

DEBIAN = "/usr/bin/python3"
PACKAGES = {"h5py": "python3-h5py", "numpy": "python3-numpy", "matplotlib": "python3-matplotlib",
            "jinja2": "python3-jinja2", "scipy": "python3-scipy"}


def is_missing(name):
    try:
        import_module(name)
    except ImportError:
        return True
    return False


def need(*more):
    """Returns if h5py, numpy and `more` can be imported. Otherwise restarts with Debian's python3, or exits with status
    2."""
    # A locale may lack letters of a path, a host or a sentence: they are printed as escapes.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    # A record is replaced, never changed, so no lock is needed. Some file systems have no locks.
    os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
    missing = list(filter(is_missing, ("h5py", "numpy", *more)))
    if missing and sys.executable != DEBIAN and os.access(DEBIAN, os.X_OK):
        sys.stdout.flush()
        os.execv(DEBIAN, [DEBIAN, *sys.argv])
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        print(f"{os.path.basename(sys.argv[0])} needs {' and '.join(missing)} for python3. On Debian and Ubuntu: "
              f"sudo apt install {packages}", file=sys.stderr)
        sys.exit(2)
