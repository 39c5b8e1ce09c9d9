#!/usr/bin/env python3
"""Makes libraries to link with that look like an older glibc's, out of the machine's own: its symbols, in the versions that there were.

Usage: make_stubs.py VERSION FOLDER LIBC LIBM LIBRESOLV
    VERSION      of glibc, as 2.28
    FOLDER       where libc.so, libm.so and libresolv.so are written, for the linker to find before the machine's own
    LIBC, LIBM, LIBRESOLV   the machine's libc.so.6 (2.34 or later), libm.so.6 and libresolv.so.2

glibc keeps every version of a function that it ever had, so that old programs run. A linker takes the newest. Linked with these instead,
a program asks for the newest of those that VERSION knew, and runs from there on. What has come later is missing here: it is in newer.c,
or the link fails, which is the point."""

import pathlib
import re
import subprocess
import sys

# dynamic symbol: value, size, type, binding, visibility, section, name@version or name@@version
SYMBOL = re.compile(r"^\s*\d+:\s+([0-9a-f]+)\s+(\d+)\s+(FUNC|IFUNC|OBJECT)\s+(GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\S+\s+([^@\s]+)@@?(GLIBC_[0-9.]+)$")

# What was in libraries of its own until 2.34. A program names those that it uses, and later glibcs have them still, almost empty.
FORMER_LIBRARIES = {
    "libpthread.so.0": re.compile("(__)?pthread_|sem_"),
    "libdl.so.2": re.compile("dl(addr|addr1|close|error|info|mopen|open|sym|vsym)$"),
    "libresolv.so.2": re.compile("(__)?(res|dn|ns|p|sym|b64|fp|loc|h)_"),
}


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def symbols_of(library, newest):
    """name -> (version, type, size, value, binding), each in its newest version that is at most `newest`."""
    listed = subprocess.run(["readelf", "--wide", "--dyn-syms", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        match = SYMBOL.match(line)
        if not match:
            continue
        value, size, kind, binding, name, version = match.groups()
        if number(version) <= newest and (name not in found or number(version) > number(found[name][0])):
            found[name] = (version, kind, int(size), value, binding)
    return found


def assembly(symbols):
    """Functions are never called here, and need no code. Variables have their sizes, and names of one variable one place; of these the
    weak ones must be so here, too: a linker that gives a program its own copy of `environ` has to find that it is `__environ`."""
    lines = [".text"]
    aliases = {}
    for place, (name, (version, kind, size, value, binding)) in enumerate(sorted(symbols.items())):
        lines.append(f".{'weak' if binding == 'WEAK' else 'globl'} s{place}\n.symver s{place},{name}@@@{version}")
        if kind == "OBJECT":
            aliases.setdefault(value, []).append((place, size))
        else:
            lines.append(f".type s{place},@function\ns{place}:")
    lines.append("nop\n.bss")
    for names in aliases.values():
        lines.append(".balign 64")
        lines.extend(f".type s{place},@object\n.size s{place},{size}\ns{place}:" for place, size in names)
        lines.append(f".skip {max([1] + [size for _, size in names])}")
    return "\n".join(lines) + '\n.section .note.GNU-stack,"",@progbits\n'


def version_script(symbols):
    versions = sorted({version for version, *_ in symbols.values()}, key=number)
    return "".join(f"{version} {{ }}{' ' + versions[at - 1] if at else ''};\n" for at, version in enumerate(versions))


def link(folder, soname, symbols):
    source, script = folder / f"{soname}.s", folder / f"{soname}.map"
    source.write_text(assembly(symbols))
    script.write_text(version_script(symbols))
    subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}", "-o", folder / soname, source], check=True)


def machines(library):
    """Where the compiler finds a library of the machine's."""
    return subprocess.run(["gcc", f"-print-file-name={library}"], check=True, capture_output=True, text=True).stdout.strip()


def main(version, folder, libc, libm, libresolv):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    left = symbols_of(libresolv, number(version)) | symbols_of(libc, number(version))
    for soname, names in FORMER_LIBRARIES.items():
        link(folder, soname, {name: symbol for name, symbol in left.items() if names.match(name)})
        left = {name: symbol for name, symbol in left.items() if not names.match(name)}
    link(folder, "libc.so.6", left)
    link(folder, "libm.so.6", symbols_of(libm, number(version)))
    parts = [folder / "libc.so.6", machines("libc_nonshared.a")]
    now_and_then = [*(folder / soname for soname in FORMER_LIBRARIES), machines("ld-linux-x86-64.so.2")]
    (folder / "libc.so").write_text(f"GROUP ( {' '.join(map(str, parts))} AS_NEEDED ( {' '.join(map(str, now_and_then))} ) )\n")
    (folder / "libresolv.so").write_text(f"INPUT ( AS_NEEDED ( {folder / 'libresolv.so.2'} ) )\n")
    (folder / "libm.so").write_text(f"INPUT ( {folder / 'libm.so.6'} )\n")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
