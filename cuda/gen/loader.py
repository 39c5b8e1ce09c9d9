"""Reads cuda/api into the model. Shape errors are found here, errors of meaning in checks.py."""

from __future__ import annotations

import re
from pathlib import Path

import yamlplace
from diagnostics import Diagnostics
from mapping import TypeTable, map_call
from model import ORDERS, Api, Area, Call, Group, HandleKind, Param, Place, Scalar, Symbol, Twin
from prototypes import Prototypes
from ranges import read_ranges
from yamlplace import Map, Seq

CALL_KEYS = {
    "call", "id", "class", "aliases", "hooks", "softgpu", "params", "source", "reason", "parks", "wire", "reply", "payload",
    "notes", "before_init", "no_context", "reports", "waits", "capture", "order", "may_wait", "nulls_first",
    "answers_errors", "ranges", "foreign", "sends",
}  # fmt: skip
# Field of Call, key of the entry.
FLAGS = (
    ("parks", "parks"),
    ("pre_init", "before_init"),
    ("no_context", "no_context"),
    ("nulls_first", "nulls_first"),
    ("answers_errors", "answers_errors"),
    ("reports", "reports"),
    ("internal_waits", "waits"),
    ("may_wait", "may_wait"),
    ("foreign", "foreign"),
)
PARAM_KEYS = {"dir", "len", "null", "min", "destroys", "makes", "payload", "string", "max", "zeroed"}


def load(folder: Path, prototypes: Prototypes) -> tuple[Api, Diagnostics]:
    """Everything below cuda/api, with the parameters of these prototypes. Errors: findings in the Diagnostics; DescriptionError for
    a file that is no YAML."""
    found = Diagnostics()
    api = Api([], [], _read_all_symbols(folder), [], {}, [], {}, set(), _read_lock(folder / "ids.lock"))
    types = _read_types(folder / "types.yaml", found)
    api.handles, api.handle_types, api.integer_handles = types.kinds, types.handles, types.integer_handles
    api.scalars, api.structs = types.scalars, types.structs
    twins = _twins(api.symbols)
    for path in sorted(folder.glob("*.yaml")):
        if path.name == "types.yaml":
            continue
        document = yamlplace.load(path, _shown(path))
        if path.name == "unsupported.yaml":
            _read_groups(document, api, found, Place(_shown(path), 1))
        else:
            _read_area(document, api, types, twins, prototypes, found, Place(_shown(path), 1), path.stem)
    _add_newer_group(api, Place("cuda/api/newer_symbols.txt", 1))
    _set_since(api)
    return api, found


def _add_newer_group(api: Api, place: Place) -> None:
    """What newer toolkits have and nothing is said of is refused as what unsupported.yaml lists; a name stands for its per-thread
    forms too."""
    plain = [n for n in sorted(api.unknown) if re.sub("_(ptsz|ptds)$", "", n) == n]
    if plain:
        api.groups.append(Group("newer than the interface that is served", plain, place, made=True))


def _set_since(api: Api) -> None:
    versions = {s.symbol: s.version for s in api.symbols}
    for call in api.calls:
        call.since = min((versions[s] for s in [call.name, *call.aliases] if s in versions), default=0)


def _shown(path: Path) -> str:
    """cuda/api/stream.yaml for the real ones: the path as a user of the repository would write it."""
    return "/".join(path.parts[-3:]) if path.parts[-3:-1] == ("cuda", "api") else str(path)


def _read_all_symbols(folder: Path) -> list[Symbol]:
    undeclared = ("newer_symbols.txt", "display_symbols.txt")
    return _read_symbols(folder / "symbols.txt", False) + [s for name in undeclared for s in _read_symbols(folder / name, True)]


def _read_symbols(path: Path, newer: bool) -> list[Symbol]:
    symbols = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split("#")[0].split()
            if words:
                symbols.append(Symbol(words[0], words[1], int(words[2]), len(words) > 3 and words[3] == "per_thread", newer))
    return symbols


def _read_lock(path: Path) -> dict[str, int]:
    lock: dict[str, int] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split("#")[0].split()
            if words:
                lock[words[1]] = int(words[0], 16)
    return lock


def _twins(symbols: list[Symbol]) -> dict[str, list[Twin]]:
    twins: dict[str, list[Twin]] = {}
    for symbol in symbols:
        match = re.fullmatch(r"(\w+)_(ptsz|ptds)", symbol.symbol)
        if match:
            twins.setdefault(match[1], []).append(Twin(symbol.symbol, match[2]))
    return twins


def _read_types(path: Path, found: Diagnostics) -> TypeTable:
    shown = _shown(path)
    document = yamlplace.load(path, shown) if path.exists() else None
    table = TypeTable()
    if not isinstance(document, Map):
        found.add(Place(shown, 1), "", "bad-yaml", "types.yaml must be a mapping")
        return table
    for name, entry in document.get("handles", {}).items():
        kind = HandleKind(name, entry["number"], tuple(entry.get("dies_with", [])))
        table.kinds.append(kind)
        for c_type in entry["types"]:
            table.handles[c_type] = kind
            if entry.get("integer"):
                table.integer_handles.append(c_type)
    for kind in table.kinds:
        for owner in kind.dies_with:
            if table.kind(owner) is None:
                found.add(document["handles"][kind.name].place, "", "unknown-handle", f"{kind.name} dies with {owner}, which is no kind")
    for wire, c_types in document.get("scalars", {}).items():
        for c_type in c_types:
            table.scalars[c_type] = Scalar(c_type, wire)
    for c_type in document.get("enums", []):
        table.scalars[c_type] = Scalar(c_type, "u32")
        table.enums.add(c_type)
    table.structs = set(document.get("structs", []))
    table.opaque = set(document.get("opaque", []))
    return table


def _read_groups(document, api: Api, found: Diagnostics, place: Place) -> None:
    if not isinstance(document, Map) or not isinstance(document.get("groups"), Seq):
        found.add(place, "", "bad-yaml", "unsupported.yaml must have a list `groups`")
        return
    for group in document["groups"]:
        if not group.get("reason"):
            found.add(group.place, "", "bad-reason", "a group of unsupported calls must give its reason")
        api.groups.append(Group(group.get("reason", ""), list(group.get("calls", [])), group.place))


def _read_area(document, api: Api, types: TypeTable, twins, prototypes, found: Diagnostics, place: Place, stem: str) -> None:
    if not isinstance(document, Map) or not isinstance(document.get("calls"), Seq):
        found.add(place, "", "bad-yaml", "an area must be a mapping with a list `calls`")
        return
    if document.get("area") != stem:
        found.add(document.place, "", "bad-value", f"`area` must be {stem}, as the file is named")
    area = Area(stem, document.place, document.get("title") or stem)
    for entry in document["calls"]:
        call = _read_call(entry, stem, document.get("order", "objects"), types, twins, prototypes, found)
        if call is not None:
            area.calls.append(call)
    for call in area.calls:
        call.target = next((c for c in area.calls if c.name == call.sends), None)
    api.areas.append(area)


def _known_keys(entry: Map, known: set[str], name: str, found: Diagnostics) -> None:
    for key in entry:
        if key not in known:
            found.add(entry.places[key], name, "unknown-key", f"`{key}` is no key here")


def _read_call(entry, area: str, order: str, types: TypeTable, twins, prototypes, found: Diagnostics) -> Call | None:
    name = entry.get("call") if isinstance(entry, Map) else None
    if not isinstance(name, str):
        found.add(getattr(entry, "place", Place(area, 1)), "", "bad-value", "an entry must begin with `call: <name>`")
        return None
    _known_keys(entry, CALL_KEYS, name, found)
    for key in ("id", "class", "source"):
        if key not in entry:
            found.add(entry.place, name, "missing-key", f"`{key}` is missing")
    if not isinstance(entry.get("id", 0), int):
        found.add(entry.places["id"], name, "bad-value", "`id` must be a number")
        return None
    call = Call(name, entry.get("id", 0), entry.get("class", ""), area, entry.place)
    call.aliases = list(entry.get("aliases") or [])
    call.twins = [twin for symbol in (name, *call.aliases) for twin in twins.get(symbol, [])]
    call.source, call.notes, call.reason = entry.get("source", ""), entry.get("notes", ""), entry.get("reason", "")
    for flag, key in FLAGS:
        value = entry.get(key, False)
        if not isinstance(value, bool):
            found.add(entry.places[key], name, "bad-value", f"`{key}` must be yes or no")
        setattr(call, flag, bool(value))
    call.says_parks = "parks" in entry
    call.sends = entry.get("sends", "")
    call.capture = entry.get("capture", "")
    if call.capture not in ("", "node", "refused", "unsafe"):
        found.add(entry.places["capture"], name, "bad-value", "`capture` must be node, refused or unsafe")
    call.order = entry.get("order", order)
    if call.order not in ORDERS:
        place = entry.places["order"] if "order" in entry else entry.place
        found.add(place, name, "bad-value", f"`order` is one of: {', '.join(ORDERS)}")
    _read_hooks(entry, call, found)
    _read_softgpu(entry, call, found)
    _read_params(entry, call, prototypes, found)
    map_call(call, entry, types, found)
    read_ranges(call, entry, types, found)
    return call


def _read_hooks(entry: Map, call: Call, found: Diagnostics) -> None:
    sides = entry.get("hooks", [])
    if not isinstance(sides, list) or not set(sides) <= {"client", "server"} or len(set(sides)) < len(sides):
        found.add(entry.places["hooks"], call.name, "bad-value", "`hooks` is a list of sides: client, server")
        return
    call.hook_client, call.hook_server = "client" in sides, "server" in sides


def _read_softgpu(entry: Map, call: Call, found: Diagnostics) -> None:
    value = entry.get("softgpu", True)
    if isinstance(value, Map):
        call.softgpu, call.softgpu_reason = False, value.get("unsupported") or ""
        if not call.softgpu_reason or len(value) != 1:
            found.add(entry.places["softgpu"], call.name, "bad-reason", 'softgpu is `yes` or `{unsupported: "reason"}`')
    elif value is not True:
        found.add(entry.places["softgpu"], call.name, "bad-value", 'softgpu is `yes` or `{unsupported: "reason"}`')


def _read_params(entry: Map, call: Call, prototypes: Prototypes, found: Diagnostics) -> None:
    """Types and names are the header's; the entry says what the header does not."""
    said = entry.get("params", Map())
    if not isinstance(said, Map) or not all(isinstance(how, Map) for how in said.values()):
        found.add(entry.places["params"], call.name, "bad-value", "`params` is a mapping of names to {dir: …, …}")
        return
    if call.name not in prototypes and call.cls != "internal":
        found.add(call.place, call.name, "no-prototype", f"cuda.h declares no {call.name}")
    declared = prototypes.get(call.name, [])
    for name in said:
        if name not in (n for _, n in declared):
            found.add(said.places[name], call.name, "unknown-param", f"{call.name} has no parameter {name}")
    for c_type, name in declared:
        place = said.places[name] if name in said else call.place
        call.params.append(_read_param(said.get(name, Map()), c_type, name, place, call, found))


def _read_param(entry: Map, c_type: str, name: str, place: Place, call: Call, found: Diagnostics) -> Param:
    _known_keys(entry, PARAM_KEYS, call.name, found)
    param = Param(name, c_type, entry.get("dir", ""), "none", place)
    if param.dir not in ("", "in", "out", "inout", "none"):
        found.add(place, call.name, "bad-value", f"`dir: {param.dir}` of {param.name} is not in, out, inout or none")
    null = entry.get("null")
    if null not in (None, "ok", "empty", "invalid_value"):
        found.add(place, call.name, "bad-value", f"`null` of {param.name} is ok, empty or invalid_value")
    # Stream 0 is the legacy default stream: a handle parameter of that type never refuses it.
    param.null_ok = null in ("ok", "empty") or (param.type == "CUstream" and null is None)
    param.null_empty = null == "empty"
    param.null_refused = null == "invalid_value" and param.type != "CUstream"
    param.len = str(entry["len"]) if "len" in entry else None
    param.min = entry.get("min")
    param.max = str(entry["max"]) if "max" in entry else None
    param.destroys = bool(entry.get("destroys", False))
    param.makes = bool(entry.get("makes", False))
    param.zeroed = bool(entry.get("zeroed", False))
    param.wants_payload = bool(entry.get("payload", False))
    param.is_string = bool(entry.get("string", False))
    return param
