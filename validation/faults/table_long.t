#!/usr/bin/env bash
# The table of planted faults in full.
exec "$(dirname "$0")/table.t" --all
