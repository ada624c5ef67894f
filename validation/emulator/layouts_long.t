#!/usr/bin/env bash
# layouts.t in ten orders, and more layouts: the whole program. Twenty orders of every layout are agreement_layouts_long's.
EMULATOR_SEEDS=$(seq -s ' ' 10) EMULATOR_LAYOUTS=all exec validation/emulator/layouts.t
