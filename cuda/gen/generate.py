#!/usr/bin/env python3
"""The generator: turns the description of the CUDA driver interface into code, tests and pages.

  generate.py --api cuda/api --out build/dev/generated --target client
  generate.py --api cuda/api --target check            only looks for mistakes
  generate.py --api cuda/api --target lock             appends the ids of new entries to ids.lock
  generate.py --api cuda/api --target client --list    prints the files it would write

Files are written only if their content changes, so that a build recompiles only what is affected. Mistakes in the description
are printed as file:line: error: entry: text [kind], all of them, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import jinja2

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import checks  # noqa: E402
import loader  # noqa: E402
import prototypes  # noqa: E402
import targets  # noqa: E402
from diagnostics import DescriptionError, Diagnostics  # noqa: E402
from mapping import field_name, struct_name  # noqa: E402
from model import Api  # noqa: E402

BANNER = "Generated from cuda/api by cuda/gen. Do not edit."


def read(folder: Path, include: Path, ignore: tuple[str, ...] = ()) -> Api:
    """The checked description, of the functions that the headers in `include` declare. Errors: DescriptionError with every finding,
    except those of the kinds to ignore."""
    api, found = loader.load(folder, prototypes.declared_in(include))
    checks.check(api, found)
    found.found = [d for d in found.found if d.kind not in ignore]
    found.raise_if_any()
    return api


def render(api: Api, output: targets.Output, environment: jinja2.Environment) -> str:
    template = environment.get_template(output.template)
    return template.render(api=api, area=output.area, banner=BANNER)


def make_environment(templates: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(templates)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["struct_name"] = struct_name
    environment.filters["field_name"] = field_name
    environment.filters["c_string"] = lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    environment.filters["capnp_id"] = capnp_id
    return environment


def capnp_id(text: str) -> str:
    """A stable 64-bit id with the top bit set, as Cap'n Proto wants for a file: FNV-1a of the name."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"0x{value | 1 << 63:016x}"


def write_if_changed(path: Path, text: str) -> bool:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def append_lock(folder: Path, include: Path) -> int:
    """Appends the ids of entries that ids.lock does not know. Errors: every finding but those."""
    api = read(folder, include, ignore=("id-not-locked", "symbol-missing"))
    new = [c for c in api.calls if c.name not in api.lock]
    with (folder / "ids.lock").open("a", encoding="utf-8") as stream:
        for call in sorted(new, key=lambda c: c.id):
            stream.write(f"{call.id_hex} {call.name}\n")
    print(f"{len(new)} ids appended", file=sys.stderr)
    return 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", type=Path, required=True, metavar="DIR", help="the description: cuda/api")
    parser.add_argument("--include", type=Path, metavar="DIR", default=Path("/usr/local/cuda/include"), help="where cuda.h is")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of generated files")
    parser.add_argument("--target", required=True, choices=[*targets.FOLDERS, "check", "lock"])
    parser.add_argument("--list", action="store_true", help="print the names of the files instead of writing them")
    parser.add_argument("--templates", type=Path, metavar="DIR", default=Path(__file__).resolve().parent / "templates")
    parser.add_argument("--called", type=Path, metavar="FILE", help="which programs call which functions, by the end-to-end tests")
    parser.add_argument("--unseen", type=Path, metavar="FILE", help="which functions' effects cannot be seen, and why")
    parser.add_argument("--stamp", type=Path, metavar="FILE", help="touch this file at the end, for the build system")
    options = parser.parse_args(argv)
    try:
        if options.target == "lock":
            return append_lock(options.api, options.include)
        if options.list:
            return list_outputs(options)
        api = read(options.api, options.include)
        if options.called is not None and options.called.exists():
            note_called(api, json.loads(options.called.read_text(encoding="utf-8")))
        if options.unseen is not None:
            note_unseen(api, read_unseen(options.unseen))
    except DescriptionError as error:
        print(error, file=sys.stderr)
        return 1
    if options.target != "check":
        if options.out is None:
            parser.error("--out is needed")
        environment = make_environment(options.templates)
        for output in targets.outputs(api, options.target, options.templates):
            write_if_changed(options.out / output.path, render(api, output, environment))
    if options.stamp:
        options.stamp.parent.mkdir(parents=True, exist_ok=True)
        options.stamp.touch()
    return 0


def note_called(api, programs: dict[str, list[str]]) -> None:
    """@param programs: by the symbol that they call, whichever form of a function that is"""
    for call in api.calls:
        call.called_by = sorted({p for symbol in call.symbols for p in programs.get(symbol, [])})


def read_unseen(path: Path) -> dict[str, str]:
    """Functions whose effect no program can see, and why: `function: reason` in each line that is no comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = [line.partition(":") for line in lines if line and not line.startswith("#")]
    return {function.strip(): reason.strip() for function, _, reason in entries}


def note_unseen(api, reasons: dict[str, str]) -> None:
    for call in api.calls:
        call.unseen = reasons.get(call.name, "")


def list_outputs(options: argparse.Namespace) -> int:
    """By file names alone, so that the list can be had even while the description has mistakes."""
    from model import Area, Place

    skip = ("types", "unsupported")
    names = sorted(p.stem for p in options.api.glob("*.yaml") if p.stem not in skip)
    api = Api([Area(n, Place(n, 1)) for n in names], [], [], [], {}, [], {}, set())
    for output in targets.outputs(api, options.target, options.templates):
        print(output.path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
