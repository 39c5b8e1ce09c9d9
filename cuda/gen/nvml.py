#!/usr/bin/env python3
"""Makes code of the description of NVML (cuda/nvml): the questions that a server's gauge asks, and what libnvidia-ml.so.1 exports.

  nvml.py --api cuda/nvml --out build/release/generated
  nvml.py --pin INCLUDE --api cuda/nvml      writes symbols.txt, the functions that nvml.h in this folder declares

Files are written only if their content changes. Mistakes are printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import yamlplace  # noqa: E402
from diagnostics import DescriptionError  # noqa: E402
from generate import write_if_changed  # noqa: E402

BANNER = "Generated from cuda/nvml by cuda/gen/nvml.py. Do not edit."
KINDS = ("asked", "pairs", "fields", "system", "own")
SIZES = {"u32": 4, "i32": 4, "u64": 8, "text": 0}
TYPES = {"u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t", "text": "char"}
# Exported by NVIDIA's library, and not declared.
UNDECLARED = ("nvmlGetBlacklistDeviceCount", "nvmlGetBlacklistDeviceInfoByIndex", "nvmlInternalGetExportTable")
FIRST_FIELD = 2000
MOST_DEVICES = 64
MOST_ID = 65535


def pin(include: Path, api: Path) -> int:
    source = "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n"
    command = ["cc", "-E", "-P", "-I", str(include), "-x", "c", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\b(nvml[A-Z]\w+)\s*\(", re.sub(r"\{[^}]*\}", "", text))) | set(UNDECLARED)
    version = re.search(r"#define NVML_API_VERSION_STR\s+\"(\d+)\"", (include / "nvml.h").read_text(encoding="utf-8"))[1]
    lines = [f"# The functions of NVML {version}: what its nvml.h declares and three that it does not, by cuda/gen/nvml.py --pin."]
    (api / "symbols.txt").write_text("\n".join(lines + sorted(names)) + "\n", encoding="utf-8")
    print(f"{len(names)} symbols")
    return 0


class Description:
    def __init__(self, api: Path) -> None:
        self.mistakes: list[str] = []
        document = yamlplace.load(api / "calls.yaml", "cuda/nvml/calls.yaml")
        lines = (api / "symbols.txt").read_text(encoding="utf-8").splitlines()
        self.symbols = [line for line in lines if not line.startswith("#")]
        self.asked, self.pairs, self.fields, self.system, own = (document[kind] for kind in KINDS)
        self.own = [*own, *(c["call"] for c in self.asked if c.get("own"))]
        self.check(document)

    def check(self, document) -> None:
        live = self.live()
        for name in sorted({n for n in live if live.count(n) > 1}):
            self.mistakes.append(f"{name} is described twice")
        self.mistakes += [f"{n} is no function of symbols.txt" for n in live if n not in self.symbols]
        self.mistakes += [f"`{key}` is none of {', '.join(KINDS)}" for key in document if key not in KINDS]
        asked = {"call", "id", "in", "below", "out", "version", "once", "aliases", "own"}
        for calls, known in ((self.asked, asked), (self.pairs, {"call", "id", "in", "else"}), (self.system, {"call", "id"})):
            self.mistakes += [f"{call['call']}: `{key}` is no key here" for call in calls for key in call if key not in known]
        for call in self.asked:
            wrong = [o for o in call["out"] if not isinstance(o, int) and o not in SIZES]
            self.mistakes += [f"{call['call']}: `{o}` is no output" for o in wrong]
            if "text" in call["out"] and len(call["out"]) > 1 or len(call["out"]) > 4 or len(call.get("in", [])) > 3:
                self.mistakes.append(f"{call['call']}: a text is alone, and there are at most 4 outputs and 3 inputs")
            if "below" in call and [max(values) < below for values, below in zip(call["in"], call["below"])] != [True] * len(call["in"]):
                self.mistakes.append(f"{call['call']}: `below` has one number for each input, and all values are less")
        for first, *more in self.functions():
            differs = any({**call, "id": 0, "in": []} != {**first, "id": 0, "in": []} for call in more)
            if differs or any(len(call["in"]) != len(first["in"]) for call in more):
                self.mistakes.append(f"{first['call']}: what follows it differs in more than numbers and inputs")
        used: dict[int, str] = {}
        for number, name in self.numbers():
            if number in used or not 0 < number <= MOST_ID:
                self.mistakes.append(f"{name}: the number {number} is {used.get(number, 'none of 1 … 65535')}")
            used[number] = name

    def functions(self) -> list[list]:
        """What is asked, those of one function together: one that follows itself has inputs that were added later."""
        return [list(calls) for _, calls in itertools.groupby(self.asked, key=lambda call: call["call"])]

    def live(self) -> list[str]:
        described = [calls[0]["call"] for calls in self.functions() if not calls[0].get("own")]
        described += [c["call"] for c in [*self.pairs, *self.system]]
        return described + [a for c in self.asked for a in c.get("aliases", [])] + list(self.own)

    def numbers(self):
        for call in self.asked:
            for i, _ in enumerate(itertools.product(*call.get("in", []))):
                yield call["id"] + i, call["call"]
        for call in self.pairs:
            for i in range(MOST_DEVICES * max(1, len(call.get("in", [])))):
                yield call["id"] + i, call["call"]
        for field in self.fields:
            yield FIRST_FIELD + field, f"field {field}"
        for call in self.system:
            yield call["id"], call["call"]


def output_bytes(call) -> list[int]:
    return [o if isinstance(o, int) else SIZES[o] for o in call["out"]]


def question(kind: str, call, number: int, inputs: tuple[int, ...], sizes: list[int]) -> str:
    values = ", ".join(map(str, inputs)) or "0"
    below = ", ".join(map(str, call.get("below", []))) or "0"
    bytes_ = ", ".join(map(str, sizes)) or "0"
    text = "true" if "text" in call.get("out", []) or kind == "system" else "false"
    once = "true" if call.get("once") else "false"
    return (f'    {{QuestionKind::{kind}, {number}, "{call["call"]}", {len(inputs)}, {{{values}}}, {{{below}}}, {len(sizes)}, {{{bytes_}}}, '
            f'{call.get("version", 0)}, {text}, {once}}},')


def questions(api: Description) -> str:
    rows = []
    for call in api.asked:
        for i, inputs in enumerate(itertools.product(*call.get("in", []))):
            rows.append(question("device", call, call["id"] + i, inputs, output_bytes(call)))
    for call in api.pairs:
        for i, value in enumerate(call.get("in") or [None]):
            inputs = () if value is None else (value,)
            rows.append(question("pair", call, call["id"] + MOST_DEVICES * i, inputs, [4]))
    rows += [question("system", call, call["id"], (), []) for call in api.system]
    return "\n".join([
        f"// {BANNER}", "// What is asked of NVML, and which fields.", '#include "cuda/nvml/questions.h"', "",
        "namespace warpline::cuda::nvml {", "",
        "namespace {", "", "constexpr Question k_questions[] = {", *rows, "};", "",
        f"constexpr uint32_t k_fields[] = {{{', '.join(map(str, api.fields))}}};", "", "}  // namespace", "",
        "std::span<const Question> questions() { return k_questions; }",
        "std::span<const uint32_t> fields() { return k_fields; }", "", "}  // namespace warpline::cuda::nvml", ""])  # fmt: skip


def entry(name: str, call, first: int, count: int) -> str:
    inputs = [f"in{i}" for i in range(len(call.get("in", [])))]
    params = ["void* device"] + [f"uint32_t {name_}" for name_ in inputs]
    outs = []
    for i, out in enumerate(call["out"]):
        params.append(f"{TYPES.get(out, 'void')}* out{i}")
        outs.append(f"out{i}")
    length = "0"
    if "text" in call["out"]:
        params.append("uint32_t length")
        length = "length"
    return (f"WL_NVML int {name}({', '.join(params)}) {{\n"
            f"    return answer(device, {first}, {count}, {{{', '.join(inputs)}}}, {{{', '.join(outs)}}}, {length});\n}}")


def pair_entry(call, first: int, count: int) -> str:
    inputs = ["in0"] if call.get("in") else []
    params = ["void* device", "void* other", *(f"uint32_t {i}" for i in inputs), "uint32_t* out0"]
    return (f"WL_NVML int {call['call']}({', '.join(params)}) {{\n"
            f"    return answer_pair(device, other, {first}, {count}, {{{', '.join(inputs)}}}, {call.get('else', 'std::nullopt')}, out0);\n}}")


def entries(api: Description) -> str:
    lines, row = [], 0
    for calls in api.functions():
        count = sum(len(list(itertools.product(*call.get("in", [])))) for call in calls)
        call = calls[0]
        if not call.get("own"):
            lines += [entry(name, call, row, count) for name in (call["call"], *call.get("aliases", []))]
        row += count
    for call in api.pairs:
        count = len(call.get("in") or [None])
        lines.append(pair_entry(call, row, count))
        row += count
    for call in api.system:
        lines.append(f"WL_NVML int {call['call']}(char* text, uint32_t length) {{\n    return answer_system({row}, text, length);\n}}")
        row += 1
    live = set(api.live())
    lines += [f"WL_NVML int {name}() {{\n    static std::atomic<bool> told{{false}};\n"
              f'    return refuse("{name}", told);\n}}' for name in api.symbols if name not in live]  # fmt: skip
    return "\n".join([
        f"// {BANNER}", "// What libnvidia-ml.so.1 exports, but for what has code of its own. A refusal takes no notice of its arguments.",
        "#include <atomic>", "#include <cstdint>", "", '#include "client/nvml/answer.h"', "",
        '#define WL_NVML extern "C" __attribute__((visibility("default"), used))', "",
        "using namespace warpline::client::nvml;", "", *lines, ""])  # fmt: skip


def exports(api: Description) -> str:
    mark = "warpline_client_marker"  # whose library it is, as in the driver's
    return "\n".join([f"# {BANNER}", "{", "  global:", *(f"    {name};" for name in [mark, *api.symbols]), "  local:", "    *;", "};", ""])


OUTPUTS = {
    "cuda/nvml/questions.gen.cpp": questions,
    "client/nvml/entries.gen.cpp": entries,
    "client/nvml/exports.map": exports,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", type=Path, required=True, metavar="DIR", help="the description: cuda/nvml")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of generated files")
    parser.add_argument("--pin", type=Path, metavar="INCLUDE", help="where nvml.h is")
    parser.add_argument("--stamp", type=Path, metavar="FILE", help="touch this file at the end, for the build system")
    options = parser.parse_args(argv)
    if options.pin:
        return pin(options.pin, options.api)
    try:
        api = Description(options.api)
    except DescriptionError as error:
        print(error, file=sys.stderr)
        return 1
    for mistake in api.mistakes:
        print(f"cuda/nvml: error: {mistake}", file=sys.stderr)
    if api.mistakes:
        return 1
    for path, make in OUTPUTS.items():
        write_if_changed(options.out / path, make(api))
    if options.stamp:
        options.stamp.parent.mkdir(parents=True, exist_ok=True)
        options.stamp.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
