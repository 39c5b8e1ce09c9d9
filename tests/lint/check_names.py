#!/usr/bin/env python3
"""Checks that names in anonymous namespaces differ within a CMake target, all of whose files may be compiled as one (cmake/Together.cmake):
which of them are depends on their number, and so two equal names are found only when a third file comes. Takes a build folder, in which
CMake has written what belongs together. Functions of one name with different parameters, and aliases of one type, are no breach. Prints
one line per breach; exit code 1 if there is any."""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Comments and literals: braces and names in them mean nothing. A raw string ends with its own mark.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s*([\w:]*)\s*$")
GTEST = re.compile(r"(TEST|TEST_F|TEST_P)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*$")
TYPE = re.compile(r"(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\w+\s*\([^()]*\)\s*)?(?P<name>\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.S)
ALIAS = re.compile(r"(?:using|namespace)\s+(?P<name>\w+)\s*=\s*(?P<type>.*)$", re.S)
FUNCTION = re.compile(r"(?P<name>\boperator\s*[^\s\w(]+|\b\w+)\s*\(", re.S)
VARIABLE = re.compile(r"(?P<name>\w+)\s*(?:\[[^\]]*\]\s*)*$", re.S)


def without_noise(text):
    text = NOISE.sub(lambda m: " " if m[0].startswith("/") else '""', text)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)


def closing(text, begin):
    """Where the bracket at `begin` is closed."""
    pairs, depth = {"(": ")", "{": "}", "<": ">"}, 0
    opens, closes = text[begin], pairs[text[begin]]
    for i in range(begin, len(text)):
        depth += (text[i] == opens) - (text[i] == closes)
        if depth == 0:
            return i
    return len(text) - 1


def without_template(head):
    while match := re.match(r"\s*template\s*<", head):
        head = head[closing(head, match.end() - 1) + 1:]
    return re.sub(r"\[\[.*?\]\]|\b(?:static|inline|constexpr|const|extern|mutable|thread_local|volatile)\b", " ", head).strip()


def parts_of(text):
    """What stands between the commas that no bracket encloses."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [*parts, current]


def parameters(text):
    """The types of a function's parameters, roughly: without names and defaults."""
    types = []
    for part in parts_of(text):
        part = part.split("=")[0].strip()
        named = re.match(r"(.*[\s&*>])(\w+)$", part, re.S)
        types.append(re.sub(r"\s+", "", named[1] if named else part))
    return "(" + ",".join(types) + ")"


def declared(head, ends_with):
    """(name, meaning) of what a declaration declares, given what stands before its body or its semicolon."""
    head = without_template(head)
    if match := GTEST.match(head):
        return [(f"{match[2]}_{match[3]}_Test", "test")]
    if not head or re.match(r"(using\s+namespace|using\s+[\w:]+$|static_assert|friend|[A-Z][A-Z0-9_]*\s*\()", head):
        return []
    if match := ALIAS.match(head):
        return [(match["name"], "alias of " + re.sub(r"\s+", "", match["type"]))]
    if match := TYPE.match(head):
        return [(match["name"], "type")] if ends_with == "{" else []
    before_value = head.split("=")[0] if not re.search(r"operator\s*\S*=", head) else head
    if match := FUNCTION.search(before_value):
        if before_value[:match.start()].rstrip().endswith("::"):
            return []  # of a class that is declared elsewhere
        begin = match.end() - 1
        return [(match["name"], "function" + parameters(before_value[begin + 1:closing(before_value, begin)]))]
    comparisons = re.compile(r"<<|->| >> | [<>]=? ")  # no brackets
    names = [VARIABLE.search(part.split("=")[0]) for part in parts_of(comparisons.sub(" ", head))]
    return [(match["name"], "variable") for match in names if match]


def names_of(text):
    """(enclosing namespace, name) -> what it is, of a source's anonymous namespaces; tests wherever they are."""
    text, found, spaces, head = without_noise(text), {}, [], ""
    i = 0
    while i < len(text):
        c = text[i]
        if c == "(":  # commas and braces in there are nobody's end
            end = closing(text, i)
            head += text[i:end + 1]
            i = end + 1
            continue
        if c in ";{}":
            match = NAMESPACE.search(head) if c == "{" else None
            if match:
                spaces.append(match[1])
            elif c == "}" and spaces:
                spaces.pop()
            else:
                what = declared(head, c)
                for name, meaning in what:
                    if "" in spaces or meaning == "test":
                        found["::".join(s or "(anonymous)" for s in spaces), name] = meaning
                if c == "{":
                    i = closing(text, i)
                    # A declaration that goes on behind its brace declares nothing new there.
                    while what and not what[0][1].startswith(("function", "test")) and i < len(text) and text[i] != ";":
                        i = closing(text, i) + 1 if text[i] in "({" else i + 1
            head = ""
        else:
            head += c
        i += 1
    return found


def targets(build):
    """What CMake compiles together: target -> sources. Those that it compiles alone are not among them."""
    found = collections.defaultdict(set)
    for unity in build.glob("**/CMakeFiles/*.dir/Unity/unity_*_cxx.cxx"):
        target = unity.parents[1].name.removesuffix(".dir")
        found[target].update(pathlib.Path(p) for p in re.findall(r'^#include "(.*)"', unity.read_text(), re.M))
    return found


def breaches_of(target, sources):
    seen = {}
    for source in sorted(sources):
        if not source.exists():
            continue  # removed, and CMake has not been asked again
        for (space, name), what in names_of(source.read_text(errors="replace")).items():
            for other, other_what in seen.setdefault((space, name), []):
                overloads = what.startswith("function") and other_what.startswith("function") and what != other_what
                same_alias = what == other_what and what.startswith("alias")
                if not overloads and not same_alias:
                    yield f"{source}: {name} ({what}) is in an anonymous namespace of {other}, too, and both are compiled for {target}"
            seen[space, name].append((source, what))


def main():
    build = pathlib.Path(sys.argv[1])
    together = targets(build)
    if not together:
        print(f"{build} has nothing that is compiled together: configure it with CMAKE_UNITY_BUILD")
        return 1
    breaches = [breach for target, sources in sorted(together.items()) for breach in breaches_of(target, sources)]
    breaches = [breach.replace(f"{ROOT}/", "") for breach in breaches]
    print("\n".join(breaches) if breaches else f"{len(together)} targets: names as they should be")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
