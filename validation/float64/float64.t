#!/usr/bin/env bash
# The float64 program tests itself: Philox against known answers, its backward pass against differences.
exec /usr/bin/python3 validation/float64/float64.py --check
