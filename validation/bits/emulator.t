#!/usr/bin/env python3
"""Losses and gradient norms on emulated GPUs must equal the recorded ones bit for bit (bits.py)."""
import sys

from bits import test

sys.exit(not test("emulator"))
