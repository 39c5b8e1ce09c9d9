"""Builds the wheel of a build. Also the hooks that pip calls (PEP 517): `pip install ./python -C build=build/release`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import archive, binaries, metadata
from .archive import Member

PYTHON = Path(__file__).resolve().parents[1]
ROOT = PYTHON.parent


def _members(build: Path, version: str, tag: str) -> list[Member]:
    project = metadata.read_project(PYTHON)
    source = PYTHON / "src" / "warpline"
    members = [
        Member(f"warpline/{path.relative_to(source).as_posix()}", path.read_bytes())
        for path in sorted(source.rglob("*"))
        if path.suffix == ".py" or path.name == "py.typed"
    ]
    members += [Member(f"warpline/files/{path}", content, executable=True) for path, content in binaries.read(build).items()]
    # Of what is linked into the programs, where they were installed with it (scripts/package).
    others = sorted((build / "share" / "doc" / "warpline" / "third-party").glob("*"))
    licenses = {metadata.LICENSE: ROOT / metadata.LICENSE, **{f"third-party/{file.name}": file for file in others}}
    information = f"warpline-{version}.dist-info"
    readme = (PYTHON / project["readme"]).read_text()
    members += [
        Member(f"{information}/METADATA", metadata.metadata(project, version, readme, list(licenses)).encode()),
        Member(f"{information}/WHEEL", metadata.wheel(tag).encode()),
        Member(f"{information}/entry_points.txt", metadata.entry_points(project).encode()),
        *(Member(f"{information}/licenses/{path}", file.read_bytes()) for path, file in licenses.items()),
    ]
    return [*members, archive.record(members, f"{information}/RECORD")]


def make_wheel(build: Path, output: Path, glibc: str) -> Path:
    """Writes the wheel of a build into a folder and returns its path; `glibc` as binaries.platform_for(). @raises BuildError"""
    version = binaries.version_of(build)
    tag = f"py3-none-{binaries.platform_for(build, glibc)}"
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"warpline-{version}-{tag}.whl"
    archive.write(path, _members(build, version, tag))
    return path


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None) -> str:
    """PEP 517's hook. Its setting `build` names the build's folder (default build/release); the wheel is for this machine."""
    del metadata_directory
    build = Path((config_settings or {}).get("build", ROOT / "build" / "release"))
    return make_wheel(build.resolve(), Path(wheel_directory), "needed").name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """PEP 517's hook. There is none: what the wheel carries is not built by Python."""
    raise NotImplementedError("the sources of Warpline are its repository; there is no source distribution")
