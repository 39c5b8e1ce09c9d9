"""CUDA toolkits of other versions than the one at hand, for tests: runtimes, NVRTC and compilers, fetched on demand into build/toolkits
and never part of anything that is shipped.

Runtimes and NVRTC are wheels. nvcc is one since 13.0; that of 11.8 is a Debian package of the non-free archive, which is unpacked and not
installed. 12.x has no compiler to be had in either place: its runtimes run what 11.8 has compiled, as CUDA 12 does with old objects.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import harness

FOLDER = pathlib.Path(os.environ.get("WARPLINE_TOOLKITS", harness.ROOT / "build" / "toolkits"))
VERSIONS = ["11.8", "12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9", "13.0", "13.1", "13.2", "13.3", "13.4", "13.5"]
DEBIAN = "bookworm"


class Unavailable(Exception):
    """What was to be fetched cannot be had: no network, or no such package."""


def major(version):
    return int(version.split(".")[0])


def at_hand():
    """The version of the toolkit at hand, of which harness.cuda_root() says where it is."""
    return re.search(r"release (\d+\.\d+)", _run([harness.cuda_root() / "bin" / "nvcc", "--version"]))[1]


def number(version):
    """'12.4' as 12040."""
    return major(version) * 1000 + int(version.split(".")[1]) * 10


def _run(command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def _pip():
    """A pip of our own if this Python has none (Debian's)."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    pip = harness.ROOT / ".venv" / "bin" / "pip"
    if not pip.exists():
        _run([sys.executable, "-m", "venv", harness.ROOT / ".venv"])
    return [pip]


def _made(folder, make):
    """A folder that is made once; one that was left half made is made again."""
    done = folder / ".done"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        done.touch()
    return folder


def _wheels(name, version, folder):
    """Unpacks a wheel of CUDA into a folder; what it has of CUDA lies in nvidia/<something>."""
    suffix = f"-cu{major(version)}" if major(version) < 13 else ""
    _run([*_pip(), "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", folder,
          f"nvidia-{name}{suffix}=={version}.*"])
    found = [p for p in (folder / "nvidia").iterdir() if (p / "include").exists() or (p / "lib").exists()]
    return found[0]


@functools.cache
def _package(name, version):
    folder = _made(FOLDER / version / name, lambda folder: _wheels(name, version, folder))
    return next(p for p in (folder / "nvidia").iterdir() if (p / "include").exists() or (p / "lib").exists())


def python_package(name, version):
    """A folder to put on PYTHONPATH."""
    install = [*_pip(), "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    return _made(FOLDER / "python" / f"{name}-{version}", lambda folder: _run([*install, "--target", folder, f"{name}=={version}"]))


def library(name, version):
    """The folder with include/ and lib/ of one of NVIDIA's libraries, of a version of CUDA."""
    return _package(name, version)


def runtime(version):
    """The folder with include/ and lib/ of a version's runtime."""
    return _package("cuda-runtime", version)


def runtime_library(version):
    return next((runtime(version) / "lib").glob("libcudart.so.*"))


def nvrtc(version):
    """A version's libnvrtc, which finds its other half beside it."""
    return next(p for p in sorted((_package("cuda-nvrtc", version) / "lib").glob("libnvrtc.so.*")) if "alt" not in p.name)


def compiler(version):
    """The nvcc of a version that there is one of: 11.8, 13.x. For 12.x, that of 11.8."""
    if major(version) == 13:
        return _made(FOLDER / version / "nvcc", lambda folder: _compiler_of_wheels(version, folder)) / "bin" / "nvcc"
    return _made(FOLDER / "11.8" / "nvcc", _compiler_of_debian) / "bin" / "nvcc"


def _compiler_of_wheels(version, folder):
    target = folder / "wheels"
    names = ["cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime"]
    _run([*_pip(), "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", target,
          *(f"nvidia-{name}=={version}.*" for name in names)])
    for part in (target / "nvidia" / "cu13").iterdir():
        part.rename(folder / part.name)
    shutil.rmtree(target)
    (folder / "lib64").symlink_to("lib")
    (folder / "lib" / "libcudart.so").symlink_to("libcudart.so.13")


def _apt(folder, *arguments):
    """apt-get with lists and settings of its own: nothing of the machine's changes."""
    settings = {"Dir::Etc::SourceList": folder / "sources.list", "Dir::Etc::SourceParts": "/dev/null", "Dir::State": folder / "state",
                "Dir::State::status": "/var/lib/dpkg/status", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root"}
    return _run(["apt-get", "-q", *(f"-o{key}={value}" for key, value in settings.items()), *arguments], cwd=folder)


def _debian_source():
    """Where this machine takes Debian from, with the non-free section."""
    listed = _run(["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"]).splitlines()
    signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " if pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists() else ""
    for line in listed:
        site, codename = line.split(" ")
        if codename == DEBIAN:
            return f"deb {signed}{site} {DEBIAN} main contrib non-free\n"
    raise Unavailable(f"this machine takes no packages from Debian's {DEBIAN}")


def fetch_debian_package(name, folder):
    """Unpacks a package of Debian's non-free archive below folder/<name>; the package itself is not kept."""
    apt = folder / "apt"
    if not (apt / "sources.list").exists():
        for part in ("state/lists/partial", "cache/archives/partial"):
            (apt / part).mkdir(parents=True, exist_ok=True)
        source = _debian_source()
        (apt / "sources.list").write_text(source)
        _apt(apt, "update")
    _apt(apt, "download", name)
    package = next(apt.glob(f"{name}_*.deb"))
    _run(["dpkg", "-x", package, folder / name])
    package.unlink()
    return folder / name / "usr"


def _compiler_of_debian(folder):
    debian = fetch_debian_package("nvidia-cuda-toolkit", folder)
    private = debian / "lib" / "nvidia-cuda-toolkit"
    for part in ("bin", "nvvm/bin", "lib"):
        (folder / part).mkdir(parents=True)
    for tool in ("cudafe++", "ptxas", "fatbinary", "nvlink", "bin2c"):
        (debian / "bin" / tool).rename(folder / "bin" / tool)
    (private / "bin" / "nvcc").rename(folder / "bin" / "nvcc")
    (private / "bin" / "crt").rename(folder / "bin" / "crt")
    (private / "bin" / "cicc").rename(folder / "nvvm" / "bin" / "cicc")
    (private / "libdevice").rename(folder / "nvvm" / "libdevice")
    (folder / "bin" / "nvcc.profile").write_text(
        "TOP = $(_HERE_)/..\nNVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice\nPATH += $(TOP)/nvvm/bin:$(_HERE_):\n"
        'INCLUDES += "-I$(TOP)/include" $(_SPACE_)\nLIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib"\n')
    shutil.rmtree(folder / "nvidia-cuda-toolkit")
    for name in ("cuda-runtime", "cuda-nvcc"):  # cuda_runtime.h, crt/
        shutil.copytree(_package(name, "11.8") / "include", folder / "include", dirs_exist_ok=True)


@functools.cache
def static_runtime(version):
    """libcudart_static.a of a version that has one: 11.8 (of a large Debian package), 13.x."""
    if major(version) == 13:
        return runtime(version) / "lib" / "libcudart_static.a"

    def make(folder):
        debian = fetch_debian_package("nvidia-cuda-dev", folder)
        (debian / "lib" / "x86_64-linux-gnu" / "libcudart_static.a").rename(folder / "libcudart_static.a")
        shutil.rmtree(folder / "nvidia-cuda-dev")

    return _made(FOLDER / "11.8" / "static", make) / "libcudart_static.a"
