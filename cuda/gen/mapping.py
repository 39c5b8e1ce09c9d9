"""How parameters travel: from C types and directions to the fields of the request and of the reply."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from diagnostics import Diagnostics
from model import CLASSES, WIRE_TYPES, Call, HandleKind, Message, Param, Scalar, WireField
from yamlplace import Map


@dataclass
class TypeTable:
    kinds: list[HandleKind] = field(default_factory=list)
    handles: dict[str, HandleKind] = field(default_factory=dict)
    integer_handles: list[str] = field(default_factory=list)
    scalars: dict[str, Scalar] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)
    structs: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)

    def kind(self, name: str) -> HandleKind | None:
        return next((k for k in self.kinds if k.name == name), None)


def struct_name(call: str) -> str:
    """cuMemAlloc_v2 -> CuMemAllocV2."""
    parts = call.split("_")
    return "".join(p[:1].upper() + p[1:] for p in parts)


def field_name(param: str) -> str:
    """Flags -> flags, captureStatus_out -> captureStatusOut: a name that Cap'n Proto accepts."""
    parts = [p for p in param.split("_") if p]
    name = parts[0] + "".join(p[:1].upper() + p[1:] for p in parts[1:])
    return name[:1].lower() + name[1:]


def map_call(call: Call, entry: Map, types: TypeTable, found: Diagnostics) -> None:
    """Fills in how each parameter travels and the two messages."""
    if call.cls not in CLASSES:
        place = entry.places.get("class", call.place)
        found.add(place, call.name, "unknown-class", f"class {call.cls!r} is none of: {', '.join(CLASSES)}")
        return
    travels = call.cls not in ("local", "unsupported") and entry.get("wire") != "none" and not call.sends
    call.custom_wire = isinstance(entry.get("wire"), list)
    strict = travels and not call.custom_wire
    for param in call.params:
        _find_kind(param, call, types, strict, found)
        _check_length(param, call, found)
    if "wire" in entry and entry["wire"] != "none" and not call.custom_wire:
        found.add(entry.places["wire"], call.name, "bad-value", "`wire` is a list of fields or `none`")
    if "reply" in entry and not call.custom_wire:
        found.add(entry.places["reply"], call.name, "bad-value", "`reply` stands only beside a `wire` list")
    if not travels:
        if call.custom_wire:
            found.add(entry.places["wire"], call.name, "bad-value", f"a call of class {call.cls} does not travel")
        return
    call.request = Message(struct_name(call.name))
    call.reply = Message(struct_name(call.name) + "Reply")
    if call.custom_wire:
        call.request.fields = _listed(entry["wire"], call, types, found)
        call.reply.fields = _listed(entry.get("reply") or [], call, types, found)
    else:
        _natural(call, types, found)
    _find_payload(call, entry, found)
    for message in (call.request, call.reply):
        _unique_fields(message, call, found)


def _find_kind(param: Param, call: Call, types: TypeTable, strict: bool, found: Diagnostics) -> None:
    """Sets kind, handle and scalar. `strict`: the natural mapping must fit, because the body is generated from it."""
    base = param.pointee
    element = base[:-1].strip() if base.endswith("*") else base
    if not _known_type(element.removeprefix("const ").strip(), types):
        found.add(param.place, call.name, "unknown-type", f"{param.type} of {param.name} is not in types.yaml")
        return
    if not param.dir:
        if param.is_pointer and call.cls != "unsupported":
            found.add(param.place, call.name, "pointer-without-dir", f"{param.name} needs `dir`")
            return
        param.dir = "none" if param.is_pointer else "in"
    if param.dir == "none":
        param.kind = "none"
        return
    if not param.is_pointer:
        _find_value_kind(param, call, types, found)
        return
    kind = _pointer_kind(param, base, types)
    if kind is None and strict:
        number = base in types.scalars or base in ("std::byte", "char") or base in types.handles
        code = "pointer-without-length" if number and param.len is None else "needs-wire"
        found.add(param.place, call.name, code, f"{param.type} {param.name} with `dir: {param.dir}` does not say what travels")
    param.kind = kind or "pointer"


def _known_type(element: str, types: TypeTable) -> bool:
    return (
        element in ("std::byte", "char", "void")
        or element in types.scalars
        or element in types.handles
        or element in types.structs
        or element in types.opaque
    )


def _find_value_kind(param: Param, call: Call, types: TypeTable, found: Diagnostics) -> None:
    if param.dir != "in":
        found.add(param.place, call.name, "bad-value", f"{param.name} is passed by value: `dir` is in or none")
    elif param.type in types.handles:
        param.kind, param.handle = "handle", types.handles[param.type]
    elif param.type in types.scalars:
        param.kind, param.scalar = "scalar", types.scalars[param.type]
    elif param.type in types.structs:
        param.kind = "struct_value"
    else:
        param.kind = "none"


def _pointer_kind(param: Param, base: str, types: TypeTable) -> str | None:
    """The kind of a pointer parameter, or None if what it points to has no natural form."""
    counted = param.len is not None
    if base == "char" and param.is_string:
        return "string_in" if param.dir == "in" else None
    if param.wants_payload:
        return {"in": "payload_in", "out": "payload_out"}.get(param.dir) if counted else None
    if base in types.handles:
        param.handle = types.handles[base]
        if counted:
            return "handles_in" if param.dir == "in" else None
        return "handle_out" if param.dir == "out" else None
    if base in types.scalars:
        param.scalar = types.scalars[base]
        if counted:
            return {"in": "array_in", "out": "array_out"}.get(param.dir)
        return {"out": "scalar_out", "inout": "scalar_inout"}.get(param.dir)
    if base in ("std::byte", "char"):
        return {"in": "array_in", "out": "array_out"}.get(param.dir) if counted else None
    if base in types.structs:
        if counted:
            return {"in": "array_in", "out": "array_out"}.get(param.dir)
        return f"struct_{param.dir}"
    return None


def _check_length(param: Param, call: Call, found: Diagnostics) -> None:
    if param.len is None or re.fullmatch(r"\d+", param.len):
        return
    names = set(re.findall(r"[A-Za-z_]\w*", param.len))
    by_value = {p.name for p in call.params if not p.is_pointer}
    if not re.fullmatch(r"[\w\s*+]+", param.len) or not names <= by_value:
        text = f"`len: {param.len}` of {param.name} must be made of parameters passed by value"
        found.add(param.place, call.name, "bad-length", text)


_IN = {
    "handle": "handle", "handle_out": "handle", "handles_in": "list_u64", "struct_in": "data", "struct_inout": "data",
    "array_in": "data", "string_in": "text", "struct_value": "data",
}  # fmt: skip
_OUT = {"struct_out": "data", "struct_inout": "data", "array_out": "data"}


def _natural(call: Call, types: TypeTable, found: Diagnostics) -> None:
    for param in call.params:
        request = _IN.get(param.kind)
        reply = _OUT.get(param.kind)
        if param.kind in ("scalar", "scalar_inout"):
            request = param.scalar.wire
        if param.kind in ("scalar_out", "scalar_inout"):
            reply = param.scalar.wire
        if request:
            param.request = _add(call.request, field_name(param.name), request, param)
        if reply:
            param.reply = _add(call.reply, field_name(param.name), reply, param)


def _add(message: Message, name: str, wire: str, param: Param | None) -> WireField:
    made = WireField(name, wire, len(message.fields), param.handle if param else None, param)
    made.optional = bool(param and param.null_ok and made.is_blob)
    message.fields.append(made)
    return made


def _listed(entries, call: Call, types: TypeTable, found: Diagnostics) -> list[WireField]:
    """The fields of a `wire:` or `reply:` list. A field that is named as a parameter belongs to it."""
    message = Message("")
    for entry in entries:
        if not isinstance(entry, Map) or not {"name", "type"} <= set(entry) <= {"name", "type", "kind", "null", "makes"}:
            text = "a field is {name: …, type: …} with an optional `kind`, `null: ok` or `makes: yes`"
            found.add(getattr(entry, "place", call.place), call.name, "bad-value", text)
            continue
        if entry["type"] not in WIRE_TYPES:
            found.add(entry.place, call.name, "unknown-type", f"{entry['type']} is no wire type: {', '.join(WIRE_TYPES)}")
            continue
        if not re.fullmatch(r"[a-z][A-Za-z0-9]*", entry["name"]):
            found.add(entry.place, call.name, "bad-value", f"{entry['name']} is no name of a field: [a-z][A-Za-z0-9]*")
            continue
        param = next((p for p in call.params if field_name(p.name) == entry["name"]), None)
        made = _add(message, entry["name"], entry["type"], param)
        made.optional = entry.get("null") == "ok"
        made.made = bool(entry.get("makes", False))
        if "kind" in entry:
            made.handle = types.kind(entry["kind"])
            if made.handle is None:
                found.add(entry.place, call.name, "unknown-handle", f"no kind of handle is called {entry['kind']}")
    return message.fields


def _find_payload(call: Call, entry: Map, found: Diagnostics) -> None:
    place = entry.places.get("payload", call.place)
    said = entry.get("payload")
    if said not in (None, "in", "out", "none"):
        found.add(place, call.name, "bad-payload", "`payload` is in, out or none")
        return
    params = [p for p in call.params if p.kind in ("payload_in", "payload_out")]
    if len(params) > 1:
        found.add(params[1].place, call.name, "bad-payload", "a call carries one payload")
    natural = "none" if not params else params[0].kind.removeprefix("payload_")
    if said is not None and not call.custom_wire and said != natural:
        found.add(place, call.name, "bad-payload", "without a `wire` list the payload follows from the parameters")
    call.payload = said if said is not None else natural


def _unique_fields(message: Message, call: Call, found: Diagnostics) -> None:
    seen: set[str] = set()
    for made in message.fields:
        if made.name in seen:
            found.add(call.place, call.name, "duplicate-name", f"two fields of {message.struct} are called {made.name}")
        seen.add(made.name)
