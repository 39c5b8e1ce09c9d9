#!/usr/bin/env python3
"""Asks the driver of WARPLINE_PROBE_DRIVER one question of scripts/test-gpu, in this process, and prints the answer as JSON.

Usage: ask.py MODULE FUNCTION [ARGUMENT …]"""

import importlib
import json
import os
import sys

import device


def answer(module, function, arguments):
    try:
        asked = getattr(importlib.import_module(module), function)
        return {"values": asked(device.Driver(initialise=module != "confinement"), *arguments)}
    except device.NotHere as missing:
        return {"skipped": str(missing)}
    except device.Failed as failed:
        return {"failed": str(failed)}
    except OSError as error:
        return {"failed": f"the driver does not load: {error}"}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], sys.argv[2], sys.argv[3:])), flush=True)
    # Without Python's or the driver's ends: a kernel that still spins would hold them up.
    os._exit(0)
