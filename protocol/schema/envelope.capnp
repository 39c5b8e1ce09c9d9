# The messages that are not calls of the driver: docs/wire-format.md says in which frames they travel.
# Fields are appended and never renumbered; a field that is not set has the value zero and means "as before there was this field".
@0xd1c8b02a3e5f7a61;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("warpline::wire");

struct Hello {
  versionMin @0 :UInt16;
  versionMax @1 :UInt16;
  capabilities @2 :UInt64;        # bits, see docs/wire-format.md
  clientVersion @3 :Text;         # of Warpline
  program @4 :Text;
  pid @5 :UInt32;
  host @6 :Text;
  windowAddress @7 :UInt64;       # the range of addresses that the client has reserved
  windowBytes @8 :UInt64;
  driverVersion @9 :Int32;        # the CUDA version that the client's libcuda.so.1 stands for
  unused10 @10 :Data;             # these three said what a lane's preamble and key say
  unused11 @11 :Data;
  unused12 @12 :UInt16;
  visibleDevices @13 :Text;       # what the program asks for, empty for all
  reported @14 :Bool;             # somebody watches this process, and tells the server when it is dead
  codecs @15 :UInt32;             # that the client encodes and decodes payloads with, a bit for each number; 0: none
  forcedCodec @16 :UInt8;         # not 0: what both sides shall use for all that it makes smaller, if the server has it
  forcedLevel @17 :UInt8;         # 0: the codec's own
  wantsExecuted @18 :Bool;        # asks for Event.executed
  sharesMemory @19 :Bool;         # memory may be passed over this connection (a Unix socket), for parts of payloads to lie in
  wantsUploads @20 :Bool;         # asks for `uploads` in the answer
  memoryBytes @21 :UInt64;        # the most of each device's memory that the session shall have; 0: it has no limit of its own
}

struct HelloReply {
  version @0 :UInt16;             # chosen; 0 when refused
  capabilities @1 :UInt64;        # of both sides
  error @2 :Text;                 # in plain words, when refused
  errorCode @3 :UInt16;           # warpline::Code
  unused4 @4 :Data;               # these two came before OpenReply had them
  unused5 @5 :Data;
  serverName @6 :Text;
  serverVersion @7 :Text;
  driverVersion @8 :Int32;
  driverKind @9 :DriverKind;
  limits @10 :Limits;
  windowAddress @11 :UInt64;
  windowBytes @12 :UInt64;        # 0: this driver cannot map; its own addresses are used
  memoryCreditBytes @13 :UInt64;  # what cuMemAlloc may take of the first device without asking
  devices @14 :List(Device);
  tenant @15 :Text;
  heartbeatMs @16 :UInt32;
  codecs @17 :UInt32;             # that both sides may use from now on
  sharedToServer @18 :UInt64;     # bytes of the memory whose descriptor comes with this: parts to the server lie in its beginning,
  sharedToClient @19 :UInt64;     # and those to the client behind that; 0: there is none
  uploads @20 :Uploads;           # if the server keeps what the tenant uploads, and the client asked
  shares @21 :Bool;               # memory and events can be shared with other sessions of the tenant: docs/ipc.md
  takesMachineCode @22 :Bool;     # not so with the software GPU, which executes PTX, unless it executes nothing
}

# How a client says which bytes it means without sending them: docs/upload-cache.md.
struct Uploads {
  key @0 :Data;                   # 32 bytes, the tenant's: hashes are HMAC-SHA-256 with it
  chunkBytes @1 :UInt32;          # what payloads are cut into, from their beginning; the last chunk has what is left
  storedBytes @2 :UInt64;         # what the server has of the tenant's
}

# What is asked of the door for a session, and what it answers: once for each.
struct Open {
  clientVersion @0 :Text;         # of Warpline
  driverSettings @1 :UInt64;      # what the driver must be told before it starts: docs/gpus.md
}

struct OpenReply {
  session @0 :Data;               # 16 bytes: what its lanes' preambles say
  key @1 :Data;                   # 32 bytes: what proves them
  expiresSeconds @2 :UInt32;      # for the first lane to come
  error @3 :Text;                 # in plain words, when refused
  errorCode @4 :UInt16;           # warpline::Code
}

# The first frame of a lane that takes the place of one that is lost.
struct Resume {
  session @0 :Data;               # its name again: nothing protects the preamble, and whether it has gone is said by what that names
  unused3 @3 :Data;               # these two said what the lane's preamble and key say
  unused1 @1 :UInt64;
  received @2 :UInt64;            # the highest sequence number that has arrived
  dead @4 :Bool;                  # the program is: its session shall end, and does not go on over this connection
}

struct ResumeReply {
  received @0 :UInt64;
  error @1 :Text;                 # in plain words, when refused: then the session has ended
  errorCode @2 :UInt16;           # warpline::Code
}

# What a server is asked without a session, before one is begun elsewhere or there; several times over one connection.
struct StatusRequest {
  clientVersion @0 :Text;
  claimBelow @1 :UInt32;          # 0: only asks. Else: keeps a place for a few seconds, if there are fewer sessions than this
  wantsLoad @2 :Bool;             # asks for `devices`, too
  wantsSheets @3 :Bool;           # asks for `sheets`, too
}

struct Status {
  serverName @0 :Text;
  serverVersion @1 :Text;
  sessions @2 :UInt32;            # running, beginning, or with a place that is kept
  maxSessions @3 :UInt32;
  workersReady @4 :UInt32;
  draining @5 :Bool;              # it takes no new sessions
  deviceCount @6 :UInt32;
  driverVersion @7 :Int32;
  driverKind @8 :DriverKind;
  claimed @9 :Bool;               # a place is kept for who asked; counted in `sessions`
  devices @10 :List(DeviceLoad);  # if `wantsLoad` asks for it and the server knows it; else empty
  sheets @11 :List(DeviceSheet);  # if `wantsSheets` asks for it; all devices
}

# What NVML's functions answer of a device: docs/nvml.md.
struct DeviceSheet {
  name @0 :Text;
  uuid @1 :Data;                  # 16 bytes
  pciBusId @2 :Text;
  totalBytes @3 :UInt64;
  computeMajor @4 :UInt32;
  computeMinor @5 :UInt32;
  multiprocessors @6 :UInt32;
  answers @7 :Data;               # of the server's NVML (cuda/nvml/sheet.h); empty: it has none
  processes @8 :List(DeviceProcess);  # of the tenant who asks
}

struct DeviceProcess {
  host @0 :Text;                  # as its Hello says
  pid @1 :UInt32;                 # there
  bytes @2 :UInt64;               # of the device's memory
}

struct DeviceLoad {
  utilisationPercent @0 :Int16 = -1;  # as NVML says it: the share of its last sampling period; -1: not known
  totalBytes @1 :UInt64;          # of the device's memory; 0: not known
  freeBytes @2 :UInt64;           # likewise, whoever uses the rest
}

enum DriverKind {
  unknown @0;
  nvidia @1;
  software @2;
}

struct Limits {
  creditBytes @0 :UInt64;         # calls and payload sent and not yet executed
  creditCalls @1 :UInt64;
  chunkBytes @2 :UInt32;          # a longer payload is cut into Bulk frames of at most this
  maxBodyBytes @3 :UInt32;
  bulkLanes @4 :UInt16;           # how many the client may open
  lanesMayEnd @5 :Bool;           # the server understands Event.laneGivenUp
  rememberedCalls @6 :UInt16;     # not 0: calls may be compact, and like one of so many that the server remembers
  memoryBytes @7 :UInt64;         # of each device, that the session may have: no more than Hello asks for; 0: there is no limit
}

# The snapshot of one device: everything that a program asks at its start.
struct Device {
  name @0 :Text;
  totalMemoryBytes @1 :UInt64;
  uuid @2 :Data;                  # 16 bytes
  computeMajor @3 :Int32;
  computeMinor @4 :Int32;
  attributes @5 :List(Attribute); # those of 1…200 that the driver answers
  pciBusId @6 :Text;
  limits @7 :List(Limit);
  leastPriority @8 :Int32;
  greatestPriority @9 :Int32;
  peers @10 :List(Peer);
  luid @11 :Data;
  primaryContext @12 :UInt64;     # the token that the primary context has from the start; 0: as the client's rule says
  freeMemoryBytes @13 :UInt64;
  rawProperties @14 :Data;        # room for a driver's structure that is passed on as it is
  execAffinityTypes @15 :UInt32;
}

struct Attribute { id @0 :UInt16; value @1 :Int32; }
struct Limit { id @0 :UInt16; result @1 :Int32; value @2 :UInt64; }
struct Peer {
  device @0 :UInt32;
  canAccess @1 :Bool;
  attributes @2 :List(Attribute); # CUdevice_P2PAttribute
}

# One call. Its number is its place in the session: the batch tells the first one.
struct Call {
  id @0 :UInt16;                  # CallId
  wantsReply @1 :Bool;
  thread @2 :UInt32;              # the client's number of the calling thread
  context @3 :UInt64;             # token of the thread's current context, 0: none
  payloadBytes @4 :UInt64;        # of this call, in the frame's payload or in the Bulk frames after it
  args @5 :AnyPointer;
}

struct Reply {
  call @0 :UInt64;
  result @1 :Int32;               # CUresult
  creditDevice @2 :UInt8;         # which device's memory creditBytes is about
  creditBytes @3 :UInt64;         # memory credit granted anew, added to what the client has
  payloadBytes @4 :UInt64;        # in this frame, or in Bulk frames; it takes effect when all of them are there
  values @5 :AnyPointer;
  progress @6 :Progress;
  freedThrough @7 :UInt64;        # what calls up to this one have freed is used by nobody any more
}

# Cumulative since the start of the session, so that a lost or repeated report does no harm.
struct Progress {
  calls @0 :UInt64;
  bytes @1 :UInt64;
  freedSlots @2 :UInt64;          # of shared memory, a bit each: those that have become free since the last report
}

struct Event {
  union {
    none @0 :Void;
    asyncError @1 :AsyncError;
    copyDone @2 :CopyDone;
    output @3 :Output;            # payload: the bytes
    hostCall @4 :HostCall;
    hostCallDone @5 :HostCall;    # client to server
    drain @6 :Drain;
    progress @7 :Progress;
    hostData @8 :HostData;        # client to server; payload: the bytes
    laneGivenUp @9 :LaneGivenUp;  # of the client; and the server's answer, behind what it had for the lane
    executed @10 :Executed;       # where Hello asks for it, and the server likes; payload: docs/wire-format.md#executed-calls
    offer @11 :Offer;             # client to server
    offered @12 :Offered;         # the server's answer, to each offer one
  }
}

struct AsyncError { call @0 :UInt64; result @1 :Int32; context @2 :UInt64; }  # the context: that the call worked in
struct CopyDone {
  call @0 :UInt64;
  result @1 :Int32;
  bytes @2 :UInt64;               # that were sent: in this frame's payload, or in Bulk frames, as with Reply
}
struct Output { stream @0 :UInt8; }   # 1: stdout, 2: stderr
struct HostCall { id @0 :UInt64; result @1 :Int32; }  # result: what a stream callback is told
struct HostData { id @0 :UInt64; offset @1 :UInt64; }  # of the memory that host call `id` sends, before its hostCallDone
struct LaneGivenUp { lane @0 :UInt16; received @1 :UInt64; }  # received: the highest number that the sender of this has
struct Executed { calls @0 :UInt32; dropped @1 :UInt64; }  # dropped: calls that are told of in no such event, since the start
struct Offer {
  call @0 :UInt64;                # whose payload it is about
  offset @1 :UInt64;              # of the first chunk
  total @2 :UInt64;               # of the payload
  hashes @3 :Data;                # 32 bytes for each chunk, of chunks that follow one another; 16 at most
  onlyAsks @4 :Bool;              # the chunks are sent in any case
}
struct Offered {
  call @0 :UInt64;
  offset @1 :UInt64;
  count @2 :UInt32;               # of chunks
  has @3 :UInt64;                 # a bit for each: the server has it, and takes it from there, unless it was only asked
  onlyAsks @4 :Bool;
}
struct Drain { secondsLeft @0 :UInt32; reason @1 :Text; }

# Part of the payload of a call (to the server) or of a reply or event (to the client).
struct Bulk {
  call @0 :UInt64;
  offset @1 :UInt64;
  total @2 :UInt64;
  keep @3 :Bool;                  # to the server: it may be worth keeping for another time
}

struct Close { reason @0 :Text; code @1 :UInt16; }
