"""h5py and numpy: those of this python, else of Debian's own python3, else a sentence that says how to get them."""

import os
import sys

DEBIAN = "/usr/bin/python3"
ADVICE = "needs h5py and numpy for python3. On Debian and Ubuntu: sudo apt install python3-h5py"


def need():
    """Returns if both can be imported; otherwise starts over with Debian's python3, or ends with status 2."""
    # A record is replaced, never changed: no lock is needed, and some file systems have none.
    os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
    try:
        import h5py, numpy  # noqa: F401, E401
    except ImportError as missing:
        if sys.executable != DEBIAN and os.access(DEBIAN, os.X_OK):
            sys.stdout.flush()
            os.execv(DEBIAN, [DEBIAN, *sys.argv])
        name = os.path.basename(sys.argv[0])
        print(f"{name} {ADVICE} ({missing})", file=sys.stderr)
        sys.exit(2)
