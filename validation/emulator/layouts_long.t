#!/usr/bin/env bash
# layouts.t in twenty orders, and more layouts.
EMULATOR_SEEDS=$(seq -s ' ' 20) EMULATOR_LAYOUTS=all exec validation/emulator/layouts.t
