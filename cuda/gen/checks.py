"""What must hold for a description as a whole, beyond the shape of each entry."""

from __future__ import annotations

from diagnostics import Diagnostics
from model import Api, Call, Place


def check(api: Api, found: Diagnostics) -> None:
    misshapen = {d.entry for d in found.found}  # what follows from a mistake already found is not said again
    _names(api, found)
    _ids(api, found)
    for call in api.calls:
        if call.name in misshapen:
            continue
        _reason(call, found)
        _sends(call, found)
        _hooks(call, found)
        _parks(call, found)
        _waits(call, found)
        _kept(call, found)
        _ranges(call, found)
    _symbols(api, found)


def _names(api: Api, found: Diagnostics) -> None:
    seen: dict[str, Call] = {}
    for call in api.calls:
        if call.name in seen:
            found.add(call.place, call.name, "duplicate-name", f"described already at {seen[call.name].place}")
        seen[call.name] = call
        names = [p.name for p in call.params]
        for name in sorted({n for n in names if names.count(n) > 1}):
            found.add(call.place, call.name, "duplicate-name", f"two parameters are called {name}")
        if call.cls == "internal" and not call.name.startswith("wl"):
            found.add(call.place, call.name, "bad-value", "the name of an internal call begins with wl")
        if call.cls != "internal" and not call.name.startswith("cu"):
            found.add(call.place, call.name, "bad-value", "the name of a call begins with cu")


def _ids(api: Api, found: Diagnostics) -> None:
    owner = {number: name for name, number in api.lock.items()}
    seen: dict[int, Call] = {}
    for call in api.calls:
        if not 0 < call.id <= 0xFFFF:
            found.add(call.place, call.name, "bad-value", f"id {call.id:#x} does not fit 16 bits")
        elif call.id in seen:
            other = seen[call.id]
            found.add(call.place, call.name, "duplicate-id", f"id {call.id_hex} is {other.name}'s ({other.place})")
        elif call.name in api.lock and api.lock[call.name] != call.id:
            locked = f"0x{api.lock[call.name]:04x}"
            found.add(call.place, call.name, "id-changed", f"id {call.id_hex}, but ids.lock says {locked}: ids never change")
        elif owner.get(call.id, call.name) != call.name:
            found.add(call.place, call.name, "id-reused", f"id {call.id_hex} belongs to {owner[call.id]} in ids.lock for ever")
        elif call.name not in api.lock:
            text = f"append `{call.id_hex} {call.name}` to ids.lock (generate.py --target lock does)"
            found.add(call.place, call.name, "id-not-locked", text)
        seen.setdefault(call.id, call)


def _reason(call: Call, found: Diagnostics) -> None:
    if call.cls == "unsupported" and not call.reason:
        found.add(call.place, call.name, "bad-reason", "class unsupported needs a `reason`")
    if call.cls != "unsupported" and call.reason:
        found.add(call.place, call.name, "bad-reason", f"a `reason` on a call of class {call.cls}")
    if call.cls == "unsupported" and not call.softgpu:
        found.add(call.place, call.name, "bad-reason", "supported by neither side: it belongs into unsupported.yaml")


def _sends(call: Call, found: Diagnostics) -> None:
    """The forms of calls without a stream: the same parameters, but for the stream, and nothing said of them that the other does not."""
    if not call.sends:
        return
    target = call.target
    own = [(p.name, p.type) for p in call.params]
    streams = [p for p in target.params if p.is_stream] if target else []
    if target is None or len(streams) != 1 or own != [(p.name, p.type) for p in target.params if not p.is_stream]:
        found.add(call.place, call.name, "bad-value", f"`sends` names no call of the area that is this one with a stream: {call.sends}")
    elif not target.travels or call.cls != target.cls or call.hook_client or call.hook_server or call.pre_init or call.capture or call.reports:
        text = "`sends` wants a call of the same class that travels, and neither hooks nor what that call says"
        found.add(call.place, call.name, "bad-value", text)


def _hooks(call: Call, found: Diagnostics) -> None:
    if call.hook_client and call.cls in ("unsupported", "internal"):
        found.add(call.place, call.name, "hook-without-side", f"a call of class {call.cls} has no body on the client")
    if call.hook_server and not call.travels:
        found.add(call.place, call.name, "hook-without-side", "a call that does not travel has no body on the server")
    for flag in ("parks", "may_wait"):
        if getattr(call, flag) and not call.travels:
            found.add(call.place, call.name, "hook-without-side", f"`{flag}` on a call that does not travel")
    if call.foreign and (not any(p.type == "CUdeviceptr" for p in call.params) or call.hook_server or call.reply.fields):
        found.add(call.place, call.name, "bad-foreign", "`foreign` needs a CUdeviceptr, no hook on the server and no values in the reply")
    if call.cls == "internal":
        if not call.custom_wire:
            found.add(call.place, call.name, "needs-wire", "an internal call lists its message: `wire: […]`")
        if not call.hook_server:
            found.add(call.place, call.name, "needs-hook", "an internal call needs `hooks: [server]`")
        return
    if call.cls == "unsupported":
        return
    if not call.travels and not call.hook_client and not call.sends:
        found.add(call.place, call.name, "needs-hook", "a call that does not travel needs `hooks: [client]`")
    hidden = [p.name for p in call.params if p.kind in ("none", "pointer")]
    if call.travels and (call.custom_wire or hidden) and not (call.hook_client and call.hook_server):
        why = "a message of its own" if call.custom_wire else f"{hidden[0]}, which does not travel"
        found.add(call.place, call.name, "needs-hook", f"with {why}, both sides need a hook")


def _parks(call: Call, found: Diagnostics) -> None:
    """Whose reply a thread waits for says whether the driver may keep it waiting: if it did and nobody had said so, no other call of the
    session could run meanwhile, be it the one that ends the wait."""
    if call.travels and call.cls in ("blocking", "internal") and call.waits and not call.says_parks and not call.may_wait:
        found.add(call.place, call.name, "parks-missing", "say `parks: yes` if the driver function may wait, else `parks: no`")


def _waits(call: Call, found: Diagnostics) -> None:
    if not call.travels or call.waits or (call.hook_client and call.hook_server):
        return
    if call.reply.fields or call.payload == "out":
        text = f"a call of class {call.cls} has no reply to carry what it returns"
        found.add(call.place, call.name, "reply-without-wait", text)


def _kept(call: Call, found: Diagnostics) -> None:
    """What the generated body keeps may depend on nothing but the arguments. What is said of an object, other calls change: who writes
    the hook knows which."""
    if not call.is_kept:
        return
    named = [f.name for f in call.touched] + [f.name for f in call.addresses]
    if named or call.payload != "none" or not call.reply.fields:
        why = f"{named[0]} is named, and what is said of it may change" if named else "there are no values to keep"
        found.add(call.place, call.name, "needs-hook", f"a call of class cached without a hook on the client: {why}")


def _ranges(call: Call, found: Diagnostics) -> None:
    """No device address travels unchecked: each is part of a range, or the entry's hook is named as who looks at it."""
    named = " ".join(r.address for r in call.ranges)
    for field in call.addresses:
        if f"(args.{field.name})" not in named:
            text = f"{field.name} is a device address: `ranges` must say what is touched there"
            found.add(call.place, call.name, "range-missing", text)


def _symbols(api: Api, found: Diagnostics) -> None:
    """The count check both ways: described + unsupported = the symbols of the driver."""
    if not api.symbols:
        return
    pinned = {s.symbol for s in api.symbols}
    claimed: dict[str, str] = {}
    for call in api.calls:
        for symbol in call.symbols:
            _claim(symbol, call.name, call.place, pinned, claimed, found)
    for group in api.groups:
        for name in group.names:
            if name not in pinned:
                found.add(group.place, name, "symbol-surplus", "the driver has no such symbol")
            for symbol in (name, name + "_ptsz", name + "_ptds"):
                if symbol in pinned:
                    _claim(symbol, name, group.place, pinned, claimed, found)
    for symbol in api.symbols:
        if symbol.symbol not in claimed:
            place = Place("cuda/api/symbols.txt", 1)
            text = "the driver has this symbol, no entry describes it and unsupported.yaml does not list it"
            found.add(place, symbol.symbol, "symbol-missing", text)


def _claim(symbol: str, name: str, place: Place, pinned: set[str], claimed: dict[str, str], found: Diagnostics) -> None:
    if symbol not in pinned:
        found.add(place, name, "symbol-surplus", f"the driver has no symbol {symbol}")
    elif symbol in claimed:
        found.add(place, name, "symbol-duplicate", f"{symbol} is claimed by {claimed[symbol]} already")
    claimed[symbol] = name
