#!/usr/bin/env python3
"""Losses and gradient norms on the host, bit for bit as they were recorded (bits.py)."""
import sys

from bits import test

sys.exit(not test("host"))
