"""What the wheel says of itself: pyproject.toml in the words of the core metadata (version 2.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomllib

LICENSE = "LICENSE"
# What of [project] is understood here. What is not would be lost without a word.
_KNOWN = {
    "name", "description", "readme", "requires-python", "license", "keywords", "classifiers", "dependencies", "dynamic", "scripts"
}  # fmt: skip


def read_project(folder: Path) -> dict[str, Any]:
    """The table [project]. @raises ValueError for a key that nothing here writes"""
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    if unknown := project.keys() - _KNOWN:
        raise ValueError(f"pyproject.toml: wheel_builder does not know {', '.join(sorted(unknown))} in [project]")
    return project


def metadata(project: dict[str, Any], version: str, readme: str, licenses: list[str]) -> str:
    """The file METADATA; `licenses` are files below the folder licenses/."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {path}" for path in licenses),
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {requirement}" for requirement in project["dependencies"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def entry_points(project: dict[str, Any]) -> str:
    """The file entry_points.txt."""
    return "[console_scripts]\n" + "".join(f"{name} = {where}\n" for name, where in sorted(project["scripts"].items()))


def wheel(tag: str) -> str:
    """The file WHEEL."""
    return f"Wheel-Version: 1.0\nGenerator: warpline-wheel-builder\nRoot-Is-Purelib: false\nTag: {tag}\n"
