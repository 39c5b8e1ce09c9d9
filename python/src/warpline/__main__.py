"""`python -m warpline`, and the script `warpline`: the program that the wheel carries takes this process's place."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import _files
from ._errors import WarplineError


def main() -> NoReturn:
    """Executes the `warpline` program with this process's arguments."""
    try:
        program = _files.command()
        os.execv(program, ["warpline", *sys.argv[1:]])
    except (WarplineError, OSError) as error:
        print(f"warpline: {error}", file=sys.stderr)
        sys.exit(125)  # as the program itself, where it fails before it has run anything


if __name__ == "__main__":
    main()
