// What the supervisor and its processes say to each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "server/control/turn.h"

/// What the supervisor and a worker, the door, the gauge or the keeper say to each other over their socket pair: fixed structs,
/// one per message, because a worker that a session took over must not be able to confuse the supervisor.
namespace warpline::server {

constexpr size_t k_max_devices = 64;

enum class ControlKind : uint32_t {
    ready = 1,      ///< worker → supervisor: driver initialised (ReadyMessage)
    failed = 2,     ///< worker, door → supervisor: no driver, no certificate … (TextMessage); it exits
    begun = 3,      ///< worker → supervisor: the client of its session has said Hello (BegunMessage)
    released = 4,   ///< worker → supervisor: the session came to nothing (TextMessage); the worker is idle again
    ended = 5,      ///< worker → supervisor: the session is over (TextMessage: why); the worker exits
    ask = 6,        ///< door → supervisor: what is to be told, and may a place be kept? (AskMessage); answered by `figures`
    open = 7,       ///< door → supervisor: may this client have a session? (OpenMessage); answered by `opened`
    resumed = 8,    ///< worker → supervisor: the session goes on over another lane (ResumedMessage)
    answers = 9,    ///< door → supervisor: it has its certificates, and answers from now on (no body)
    measured = 10,  ///< gauge → supervisor: how busy the devices are (LoadMessage)
    pong = 11,      ///< door → supervisor: it lives (no body)
    cached = 12,    ///< keeper → supervisor: what it has, and has done (CacheFigures)
    borrow = 14,    ///< worker → supervisor: what another session of the tenant shares (ShareRequest + descriptor)
    sheet = 13,     ///< gauge → supervisor: what NVML says of a device (SheetMessage); before `measured`
    take = 16,      ///< supervisor → worker, door: a socket (TakeMessage + descriptor)
    assign = 17,  ///< supervisor → worker: the session that it is to serve (AssignMessage; with the keeper's channel, if any)
    stop = 18,    ///< supervisor → worker: close the session and exit; → door: finish and exit (TextMessage: why)
    figures = 19,        ///< supervisor → door: what is to be told (FiguresMessage)
    opened = 20,         ///< supervisor → door: the answer to `open` (OpenedMessage)
    measure = 21,        ///< supervisor → gauge: how busy are these devices? (ReadyMessage); answered by `measured`
    ping = 22,           ///< supervisor → door: does it live? (no body); answered by `pong`
    cache_session = 23,  ///< supervisor → keeper: a worker's channel, and its session's tenant (TextMessage + descriptor)
    survey = 24,  ///< supervisor → gauge: as `measure`, and what does NVML say? (ReadyMessage); `sheet` for each, `measured`
    tell_sheet = 25,  ///< supervisor → door: a device, before `figures` (TellSheetMessage)
    lend = 26,        ///< supervisor → worker: another session of the tenant asks (ShareRequest + descriptor to answer to)
};

constexpr size_t k_session_id_bytes = 16;
constexpr size_t k_session_key_bytes = 32;

struct DeviceRow {
    int32_t ordinal;
    uint32_t compute_major, compute_minor;
    uint32_t multiprocessors;
    uint64_t total_bytes;
    uint8_t uuid[16];
    char name[96];
    char pci_bus_id[16];
};

struct ReadyMessage {
    int32_t driver_version;  ///< as cuDriverGetVersion
    uint32_t software;       ///< 1: the software GPU
    uint32_t device_count;
    uint32_t missing_functions;  ///< functions of the API description that this driver lacks
    char driver_path[256];
    DeviceRow devices[k_max_devices];
};

struct TextMessage {
    char text[256];
};

struct BegunMessage {
    char program[128];  ///< what the client calls itself
    char host[64];
    uint64_t pid;
};

struct OpenMessage {
    uint64_t question;  ///< chosen by the door
    uint64_t driver_settings;
    uint8_t session_id[k_session_id_bytes];  ///< chosen by the door, as is the key
    uint8_t key[k_session_key_bytes];
    char tenant[128];  ///< CN of the client's certificate
    char peer[72];     ///< address:port
};

struct OpenedMessage {
    uint64_t question;  ///< of OpenMessage
    uint32_t refused;   ///< warpline::Code; 0: the session is open
    uint32_t expires_seconds;
    char reason[240];  ///< when refused
};

struct AssignMessage {
    uint8_t session_id[k_session_id_bytes];
    uint8_t key[k_session_key_bytes];
    uint8_t server[8];  ///< which server, since it was started: of what sessions share
    char tenant[128];
    char peer[72];  ///< who opened the session, for the log
};

struct ResumedMessage {
    uint32_t epoch;  ///< of the newest command lane
};

/// A socket whose preamble was read, and what it said.
struct TakeMessage {
    uint8_t session_id[k_session_id_bytes];
    uint16_t preamble_kind;
    uint16_t lane;
    uint32_t epoch;
    uint32_t plain;  ///< 1: there is no TLS on it
    char peer[72];   ///< address:port, for the log
};

struct AskMessage {
    uint64_t question;      ///< chosen by the door
    uint32_t claim_below;   ///< a place is to be kept if there are fewer sessions than this
    uint32_t wants_load;    ///< 1: and how busy are the devices?
    uint32_t wants_sheets;  ///< 1: and what does NVML say of them?
    uint32_t padding;
    char tenant[128];  ///< whose processes may be told
};

/// What NVML says of a device.
struct DeviceFigures {
    int32_t utilisation_percent;  ///< -1: not known
    uint32_t padding;
    uint64_t total_bytes;  ///< 0: not known
    uint64_t free_bytes;   ///< likewise
};

struct LoadMessage {
    uint32_t device_count;  ///< 0: nothing is known
    uint32_t padding;
    DeviceFigures devices[k_max_devices];  ///< in the order of ReadyMessage
};

/// Processes on a device that are told of, and bytes of a sheet (cuda/nvml/sheet.h).
constexpr size_t k_max_device_processes = 64, k_max_sheet_bytes = 8192;

/// What NVML says of a device. Sent without the end of `answers` that is not used.
struct SheetMessage {
    struct Process {
        uint32_t pid;  ///< of a worker, or of a stranger
        uint32_t padding;
        uint64_t bytes;  ///< of the device's memory
    };
    uint32_t device;  ///< in the order of ReadyMessage
    uint32_t process_count;
    Process processes[k_max_device_processes];
    uint64_t bytes;  ///< of `answers`
    std::byte answers[k_max_sheet_bytes];
};

/// The same for the door, likewise, of the processes of one tenant.
struct TellSheetMessage {
    struct Process {
        char host[64];
        uint32_t pid;  ///< of the program, on its host
        uint32_t padding;
        uint64_t bytes;
    };
    uint64_t question;  ///< of AskMessage
    DeviceRow row;
    uint32_t process_count;
    uint32_t padding;
    Process processes[k_max_device_processes / 4];
    uint64_t bytes;  ///< of `answers`; 0: NVML is not there, or does not answer
    std::byte answers[k_max_sheet_bytes];
};

/// The part of such a message that is used.
template <typename Message>
BytesView used_part(const Message& message) {
    return as_bytes(&message, offsetof(Message, answers) + std::min<uint64_t>(message.bytes, k_max_sheet_bytes));
}

/// What the keeper has of uploads, and has done since it started.
struct CacheFigures {
    uint64_t memory_bytes, disk_bytes;
    uint64_t chunks, tenants;  ///< in memory
    uint64_t hits, hit_bytes, misses;
    uint64_t from_disk;  ///< of the hits
    uint64_t added, evicted;
    uint64_t dropped;  ///< that came faster than they were taken in
    uint64_t damaged;  ///< that the disk did not give back as they were
};

struct FiguresMessage {
    uint64_t question;  ///< of AskMessage
    uint32_t sessions;  ///< running, beginning, or with a place that is kept
    uint32_t max_sessions;
    uint32_t workers_ready;
    uint32_t draining;
    uint32_t device_count;
    int32_t driver_version;
    uint32_t software;  ///< 1: the software GPU
    uint32_t claimed;   ///< 1: a place is kept, and counted
    LoadMessage load;   ///< nothing, unless it was asked for
};

/// What a session has used, kept in memory that supervisor and worker share, so that the totals survive a crash of the worker.
struct SessionCounters {
    std::atomic<uint64_t> calls;
    std::atomic<uint64_t> received_bytes;
    std::atomic<uint64_t> sent_bytes;
    std::atomic<uint64_t> device_bytes;   ///< device memory that the session holds now
    std::atomic<uint64_t> round_trip_us;  ///< to the client, smoothed; known when the connection has ended
    std::atomic<uint64_t> missed_pings;   ///< likewise
    std::atomic<uint64_t> found_bytes;    ///< that the client did not send, because they were kept
    TurnCell turn;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// Copies text into a fixed field; always ends it, cuts what does not fit.
template <size_t N>
void set_text(char (&field)[N], std::string_view text) {
    const size_t length = text.size() < N ? text.size() : N - 1;
    std::memcpy(field, text.data(), length);
    std::memset(field + length, 0, N - length);
}

/// Text of a fixed field of a message that came from elsewhere: never beyond the field, and printable only.
template <size_t N>
std::string get_text(const char (&field)[N]) {
    std::string text;
    for (size_t i = 0; i < N && field[i] != 0; ++i) {
        const unsigned char c = static_cast<unsigned char>(field[i]);
        text.push_back(c >= 0x20 && c != 0x7f ? field[i] : '?');
    }
    return text;
}

/// The host of "host:port".
std::string_view host_of(std::string_view peer);

struct ControlMessage {
    ControlKind kind{};
    Bytes body;
    int fd = -1;  ///< owned by whoever holds the message; -1: none

    /// The body as T, or nothing if it has another size.
    template <typename T>
    bool read(T& out) const {
        return body.size() == sizeof(T) && read_at(body, 0, out);
    }
    /// The same of what used_part() has cut. The rest is zero.
    template <typename T>
    bool read_used(T& out) const {
        out = T{};
        if (body.size() < offsetof(T, answers) || body.size() > sizeof(T)) return false;
        std::memcpy(&out, body.data(), body.size());
        return body.size() == used_part(out).size() && out.process_count <= std::size(out.processes);
    }
};

/// One end of the socket pair (SOCK_SEQPACKET: messages keep their borders).
class ControlChannel {
public:
    explicit ControlChannel(int fd) : m_fd(fd) {}
    ~ControlChannel();
    ControlChannel(const ControlChannel&) = delete;
    ControlChannel& operator=(const ControlChannel&) = delete;

    int fd() const { return m_fd; }

    /// Sends one message. @errors io (the other side is gone, detail errno). @blocks only if the other side does not read.
    /// @thread any
    Result<void> send(ControlKind kind, BytesView body, int fd_to_pass = -1);
    template <typename T>
    Result<void> send(ControlKind kind, const T& body, int fd_to_pass = -1) {
        return send(kind, as_bytes(&body, sizeof body), fd_to_pass);
    }
    Result<void> send(ControlKind kind) { return send(kind, BytesView{}); }
    /// The same, if the other side has room for it at once. @errors io (or it has not) @blocks no
    Result<void> try_send(ControlKind kind, BytesView body, int fd_to_pass = -1);
    Result<void> send_text(ControlKind kind, std::string_view text);

    /// Receives one message. @errors connection_lost (the other side closed), deadline (non-blocking and nothing there),
    /// malformed.
    /// @blocks unless `wait` is false
    Result<ControlMessage> receive(bool wait);

private:
    Result<void> send(ControlKind kind, BytesView body, int fd_to_pass, int flags);
    int m_fd;
};

/// The shared counters of one worker: created by the supervisor as an anonymous file, mapped by both.
class SharedCounters {
public:
    static Result<std::unique_ptr<SharedCounters>> create();
    static Result<std::unique_ptr<SharedCounters>> open(int fd);
    ~SharedCounters();
    SharedCounters(const SharedCounters&) = delete;
    SharedCounters& operator=(const SharedCounters&) = delete;

    int fd() const { return m_fd; }
    SessionCounters& counters() { return *m_counters; }

private:
    SharedCounters(int fd, SessionCounters* counters) : m_fd(fd), m_counters(counters) {}
    int m_fd;
    SessionCounters* m_counters;
};

}  // namespace warpline::server
