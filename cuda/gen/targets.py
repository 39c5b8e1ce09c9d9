"""What can be generated, and where it goes below the folder of generated files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model import Api, Area

# Target -> folder. Files are included by their path below the folder of generated files.
FOLDERS = {
    "schema": "protocol/schema",
    "ids": "cuda/gen",
    "client": "client/gen",
    "server": "server/gen",
    "softgpu": "softgpu/driver/gen",
    "symbols": "cuda/abi/symbols",
    "coverage": "docs",
    "tests": "tests/generated",
    "probe": "tests/gpu/probe",
    "hostile": "tests/generated/hostile",
}


@dataclass(frozen=True)
class Output:
    path: str  # below the folder of generated files
    template: str
    area: Area | None


def outputs(api: Api, target: str, templates: Path) -> list[Output]:
    """The files of a target, from the names of its templates (see model.py)."""
    result = []
    for template in sorted(p.name for p in templates.glob(f"{target}_*.j2")):
        how, stem = template.removeprefix(target + "_").removesuffix(".j2").split("_", 1)
        if how == "once":
            result.append(Output(f"{FOLDERS[target]}/{_generated(target, stem)}", template, None))
        elif how == "area":
            # "<area>_<stem>", but a schema is simply called as its area
            for area in api.areas:
                name = f"{area.name}.{stem.split('.', 1)[1]}" if target == "schema" else f"{area.name}_{stem}"
                result.append(Output(f"{FOLDERS[target]}/{_generated(target, name)}", template, area))
        else:
            raise ValueError(f"{template}: the name of a template is <target>_area_<stem> or <target>_once_<stem>")
    return result


def _generated(target: str, name: str) -> str:
    """call_id.h -> call_id.gen.h; schemas, pages and maps keep their names."""
    stem, extension = name.split(".", 1)
    return name if target in ("schema", "coverage") or extension in ("map", "txt") else f"{stem}.gen.{extension}"
