// Every option with its default, bounds and words.
#include "common/config/options.h"

#include <algorithm>

namespace warpline::config {

namespace {

using enum Type;
constexpr Program k_server = Program::server, k_client = Program::client, k_software = Program::software;
constexpr int64_t k_kib = 1024, k_mib = 1024 * k_kib, k_gib = 1024 * k_mib, k_tib = 1024 * k_gib;
constexpr bool k_not_in_file = false, k_in_file = true;

// The server's and the client's are the same.
constexpr const char* k_disable_meaning =
    "Optimisations to be left out, so that a difference can be pinned to one of them: `aes` (encryption by the processor's "
    "widest instructions), `batching` (calls leave together), "
    "`cache` (what the server has had before is not sent again), "
    "`compact` (calls that are like earlier ones travel as what is different), `compression`, `congestion` (BBR as TCP's "
    "congestion "
    "control, where the kernel has it, to peers more than 2 ms away), `lanes` (connections for large "
    "copies), `parts` (how large parts of long payloads are follows the link), `polling` (repeated questions are answered "
    "here), `prefetch` (what will probably be asked next comes along), "
    "`reading` (who waits reads the answer itself), `shm` (large copies lie in memory that client and server share, over Unix "
    "sockets), `spin` (who waits looks for the answer before it sleeps), `turns` (of many sessions on few processors, some at "
    "a time are "
    "served), or `all`. The client heeds all of them but `turns`, the server "
    "`aes`, `cache`, `compact`, `congestion`, `parts`, `reading`, `shm`, `spin` and `turns`.";

constexpr Option k_options[] = {
    // gpu-server
    {k_server, "listen", text_list, "", "0.0.0.0:14833", 0, 0, "WARPLINE_LISTEN", "--listen", k_in_file,
     "Addresses to listen on: an address and port, where port 0 takes a free one and prints it, and [::]:14833 listens on IPv6 "
     "as well; unix:PATH, a Unix socket, for programs on this machine and in its containers; vsock:PORT, for virtual machines. "
     "The first one is also the name by which `gpu-server status` and `drain` know the server.",
     "An address of one interface keeps others out."},
    {k_server, "unix_mode", text, "", "0600", 0, 0, "WARPLINE_UNIX_MODE", "--unix-mode", k_in_file,
     "The mode of the files of Unix sockets, octal: who can write to one may connect.",
     "Whoever connects still needs a certificate, or a place in `unix_tenants`."},
    {k_server, "unix_tenants", text_list, "", "", 0, 0, "WARPLINE_UNIX_TENANTS", "--unix-tenants", k_in_file,
     "Users of this machine who need no certificate on Unix sockets: the kernel says who they are. `self` is the server's own "
     "user and root; else a user's name or number; with =NAME behind it that is the tenant's name, else it is the user's.",
     "All programs of these users may use the GPUs, and there is no TLS between them and the server."},
    {k_server, "driver", path, "", "auto", 0, 0, "WARPLINE_DRIVER", "--driver", k_in_file,
     "The CUDA driver to execute on: a library, `nvidia` for the system's libcuda.so.1, `software` for the software GPU, "
     "`auto` for the former if it finds a device, else the latter.",
     "The software GPU runs PTX on the CPU, hundreds of times slower than a GPU."},
    {k_server, "nvml", path, "", "auto", 0, 0, "WARPLINE_NVML", "--nvml", k_in_file,
     "The management library that is asked how busy the GPUs are, and what NVML tells of them, when a client or the operator "
     "wants to know: a library, `auto` for the one of the driver, `none` for no answer; see nvml.md.",
     "It makes no context; the process that asks it keeps the GPUs' device files open."},
    {k_server, "certificate", path, "", "/etc/warpline/server.crt", 0, 0, "WARPLINE_SERVER_CERT", "--cert", k_in_file,
     "The server's certificate (PEM). Clients check that the name or address that they dial is in it.", ""},
    {k_server, "key", path, "", "/etc/warpline/server.key", 0, 0, "WARPLINE_SERVER_KEY", "--key", k_in_file,
     "The private key of the certificate (PEM). Keep it readable by the server only.", ""},
    {k_server, "door_user", text, "", "", 0, 0, "WARPLINE_DOOR_USER", "--door-user", k_in_file,
     "The user as whom the process runs that has the key and speaks with strangers (the door); empty: the server's own. Only "
     "for a server that runs as root.",
     "It reads key and certificates before, as root. Nobody else should run as that user."},
    {k_server, "worker_user", text, "", "", 0, 0, "WARPLINE_WORKER_USER", "--worker-user", k_in_file,
     "The user as whom the processes run that load the driver and execute what clients say (the workers, and the gauge, which "
     "asks NVML); empty: the server's own. Only for a server that runs as root.",
     "The user needs the GPUs' device files, and the driver to be readable. Nobody else should run as that user."},
    {k_server, "ca", path, "", "/etc/warpline/ca.crt", 0, 0, "WARPLINE_SERVER_CA", "--ca", k_in_file,
     "The certificate authority (PEM) whose tenants are let in.", "Everybody it has signed may use the GPUs."},
    {k_server, "devices", text_list, "", "all", 0, 0, "WARPLINE_DEVICES", "--devices", k_in_file,
     "The devices to offer: ordinals of the driver or UUIDs, or `all`.", "Devices left out stay free for local programs."},
    {k_server, "workers_ready", integer, "processes", "2", 0, 64, "WARPLINE_WORKERS_READY", "--workers-ready", k_in_file,
     "Worker processes that are started ahead, driver initialised, so that a session starts within 10 ms.",
     "Each holds the host memory of a CUDA process, and the contexts of `ready_contexts`; 0 makes every session wait for a "
     "driver to "
     "start."},
    {k_server, "ready_contexts", text, "", "first", 0, 0, "WARPLINE_READY_CONTEXTS", "--ready-contexts", k_in_file,
     "Where workers that are ready have a context already: on the `first` device, on `all`, or on `none`. A session gives up "
     "those on "
     "devices that it does not see, and gets the others when it goes there. On devices that give a context to one process at a "
     "time "
     "(compute mode exclusive or prohibited) none is made ahead.",
     "A context takes 250 to 600 MiB of device memory with NVIDIA's driver and none with the software GPU; without one, a "
     "program's "
     "first call takes 0.1 to 0.5 s longer."},
    {k_server, "max_sessions", integer, "sessions", "64", 1, 4096, "WARPLINE_MAX_SESSIONS", "--max-sessions", k_in_file,
     "Sessions at a time; further ones are refused.", "Each session is a process with its own CUDA context on the GPU."},
    {k_server, "drain_seconds", seconds, "seconds", "30", 0, 86400, "WARPLINE_DRAIN_SECONDS", "--drain-seconds", k_in_file,
     "After SIGTERM no session is accepted, and running ones have this long to end.",
     "A longer time delays the restart; a shorter one ends programs."},
    {k_server, "heartbeat_seconds", seconds, "seconds", "1", 1, 3600, "WARPLINE_HEARTBEAT_SECONDS", "--heartbeat-seconds",
     k_in_file, "A connection without traffic for this long is asked for a sign of life.",
     "Smaller: trouble is noticed sooner; more, small messages on idle connections."},
    {k_server, "heartbeat_lost_seconds", seconds, "seconds", "0", 0, 86400, "WARPLINE_HEARTBEAT_LOST_SECONDS",
     "--heartbeat-lost-seconds", k_in_file,
     "A client whose machine has been silent for this long is lost; on links with a long or unsteady round trip up to four "
     "times "
     "as long. 0: eight times `heartbeat_seconds`.",
     "Smaller: a dead client's GPU memory is free sooner, and short network outages end sessions."},
    {k_server, "heartbeat_stopped_seconds", seconds, "seconds", "30", 1, 86400, "WARPLINE_HEARTBEAT_STOPPED_SECONDS",
     "--heartbeat-stopped-seconds", k_in_file,
     "A program that says nothing, while its machine acknowledges what is sent, is stopped (Ctrl-Z, a debugger): it is lost "
     "after "
     "this long, and never sooner than `heartbeat_lost_seconds`.",
     "Larger: a stopped program keeps its session, and its GPU memory, longer."},
    {k_server, "grace_seconds", seconds, "seconds", "30", 0, 86400, "WARPLINE_GRACE", "--grace-seconds", k_in_file,
     "A session whose connection is lost is kept for this long, for its program to come back.",
     "Longer: programs survive longer outages; the GPU memory of programs whose machine is gone is held as long. 0: none comes "
     "back."},
    {k_server, "memory_credit", bytes, "bytes", "1GiB", 0, 64 * k_tib, "WARPLINE_MEMORY_CREDIT", "--memory-credit", k_in_file,
     "Device memory that a client may allocate before it has to ask.",
     "Larger: fewer round trips in programs that allocate much; an allocation that does not fit shows later."},
    {k_server, "session_memory", bytes, "bytes", "0", 0, 64 * k_tib, "WARPLINE_SESSION_MEMORY", "--session-memory", k_in_file,
     "The most of each device's memory that a session may have; a program's own `memory` may be less. 0: as much as there is.",
     "Beyond it allocations give CUDA_ERROR_OUT_OF_MEMORY, and programs see a device of this size."},
    {k_server, "staging_memory", bytes, "bytes", "1GiB", k_mib, 64 * k_tib, "WARPLINE_STAGING_MEMORY", "--staging-memory",
     k_in_file, "Page-locked host memory of a session for asynchronous copies on their way to its client.",
     "Larger: programs that queue many such copies wait less; it is memory that the node cannot use otherwise."},
    {k_server, "credit_bytes", bytes, "bytes", "64MiB", 2 * k_mib, 16 * k_gib, "WARPLINE_CREDIT_BYTES", "--credit-bytes",
     k_in_file, "Bytes of calls and copies of a session that may be on their way or waiting for the GPU.",
     "Larger fills long, fast links; it is also host memory that a client can make the server hold."},
    {k_server, "credit_calls", integer, "calls", "65536", 64, 16777216, "WARPLINE_CREDIT_CALLS", "--credit-calls", k_in_file,
     "Calls of a session that may be on their way or waiting.", "Larger: a program that launches in bursts waits less often."},
    {k_server, "bulk_lanes", integer, "connections", "4", 0, 4, "WARPLINE_BULK_LANES", "--bulk-lanes", k_in_file,
     "Connections that a session may have for large copies, beside the first one.",
     "More: copies use more cores, and links whose single connections are slow."},
    {k_server, "spin_microseconds", integer, "microseconds", "-1", -1, 100000, "WARPLINE_SPIN_MICROSECONDS",
     "--spin-microseconds", k_in_file,
     "How long a session that has no call to execute looks for the next one before its thread sleeps, and one that waits for "
     "the device asks it. -1: 50 where there are at least 2 processors, else 0.",
     "Waking a thread takes 2 to 50 µs; looking takes a processor meanwhile. Where it finds nothing it becomes rare, and while "
     "more threads want a processor than there are it stops."},
    {k_server, "disable", text_list, "", "", 0, 0, "WARPLINE_DISABLE", "--disable", k_in_file, k_disable_meaning,
     "Each makes programs slower, and changes nothing else."},
    {k_server, "compression", boolean, "", "true", 0, 0, "WARPLINE_SERVER_COMPRESS", "--compression", k_in_file,
     "Compress what sessions send and receive, where their clients wish it and it pays. `false`: nothing is.",
     "false spares the server's processors; copies over slow links take longer."},
    {k_server, "tell_executed", boolean, "", "true", 0, 0, "WARPLINE_TELL_EXECUTED", "--tell-executed", k_in_file,
     "Tell a client that asks for it (`trace`) when its calls were executed. `false`: its trace has no server side.",
     "About ten bytes for each call of such a client. Nobody is told of the calls of others."},
    {k_server, "upload_cache", bytes, "bytes", "2GiB", 0, k_tib, "WARPLINE_UPLOAD_CACHE", "--upload-cache", k_in_file,
     "Memory for what programs have uploaded over slow links, so that the same weights and modules need not travel twice. Each "
     "tenant finds only its own. 0: nothing is kept.",
     "Host memory that is taken as it is filled; one that is smaller than what a program uploads each time finds little."},
    {k_server, "upload_cache_folder", path, "", "", 0, 0, "WARPLINE_UPLOAD_CACHE_FOLDER", "--upload-cache-folder", k_in_file,
     "A folder in which the same is kept on disk, so that it outlives the server; empty: in memory only. It belongs to the "
     "user "
     "that workers run as, and nobody else may look into it.",
     "What is uploaded is written once; it can be read by whoever can read the folder."},
    {k_server, "upload_cache_disk", bytes, "bytes", "32GiB", k_mib, 64 * k_tib, "WARPLINE_UPLOAD_CACHE_DISK",
     "--upload-cache-disk", k_in_file, "The most that `upload_cache_folder` may hold.", "Disk space."},
    {k_server, "upload_cache_list", path, "", "", 0, 0, "WARPLINE_UPLOAD_CACHE_LIST", "--upload-cache-list", k_in_file,
     "A list of files that are kept from the start, for the tenants that will upload them: lines of TENANT, FILE and, for a "
     "part "
     "that is uploaded by itself, OFFSET and BYTES, with tabs in between; see upload-cache.md.",
     "Sessions that begin while it is read go without what was uploaded before."},
    {k_server, "log", text, "", "info", 0, 0, "WARPLINE_LOG", "--log", k_in_file,
     "What is logged, to stderr: trace, debug, info, warn, error or off, and levels per area such as `warn,protocol=debug`.",
     "debug writes a line per event, trace a line per call."},
    {k_server, "ready_fd", integer, "", "-1", -1, 1048576, "", "--ready-fd", k_not_in_file,
     "Write `ready ADDRESS` (the first one of `listen`) and a newline to this open file descriptor when sessions are accepted, "
     "for scripts.",
     ""},

    // libcuda.so.1 and the warpline command
    {k_client, "servers", text_list, "", "", 0, 0, "WARPLINE_SERVERS", "--server", k_in_file,
     "The servers, host:port each, or host:port*3 for one with three times the weight; unix:PATH and vsock:CID:PORT on this "
     "machine; dns:NAME:PORT, where each address of "
     "the "
     "name is a server; srv:_warpline._tcp.NAME, where each SRV record is one, with its priority and weight. Without one the "
     "program sees no CUDA device.",
     "Several are all asked before the first session; one alone is not."},
    {k_client, "dns_server", text, "", "", 0, 0, "WARPLINE_DNS", "", k_in_file,
     "The DNS server that is asked for the names in dns: and srv: entries, address:port, such as Consul's at 127.0.0.1:8600. "
     "Without one, those of /etc/resolv.conf.",
     ""},
    {k_client, "policy", text, "", "least_connections", 0, 0, "WARPLINE_POLICY", "", k_in_file,
     "How one of several servers is chosen: `least_connections`, the one with the fewest sessions, then the nearest; "
     "`weighted`, likewise, for each unit of weight; `gpu_utilisation`, the one that has the least utilised GPU, then the most "
     "free memory there, then the fewest sessions; `round_robin`, in turn with the user's other programs on this machine; "
     "`in_order`, the first of the list. Servers that are full or drain are passed over.",
     ""},
    {k_client, "quarantine_seconds", seconds, "seconds", "60", 0, 86400, "WARPLINE_QUARANTINE", "", k_in_file,
     "One of several servers that cannot be reached, does not answer or fails in TLS rests: 2 seconds, then twice as long "
     "after "
     "each further failure, and never longer than this. Programs of the user on this machine pass it over while others take "
     "them. 0: none rests.",
     "Longer: fewer attempts at dead servers; one that is back is found later (`warpline servers` finds it at once)."},
    {k_client, "wait_seconds", seconds, "seconds", "0", 0, 7 * 86400, "WARPLINE_WAIT", "", k_in_file,
     "While servers that could be taken are full, the program waits for a place for this long.",
     "0: it fails at once, with the reason of each. Longer: jobs start one after the other as others end; who waits longest is "
     "not the first to be served."},
    {k_client, "certificate", path, "", "~/.config/warpline/tenant.crt", 0, 0, "WARPLINE_CERT", "--cert", k_in_file,
     "The tenant's certificate (PEM); its common name is the tenant's name.", ""},
    {k_client, "key", path, "", "~/.config/warpline/tenant.key", 0, 0, "WARPLINE_KEY", "--key", k_in_file,
     "The private key of the certificate (PEM).", ""},
    {k_client, "ca", path, "", "~/.config/warpline/ca.crt", 0, 0, "WARPLINE_CA", "--ca", k_in_file,
     "The certificate authority (PEM) that servers must be signed by.", ""},
    {k_client, "unix_identity", text, "", "auto", 0, 0, "WARPLINE_UNIX_IDENTITY", "", k_in_file,
     "Who the program is for a server at unix:PATH: `certificate`, as elsewhere; `user`, the user that it runs as, without "
     "TLS, if the server takes that (its `unix_tenants`); `auto`, the former if there are certificate, key and CA, else the "
     "latter.",
     "Without TLS a session starts sooner, and small calls take less of the processor."},
    {k_client, "memory", bytes, "bytes", "0", 0, 64 * k_tib, "WARPLINE_MEMORY", "--memory", k_in_file,
     "The most of each device's memory that the program may have, such as 8GiB; the server's `session_memory` may be less. "
     "0: as much as there is. A server that is too old to heed it is not used.",
     "Beyond it allocations give CUDA_ERROR_OUT_OF_MEMORY, and the program sees a device of this size."},
    {k_client, "connect_timeout", seconds, "seconds", "10", 1, 3600, "WARPLINE_CONNECT_TIMEOUT", "--connect-timeout", k_in_file,
     "How long cuInit waits for a server to be reached and to accept the session; DNS has half of it to answer dns: and srv: "
     "entries.",
     "Longer: patience with a server that is starting; a program without a server hangs as long before it sees no device."},
    {k_client, "heartbeat_seconds", seconds, "seconds", "1", 1, 3600, "WARPLINE_HEARTBEAT_SECONDS", "", k_in_file,
     "A connection without traffic for this long is asked for a sign of life.",
     "Smaller: trouble is noticed sooner; more, small messages on idle connections."},
    {k_client, "heartbeat_lost_seconds", seconds, "seconds", "0", 0, 86400, "WARPLINE_HEARTBEAT_LOST_SECONDS", "", k_in_file,
     "A server whose machine has been silent for this long is lost; on links with a long or unsteady round trip up to four "
     "times "
     "as long. 0: eight times `heartbeat_seconds`.",
     "Smaller: a dead server is noticed sooner, and short network outages end the session."},
    {k_client, "heartbeat_stopped_seconds", seconds, "seconds", "30", 1, 86400, "WARPLINE_HEARTBEAT_STOPPED_SECONDS", "",
     k_in_file,
     "A server that says nothing, while its machine acknowledges what is sent, is stopped: it is lost after this long, and "
     "never "
     "sooner than `heartbeat_lost_seconds`.",
     "Larger: more patience with a server that is stopped, or hangs."},
    {k_client, "grace_seconds", seconds, "seconds", "30", 0, 86400, "WARPLINE_GRACE", "", k_in_file,
     "After a lost connection the program waits for another one for this long; then every CUDA call fails with error 46.",
     "Longer: patience with outages; a program without its server hangs as long. 0: a lost connection ends the session at "
     "once."},
    {k_client, "reconnect_first_ms", integer, "milliseconds", "100", 1, 60000, "WARPLINE_RECONNECT_FIRST_MS", "", k_in_file,
     "After a lost connection the first attempt is made at once; the next one after a random time up to this, then twice as "
     "much, "
     "and so on.",
     "Smaller: back sooner; many programs that lost one server come back more at the same time."},
    {k_client, "reconnect_longest_ms", integer, "milliseconds", "5000", 1, 600000, "WARPLINE_RECONNECT_LONGEST_MS", "",
     k_in_file, "The longest that the random time before an attempt can be.",
     "Larger: less load on a network that is coming back; programs find out later that it is."},
    {k_client, "credit_bytes", bytes, "bytes", "64MiB", 2 * k_mib, 16 * k_gib, "WARPLINE_CREDIT_BYTES", "", k_in_file,
     "Bytes of calls and copies that may be on their way before the program has to wait; the server's setting is an upper "
     "bound.",
     "Host memory of the program, and how far it can run ahead of the link."},
    {k_client, "credit_calls", integer, "calls", "65536", 64, 16777216, "WARPLINE_CREDIT_CALLS", "", k_in_file,
     "Calls that may be on their way before the program has to wait; the server's setting is an upper bound.",
     "How far the program can run ahead of the GPU."},
    {k_client, "bulk_lanes", integer, "connections", "-1", -1, 4, "WARPLINE_BULK_LANES", "", k_in_file,
     "Connections that are opened for large copies; the server's setting is an upper bound. -1: 4 where there are at least 8 "
     "processors, else 2, and where packets are lost on a long way as many as the server allows. 0: large copies share the "
     "connection of all calls.",
     "More: copies use more cores, and links whose single connections are slow."},
    {k_client, "bulk_lanes_after", bytes, "bytes", "32MiB", 0, 16 * k_gib, "WARPLINE_BULK_LANES_AFTER", "", k_in_file,
     "How much a program copies in large pieces before connections are opened for large copies. 0: at the first.",
     "Smaller: programs that copy little open connections too."},
    {k_client, "spin_microseconds", integer, "microseconds", "-1", -1, 100000, "WARPLINE_SPIN_MICROSECONDS", "", k_in_file,
     "How long a call that waits looks for its reply before its thread sleeps, unless its context has a scheduling flag: "
     "CU_CTX_SCHED_SPIN and CU_CTX_SCHED_YIELD look for at least 1,000, CU_CTX_SCHED_BLOCKING_SYNC never. "
     "-1: 50 where there are at least 2 processors, else 0.",
     "Waking a thread takes 2 to 50 µs; looking takes a processor meanwhile. Where it finds nothing it becomes rare, and while "
     "more threads want a processor than there are it stops."},
    {k_client, "disable", text_list, "", "", 0, 0, "WARPLINE_DISABLE", "", k_in_file, k_disable_meaning,
     "Each makes programs slower, and changes nothing else."},
    {k_client, "compression", text, "", "auto", 0, 0, "WARPLINE_COMPRESS", "", k_in_file,
     "What is compressed on its way, in both directions: `auto`, what gets there sooner for it, by the rates of link and codec "
     "and a sample of the data; `none`, nothing; `lz4`, `zstd`, `zstd:1` to `zstd:19`, and `group2`, `group4` or `group8` (for "
     "numbers of so many bytes), all that gets smaller, by this codec.",
     "A codec that is forced can be slower than the link; what compresses best takes most of both machines' processors."},
    {k_client, "log", text, "", "warn", 0, 0, "WARPLINE_LOG", "--log", k_in_file,
     "What is logged, to stderr, as for the server.", "trace writes a line per call."},
    {k_client, "stats", path, "", "", 0, 0, "WARPLINE_STATS", "--stats", k_in_file,
     "A file to which each process appends one line of JSON about its session when it ends.", ""},
    {k_client, "trace", path, "", "", 0, 0, "WARPLINE_TRACE", "--trace", k_in_file,
     "A file to which the process writes what it does, for Perfetto and `warpline analyze`: see trace.md. `%p` becomes the "
     "process's number; without it, a process that finds the file in use by another one appends its number to the name.",
     "Some 0.1 µs and 150 bytes of the file for each call."},
    {k_client, "trace_limit", bytes, "bytes", "1GiB", k_mib, 64 * k_tib, "WARPLINE_TRACE_LIMIT", "", k_in_file,
     "How long that file may get; what comes after is not traced.",
     "A larger file takes Perfetto and `warpline analyze` as much more memory."},

    // libsoftgpu.so
    {k_software, "devices", integer, "devices", "1", 1, 16, "SOFTGPU_DEVICES", "", k_not_in_file,
     "How many devices the software GPU shows.", "They share the machine's cores."},
    {k_software, "compute_capability", text, "", "8.9", 0, 0, "SOFTGPU_COMPUTE_CAPABILITY", "", k_not_in_file,
     "The compute capability that it reports, 7.5 to 12.1.", "Programs choose their code by it."},
    {k_software, "driver_version", text, "", "the newest", 0, 0, "SOFTGPU_DRIVER_VERSION", "", k_not_in_file,
     "The CUDA version of the driver that it stands for, such as `12.4` or `12040`, from 11.0 on.",
     "Programs for newer versions are refused, as an old driver refuses them."},
    {k_software, "memory", bytes, "bytes", "half of the machine's", 0, 0, "SOFTGPU_MEMORY", "", k_not_in_file,
     "Memory of each device, such as 512MiB; at most the machine's.", "It is host memory, taken as it is used."},
    {k_software, "workers", integer, "threads", "0", 0, 0, "SOFTGPU_WORKERS", "", k_not_in_file,
     "Threads that execute kernels; 0: one per core.", "Kernels slow down in proportion."},
    {k_software, "cpu_level", text, "", "the best", 0, 0, "SOFTGPU_CPU_LEVEL", "", k_not_in_file,
     "The level of x86-64 whose instructions execute kernels: `v2`, `v3` or `v4`, and never more than the machine has.",
     "Lower levels are slower."},
    {k_software, "watchdog_ms", integer, "milliseconds", "0", 0, 0, "SOFTGPU_WATCHDOG_MS", "", k_not_in_file,
     "A kernel that runs longer ends with CUDA_ERROR_LAUNCH_TIMEOUT; 0: none does.",
     "Long kernels are ended, not only hanging ones."},
    {k_software, "execute", boolean, "", "true", 0, 0, "SOFTGPU_EXECUTE", "", k_not_in_file,
     "`0`: accept every image and execute nothing, to measure the way there.", "All results are wrong."},
    {k_software, "check", text_list, "", "", 0, 0, "SOFTGPU_CHECK", "", k_not_in_file,
     "What is checked while kernels run, a list of `memory`, `race`, `init` and `leak`; see softgpu-checkers.md.",
     "Kernels run several times slower; device memory costs up to twice as much."},
    {k_software, "profile", text_list, "", "generous", 0, 0, "SOFTGPU_PROFILE", "", k_not_in_file,
     "`generous`, or `strict`: behave as NVIDIA's driver where that is less generous; then switches; see driver-behaviour.md.",
     "Programs that lean on what only a forgiving driver does fail."},
    {k_software, "schedule_seed", integer, "", "0", 0, 0, "SOFTGPU_SCHEDULE_SEED", "", k_not_in_file,
     "Not 0: threads, warps and blocks take turns in a random order, the same one for the same number.",
     "One thread of the machine runs everything, slower."},
    {k_software, "usage_file", path, "", "", 0, 0, "SOFTGPU_USAGE_FILE", "", k_not_in_file,
     "The file in which the processes of a user note what they do on the software GPUs, for NVML; empty: "
     "`/dev/shm/softgpu-UID-usage-1`; see nvml.md.",
     ""},
};

}  // namespace

std::span<const Option> options() { return k_options; }

const Option* find_option(Program program, std::string_view name) {
    for (const Option& option : k_options)
        if (option.program == program && option.name == name) return &option;
    return nullptr;
}

std::string_view to_string(Program program) {
    switch (program) {
        case Program::server: return "server";
        case Program::client: return "client";
        case Program::software: return "software";
    }
    return "";
}

std::span<const std::string_view> default_files(Program program) {
    static constexpr std::string_view k_server_files[] = {"/etc/warpline/server.toml"};
    static constexpr std::string_view k_client_files[] = {"~/.config/warpline/client.toml", "/etc/warpline/client.toml"};
    if (program == Program::server) return k_server_files;
    return program == Program::client ? std::span<const std::string_view>(k_client_files) : std::span<const std::string_view>();
}

std::string_view file_variable(Program program) {
    if (program == Program::server) return "WARPLINE_SERVER_CONFIG";
    return program == Program::client ? "WARPLINE_CONFIG" : "";
}

}  // namespace warpline::config
