"""Faults on purpose: a proxy that cuts, stops and distorts connections at seeded byte positions, signals to processes, what a program
must make of it, and whether a server is as it was afterwards (C1, C2, C3). test_chaos.py and scripts/chaos are made of it."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))  # the harness
