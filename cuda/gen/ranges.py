"""The device memory that a call touches (`ranges:` of an entry), as C++ expressions in the fields of its request."""

from __future__ import annotations

import re

from diagnostics import Diagnostics
from model import Call, Range, WireField
from mapping import TypeTable, field_name
from yamlplace import Map, Seq

_LINEAR = {"address", "bytes", "rows", "pitch", "access", "null", "of", "align"}
_STRUCTS = {"in", "as", "access"}
_NUMBERS = ("u8", "u16", "u32", "u64")


def read_ranges(call: Call, entry: Map, types: TypeTable, found: Diagnostics) -> None:
    """Fills in call.ranges."""
    written = entry.get("ranges", [])
    if not isinstance(written, Seq):
        if written != []:
            found.add(entry.places["ranges"], call.name, "bad-range", "`ranges` is a list")
        return
    if call.request is None:
        found.add(entry.places["ranges"], call.name, "bad-range", "`ranges` on a call that does not travel")
        return
    for one in written:
        if not isinstance(one, Map):
            found.add(entry.places["ranges"], call.name, "bad-range", "a range is {address: …, bytes: …} or {in: …}")
            continue
        if one.get("access") not in ("read", "write", "both"):
            found.add(one.place, call.name, "bad-range", "`access` of a range is read, write or both")
        reader = _read_structs if "in" in one else _read_linear
        made = reader(one, call, types, found)
        if made is not None:
            call.ranges.append(made)


def _read_linear(one: Map, call: Call, types: TypeTable, found: Diagnostics) -> Range | None:
    if not {"address", "bytes", "access"} <= set(one) <= _LINEAR:
        text = "a range is {address: …, bytes: …, access: …} with an optional `rows` and `pitch`, `null: ok`, `of` or `align`"
        found.add(one.place, call.name, "bad-range", text)
        return None
    if ("rows" in one) != ("pitch" in one):
        found.add(one.place, call.name, "bad-range", "`rows` and `pitch` go together")
    made = Range(one.get("access"), one.place, null_ok=one.get("null") == "ok", of=one.get("of", "memory"))
    if made.of not in ("memory", "mappings", "window"):
        found.add(one.place, call.name, "bad-range", "`of` is memory, mappings or window")
    made.align = one.get("align", 0)
    if not isinstance(made.align, int) or ("align" in one and (made.align < 1 or made.of != "memory")):
        found.add(one.place, call.name, "bad-range", "`align` is a number of bytes, of a range of memory")
        made.align = 0
    for key in ("address", "bytes", "rows", "pitch"):
        if key in one:
            fields: list[WireField] = []
            setattr(made, key, _expression(str(one[key]), one, call, fields, found))
            made.numbers += fields if key != "address" else []
            made.at = fields[0] if key == "address" and fields else made.at
    return made


def _read_structs(one: Map, call: Call, types: TypeTable, found: Diagnostics) -> Range | None:
    if not {"in", "access"} <= set(one) <= _STRUCTS:
        found.add(one.place, call.name, "bad-range", "the ranges of structures are {in: <field>, as: <type>, access: …}")
        return None
    field = _field(str(one["in"]), call)
    if field is None or field.type != "data":
        found.add(one.place, call.name, "bad-range", f"{one['in']} is no field of structures")
        return None
    struct = one.get("as") or (field.param.pointee if field.param else "")
    if struct not in types.structs | types.opaque:
        found.add(one.place, call.name, "bad-range", f"`as` must name the type of {one['in']}, one of types.yaml")
        return None
    return Range(one.get("access"), one.place, within=field, struct=struct)


def _field(name: str, call: Call) -> WireField | None:
    """By the name of the parameter, or of the field where the entry lists its message itself."""
    return call.request.by_param(name) or call.request.by_name(field_name(name))


def _expression(text: str, one: Map, call: Call, fields: list[WireField], found: Diagnostics) -> str:
    """`dstPitch * Height + 4` of parameters and numbers as an expression of checked numbers; `fields`: those that it names."""
    parts = re.findall(r"\w+|[+*]", text)
    operands, operators = parts[0::2], parts[1::2]
    sound = text.replace(" ", "") == "".join(parts) and len(operands) == len(operators) + 1
    if not sound or any(o in "+*" for o in operands) or any(o not in "+*" for o in operators):
        found.add(one.place, call.name, "bad-range", f"{text!r} is no sum or product of parameters and numbers")
        return "0"
    result = []
    for part in parts:
        if part in "+*":
            result.append(part)
        elif re.fullmatch(r"\d+", part):
            result.append(f"Checked({part})")
        else:
            field = _field(part, call)
            if field is None or field.type not in _NUMBERS:
                found.add(one.place, call.name, "bad-range", f"{part} is no number of the request without a sign")
                return "0"
            fields.append(field)
            result.append(f"Checked(args.{field.name})")
    return " ".join(result)
