"""The description of the CUDA driver interface in memory: what loader.py makes of cuda/api/*.yaml, and what templates see.

A template of target T is named `T_area_<stem>.<ext>.j2` (rendered once per area, to `<folder of T>/<area>_<stem>.gen.<ext>`) or
`T_once_<stem>.<ext>.j2` (rendered once, to `<folder of T>/<stem>.gen.<ext>`); folders are in targets.py. Names in scope: `api`
(Api) and, in a per-area template, `area` (Area). Everything below is plain data and properties: no template needs logic beyond loops
and tests.
"""

from __future__ import annotations

import re

from dataclasses import dataclass, field

CLASSES = ("local", "cached", "create", "ordered", "query", "blocking", "unsupported", "internal")
# What a call has to come after, and what after it, besides the objects that it names (docs/api-description.md).
ORDERS = ("objects", "legacy", "pages", "maps", "unmaps", "context", "everything")


# The oldest driver that is served. What it has need not be looked for.
OLDEST_DRIVER = 11080

@dataclass(frozen=True)
class Place:
    """Where in which file something is written, for diagnostics."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class HandleKind:
    """A kind of object that the client names by token (cuda/api/types.yaml). `CUfunction` and `CUkernel` share one."""

    name: str  # "stream"; also HandleKind::stream in cuda/gen/call_id.gen.h
    number: int  # the kind byte of the token; never changes
    dies_with: tuple[str, ...] = ()  # kinds of objects that end one of this kind with themselves; "context": the current one


@dataclass(frozen=True)
class Scalar:
    """A C type that travels by value (cuda/api/types.yaml)."""

    c_type: str  # "unsigned int"
    wire: str  # "u32"


# Wire types: name in YAML -> (Cap'n Proto type, C++ type that carries a value of it).
WIRE_TYPES = {
    "handle": ("UInt64", "uint64_t"),
    "u8": ("UInt8", "uint8_t"),
    "u16": ("UInt16", "uint16_t"),
    "u32": ("UInt32", "uint32_t"),
    "u64": ("UInt64", "uint64_t"),
    "i32": ("Int32", "int32_t"),
    "i64": ("Int64", "int64_t"),
    "f32": ("Float32", "float"),
    "f64": ("Float64", "double"),
    "bool": ("Bool", "bool"),
    "text": ("Text", "std::string_view"),
    "data": ("Data", "warpline::BytesView"),
    "list_u64": ("List(UInt64)", "std::span<const uint64_t>"),
}


@dataclass
class WireField:
    """A field of a request or of a reply."""

    name: str  # as in Cap'n Proto: "hStream", "flags", "captureStatusOut"
    type: str  # a key of WIRE_TYPES
    ordinal: int  # @n
    handle: HandleKind | None = None  # set if type == "handle" and the kind is known (or list_u64 of handles)
    param: "Param | None" = None  # the parameter it comes from; None if the entry lists its message itself (`wire:`)
    optional: bool = False  # from the entry: an empty data/text stands for "null was given"
    made: bool = False  # as written in a `wire` list: `makes: yes`

    @property
    def capnp_type(self) -> str:
        return WIRE_TYPES[self.type][0]

    @property
    def cpp_type(self) -> str:
        """By value; text, data and list_u64 are views."""
        return WIRE_TYPES[self.type][1]

    @property
    def makes(self) -> bool:
        """The call gives the object behind this token its meaning, another one, or its end."""
        param = self.param
        return self.made or (param is not None and (param.makes or param.destroys or param.kind == "handle_out"))

    @property
    def is_stream(self) -> bool:
        return self.handle is not None and self.handle.name == "stream"

    @property
    def is_blob(self) -> bool:
        """True for what lives behind a Cap'n Proto pointer: text, data, list_u64."""
        return self.type in ("text", "data", "list_u64")

    @property
    def _upper(self) -> str:
        return self.name[0].upper() + self.name[1:]

    @property
    def getter(self) -> str:
        return "get" + self._upper

    @property
    def setter(self) -> str:
        return "set" + self._upper

    @property
    def has(self) -> str:
        return "has" + self._upper

    @property
    def init(self) -> str:
        return "init" + self._upper


@dataclass
class Message:
    """The request or the reply of a call as a Cap'n Proto struct `warpline::wire::<struct>` in protocol/schema/<area>.capnp."""

    struct: str  # "CuStreamCreate", "CuStreamCreateReply"
    fields: list[WireField] = field(default_factory=list)

    def by_param(self, name: str) -> WireField | None:
        return next((f for f in self.fields if f.param is not None and f.param.name == name), None)

    def by_name(self, name: str) -> WireField | None:
        return next((f for f in self.fields if f.name == name), None)


@dataclass
class Param:
    """A parameter of a call.

    `kind` is how it travels:
      scalar         by value                                     request field of its scalar type
      scalar_out     T*                                           reply field
      scalar_inout   T*                                           both
      handle         by value, looked up on both sides            request field "handle"
      handle_out     T*, token chosen by the client               request field "handle" (the server binds it on success)
      handles_in     const T*, `len` tokens                       request field "list_u64"
      struct_value   T by value, no pointers in T                 request field "data" of sizeof(T)
      struct_in      const T*, no pointers in T                   request field "data" of sizeof(T)
      struct_out     T*                                           reply field "data" of sizeof(T)
      struct_inout   T*                                           both
      array_in       const T*, `len` elements                     request field "data" of len * sizeof(T)
      array_out      T*, room for `len` elements                  reply field "data" of at most len * sizeof(T)
      payload_in     const void*, `len` bytes                     payload of the request
      payload_out    void*, `len` bytes                           payload of the reply
      string_in      const char*                                  request field "text"
      pointer        to something that has no form on the wire    does not travel by itself: hooks take it apart
      none           whatever                                     does not travel; the side that wants it is hooked
    """

    name: str
    type: str  # C type as in cuda.h: "CUstream*", "const void*"
    dir: str  # in | out | inout | none
    kind: str
    place: Place
    len: str | None = None  # C++ expression of the number of elements (bytes for void*): a parameter's name or a number
    null_ok: bool = False  # a pointer or handle may be null / zero
    null_refused: bool = False  # as written: a null handle is no valid value, rather than no valid handle
    null_empty: bool = False  # a pointer may be null only if its length is 0
    min: int | None = None  # smaller scalars are CUDA_ERROR_INVALID_VALUE
    max: str | None = None  # greater ones too, as unsigned numbers: a number or an enumerator
    zeroed: bool = False  # NVIDIA's driver writes zero there before it checks anything
    destroys: bool = False  # the handle ends with this call
    makes: bool = False  # later uses of the handle mean what this call makes of it
    handle: HandleKind | None = None
    scalar: Scalar | None = None
    request: WireField | None = None
    reply: WireField | None = None
    wants_payload: bool = False  # as written: `payload: yes`
    is_string: bool = False  # as written: `string: yes`

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")

    @property
    def pointee(self) -> str:
        """The type pointed to, without const: "CUstream" of "CUstream*"; "std::byte" for void."""
        base = self.type[:-1].strip() if self.is_pointer else self.type
        if base.startswith("const "):
            base = base[len("const ") :]
        elif base.endswith(" const"):
            base = base[: -len(" const")]
        return "std::byte" if base == "void" else base

    @property
    def declaration(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def check_null(self) -> bool:
        """A null pointer must be refused with CUDA_ERROR_INVALID_VALUE before anything else."""
        return (self.is_pointer and not self.null_ok and self.kind != "none") or (self.kind == "handle" and self.null_refused)

    @property
    def handle_by_value(self) -> HandleKind | None:
        return self.handle if self.kind == "handle" else None

    @property
    def is_stream(self) -> bool:
        return self.type == "CUstream" and self.dir == "in"


@dataclass
class Range:
    """Memory of a device that a call touches: a range of addresses, or the ranges that structures name (`within`)."""

    access: str  # read | write | both
    place: Place
    address: str = ""  # C++ expressions in `args.…`, made of numbers that never wrap around (common/base/region.h)
    bytes: str = "0"
    rows: str = "1"
    pitch: str = "0"
    null_ok: bool = False  # address 0 names nothing
    align: int = 0  # the client checks it too, before the call travels: address and pitch are multiples of this; 0: it does not
    of: str = "memory"  # memory (any of the session's) | mappings (whole ones of the client's own) | window (mapped or not)
    at: WireField | None = None  # the field with the address
    numbers: list[WireField] = field(default_factory=list)  # the fields that say how much is touched
    within: WireField | None = None  # the field with the structures
    struct: str = ""  # their type


@dataclass
class Twin:
    """The per-thread-default-stream form of a call: the same prototype; stream 0 means CU_STREAM_PER_THREAD in it."""

    symbol: str  # "cuStreamQuery_ptsz"
    suffix: str  # "ptsz" | "ptds"


@dataclass
class Call:
    """One entry."""

    name: str  # "cuStreamCreate", "cuMemAlloc_v2"; "wlMap" for an internal one
    id: int
    cls: str  # one of CLASSES
    area: str
    place: Place
    params: list[Param] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)  # more symbols of the same prototype and meaning
    twins: list[Twin] = field(default_factory=list)  # of the call and of its aliases, as pinned in symbols.txt
    hook_client: bool = False
    hook_server: bool = False
    softgpu: bool = True  # the software GPU implements it
    softgpu_reason: str = ""  # why not
    reason: str = ""  # class unsupported: why
    parks: bool = False  # the driver function may wait: the worker runs it on a helper thread
    says_parks: bool = False  # the entry says whether it parks
    may_wait: bool = False  # the driver function waits at times: later calls may overtake it then
    foreign: bool = False  # it may name memory of another device than the current context's: the server runs it where that is reached
    sends: str = ""  # as written: the call that this one is in the default stream; that one travels
    target: Call | None = None  # that call
    order: str = "objects"  # one of ORDERS
    source: str = ""
    notes: str = ""
    pre_init: bool = False  # `before_init: yes`: may be called before cuInit
    no_context: bool = False  # `no_context: yes`: runs without a current context; local calls decide for themselves
    answers_errors: bool = False  # `answers_errors: yes`: the reply's values come with an error as well
    nulls_first: bool = False  # `nulls_first: yes`: null pointers are refused even before cuInit
    reports: bool = False  # `reports: yes`: CUDA documents that it may return errors of earlier asynchronous calls
    capture: str = ""  # while streams are captured: node (it becomes one) | refused (on such a stream) | unsafe (it may wait)
    ranges: list[Range] = field(default_factory=list)  # device memory that it touches
    custom_wire: bool = False  # the entry lists its message itself; both sides are hooked
    request: Message | None = None  # None: the call does not travel
    reply: Message | None = None  # None: the call does not travel; without fields: the answer is the result alone
    payload: str = "none"  # in | out | none
    internal_waits: bool = False  # class internal: `waits: yes`
    since: int = 0  # the CUDA version whose driver was the first to have it, 12040: from the pinned symbols
    called_by: list[str] = field(default_factory=list)  # programs of the end-to-end tests, in the last run that was written down
    unseen: str = ""  # why no program can see its effect

    @property
    def travels(self) -> bool:
        return self.request is not None

    @property
    def forwarded(self) -> bool:
        """It does something on a server, itself or by what its hook sends."""
        return self.exported and self.cls in ("create", "ordered", "query", "blocking", "cached")

    @property
    def exported(self) -> bool:
        """It is a function of the driver (not an internal message)."""
        return self.cls != "internal"

    @property
    def waits(self) -> bool:
        """The client waits for the reply of the generated body."""
        return self.cls in ("blocking", "query", "cached") or (self.cls == "internal" and self.internal_waits)

    @property
    def is_kept(self) -> bool:
        """The generated body keeps the answer: it follows from the arguments, and is asked for once."""
        return self.cls == "cached" and self.travels and not self.hook_client

    @property
    def is_newer(self) -> bool:
        """Some driver that we serve lacks it."""
        return self.since > OLDEST_DRIVER and not self.pre_init

    @property
    def id_hex(self) -> str:
        return f"0x{self.id:04x}"

    @property
    def signature(self) -> str:
        """"CUstream* phStream, unsigned int Flags"; empty for none."""
        return ", ".join(p.declaration for p in self.params)

    @property
    def arguments(self) -> str:
        return ", ".join(p.name for p in self.params)

    @property
    def twin_arguments(self) -> str:
        """The arguments with which a _ptsz/_ptds twin calls the base: `per_thread_stream(hStream)` for streams."""
        return ", ".join(f"per_thread_stream({p.name})" if p.is_stream else p.name for p in self.params)

    @property
    def symbols(self) -> list[str]:
        """Every exported symbol of this entry: itself, aliases, twins."""
        if not self.exported:
            return []
        return [self.name, *self.aliases, *(t.symbol for t in self.twins)]

    @property
    def addresses(self) -> list[WireField]:
        """The fields of the request that are device addresses by their type."""
        fields = self.request.fields if self.request else []
        return [f for f in fields if f.param is not None and f.param.type == "CUdeviceptr"]

    @property
    def client_regions(self) -> list[tuple[str, int, str]]:
        """What the client checks of the ranges: a Region of the parameters, what its numbers are multiples of, and the address's parameter."""
        params = {f.name: f.param.name for f in self.request.fields if f.param is not None} if self.request else {}
        regions = []
        for r in self.ranges:
            numbers = [r.address, r.bytes] + ([r.rows, r.pitch] if r.rows != "1" else [])
            if r.align:
                region = re.sub(r"args\.(\w+)", lambda match: params[match[1]], ", ".join(numbers))
                regions.append((f"Region{{{region}}}", r.align, params[re.search(r"args\.(\w+)", r.address)[1]]))
        return regions

    def owner_of(self, made: Param) -> str:
        """What a new object dies with: the name of the field with its token, "context" for the current one, "" for nothing."""
        kinds = set(made.handle.dies_with)
        objects = kinds - {"context"}
        named = next((p.request.name for p in self.params if p.kind == "handle" and p.handle.name in objects), "")
        return named or ("context" if "context" in kinds else "")

    @property
    def payload_param(self) -> Param | None:
        return next((p for p in self.params if p.kind in ("payload_in", "payload_out")), None)

    @property
    def destroyed(self) -> Param | None:
        return next((p for p in self.params if p.destroys), None)

    @property
    def stream_argument(self) -> str:
        """The stream that the call works in; "nullptr" where none is named: the default stream."""
        return next((p.name for p in self.params if p.is_stream), "nullptr")

    @property
    def touched(self) -> list[WireField]:
        """The fields of the request that name objects."""
        return [f for f in self.request.fields if f.type == "handle" or (f.type == "list_u64" and f.handle)]

    @property
    def names_stream(self) -> bool:
        return any(f.is_stream for f in self.touched)

    @property
    def created(self) -> list[Param]:
        return [p for p in self.params if p.kind == "handle_out"]

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)


@dataclass
class Area:
    """One file of cuda/api."""

    name: str
    place: Place
    title: str = ""
    calls: list[Call] = field(default_factory=list)

    @property
    def exported(self) -> list[Call]:
        """Functions of the driver with a body of their own: not internal, not unsupported on the client."""
        return [c for c in self.calls if c.exported and c.cls != "unsupported"]

    @property
    def travelling(self) -> list[Call]:
        """Calls that have a message."""
        return [c for c in self.calls if c.travels]

    @property
    def softgpu(self) -> list[Call]:
        """Calls that the software GPU implements: warpline::softgpu::driver::<name>."""
        return [c for c in self.calls if c.exported and c.softgpu]


@dataclass
class Refused:
    """An exported symbol that only refuses. Its C prototype is not needed: the function takes no notice of its arguments."""

    symbol: str
    reason: str


@dataclass
class Group:
    """A group of unsupported.yaml: supported by neither side, for one reason."""

    reason: str
    names: list[str]
    place: Place
    made: bool = False  # not written there: what newer toolkits have and nothing is said of


@dataclass
class Symbol:
    """A line of symbols.txt and its like: an ELF symbol of the driver, and the name and version under which cuGetProcAddress finds
    it."""

    symbol: str  # "cuMemcpyHtoD_v2_ptds"
    function: str  # "cuMemcpyHtoD"
    version: int  # 7000
    per_thread: bool  # _ptsz / _ptds
    newer: bool = False  # not in symbols.txt: the headers that we are built with may not declare it


@dataclass
class Api:
    areas: list[Area]
    groups: list[Group]
    symbols: list[Symbol]
    handles: list[HandleKind]
    handle_types: dict[str, HandleKind]  # C type -> kind
    integer_handles: list[str]  # handle types that are integers, not pointers (CUmemGenericAllocationHandle)
    scalars: dict[str, Scalar]
    structs: set[str]
    lock: dict[str, int] = field(default_factory=dict)

    @property
    def calls(self) -> list[Call]:
        return [c for a in self.areas for c in a.calls]

    @property
    def travelling(self) -> list[Call]:
        return [c for c in self.calls if c.travels]

    @property
    def exported(self) -> list[Call]:
        return [c for a in self.areas for c in a.exported]

    def since(self, name: str) -> str:
        """The CUDA version from which on a function is there: "12.4"."""
        version = min((s.version for s in self.symbols if s.symbol == name), default=0)
        return f"{version // 1000}.{version % 1000 // 10}"

    def call(self, name: str) -> Call | None:
        return next((c for c in self.calls if c.name == name), None)

    @property
    def unknown(self) -> set[str]:
        """Newer symbols that nothing is said of: exported, refused, and not to be found by cuGetProcAddress."""
        said = {s for c in self.calls for s in c.symbols}
        for group in self.groups:
            if not group.made:
                said |= {s for name in group.names for s in (name, name + "_ptsz", name + "_ptds")}
        return {s.symbol for s in self.symbols if s.newer} - said

    def _group_symbols(self) -> list[Refused]:
        known = {s.symbol for s in self.symbols}
        out = []
        for group in self.groups:
            for name in group.names:
                out += [Refused(s, group.reason) for s in (name, name + "_ptsz", name + "_ptds") if s in known]
        return out

    @property
    def client_refused(self) -> list[Refused]:
        """Every exported symbol that the client library refuses with CUDA_ERROR_NOT_SUPPORTED, with the reason.

        Define them in a file that does not include cuda.h: `extern "C" CUresult cuX() { … }`.
        """
        return self._group_symbols() + [
            Refused(s, c.reason) for c in self.calls if c.cls == "unsupported" for s in c.symbols
        ]

    @property
    def softgpu_refused(self) -> list[Refused]:
        """The same for the software GPU."""
        return self._group_symbols() + [
            Refused(s, c.softgpu_reason) for c in self.calls if c.exported and not c.softgpu for s in c.symbols
        ]
