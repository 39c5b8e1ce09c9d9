"""Packs what a GPU machine needs for scripts/test-gpu into one archive: the build, the tests' programs, the scripts, certificates."""

import os
import pathlib
import tarfile

import harness
import machine

FOLDER = "warpline-gpu-test"
PARTS = ["scripts", "certs", "tests/gpu", "tests/frameworks", "tests/e2e/harness.py", "tests/e2e/stuck.py",
         "tests/programs/programs.toml", "server/control/confinement.cpp"]
BUILT = ["bin/gpu-server", "bin/warpline", "bin/warpline-gpu-probe", "lib/warpline", "lib/libsoftgpu.so"]


def no_caches(entry):
    return None if "__pycache__" in entry.name else entry


def runtimes():
    """The shared libcudart of each version that the tests have fetched (tests/e2e/toolkits.py): [(version, file)]."""
    folder = pathlib.Path(os.environ.get("WARPLINE_TOOLKITS", harness.ROOT / "build" / "toolkits"))
    return [(path.relative_to(folder).parts[0], path) for path in sorted(folder.glob("*/cuda-runtime/nvidia/*/lib/libcudart.so.*"))]


def pack(archive, programs):
    """Writes the archive (.tar.gz) with all programs or those named; links in it stay links. Returns what of the build was not there."""
    missing = []
    harness.development_certificates(machine.CARRIED_CERTIFICATES)
    harness.write_description()
    with tarfile.open(archive, "w:gz", compresslevel=1) as out:
        def add(path, name):
            if path.exists():
                out.add(path, f"{FOLDER}/{name}", filter=no_caches)
            else:
                missing.append(name)

        for part in PARTS:
            add(harness.ROOT / part, part)
        for part in BUILT:
            add(harness.BUILD / part, f"build/release/{part}")
        for name in ("ca.crt", "server.crt", "server.key", "tenant.crt", "tenant.key"):
            add(machine.CARRIED_CERTIFICATES / name, f"build/certificates/{name}")
        for name in ["programs.json", *programs] if programs else [""]:
            add(harness.BINARIES / name, f"build/programs/{name}".rstrip("/"))
        for version, path in runtimes():
            add(path, f"build/runtimes/{version}/{path.name}")
    return missing


def main(archive, programs):
    missing = pack(pathlib.Path(archive), programs)
    size = os.path.getsize(archive) >> 20
    print(f"{archive}: {size} MiB. On the machine with the GPU: tar xf {pathlib.Path(archive).name} && {FOLDER}/scripts/test-gpu")
    if missing:
        print(f"not there, and so not packed: {', '.join(missing)}")
    return 0
