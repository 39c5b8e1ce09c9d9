// Questions first, then what is handed in; a figure now and then.
#include "server/cache/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "common/log/log.h"
#include "server/cache/upload_store.h"
#include "server/cache/warm_list.h"
#include "server/control/cache_channel.h"
#include "server/control/confinement.h"
#include "server/control/control.h"
#include "server/control/privileges.h"
#include "server/control/worker_ends.h"

namespace warpline::server {

namespace {

using Clock = std::chrono::steady_clock;

/// Of each session, before the next one is heard.
constexpr int k_messages_in_turn = 4;
/// What waits to be hashed: in all, and of one session. More is not kept.
constexpr size_t k_most_waiting = 64, k_most_waiting_of_one = 16;
constexpr std::chrono::milliseconds k_between_figures{100};
/// Descriptors for other things than chunks: sessions, answers on their way.
constexpr uint64_t k_spare_descriptors = 512;

uint64_t most_chunks() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max > 2 * k_spare_descriptors ? limit.rlim_max - k_spare_descriptors : k_spare_descriptors;
}

class Keeper {
public:
    explicit Keeper(std::unique_ptr<UploadStore> store) : m_control(k_helper_control_fd), m_store(std::move(store)) {}
    UploadStore& store() { return *m_store; }
    int run();
    /// To the supervisor: the first time that there is somebody to ask.
    void tell_figures();

private:
    struct Guest {
        explicit Guest(int fd, const UploadStore::Tenant& of) : channel(fd), tenant(of) {}
        CacheChannel channel;
        const UploadStore::Tenant& tenant;
        size_t waiting = 0;  ///< chunks of it that are not hashed yet
        bool gone = false;
    };
    /// A chunk that was handed in.
    struct Waiting {
        std::shared_ptr<Guest> of;
        int fd;
        double ns_per_byte;
    };

    bool hear_supervisor();
    void admit(const ControlMessage& message);
    void hear(const std::shared_ptr<Guest>& guest);
    bool handle(const std::shared_ptr<Guest>& guest, const CacheRequest& request, std::vector<int>& files);
    bool look_up(Guest& guest, const CacheRequest& request);
    void take_in_one();

    ControlChannel m_control;
    std::unique_ptr<UploadStore> m_store;
    std::vector<std::shared_ptr<Guest>> m_guests;
    std::deque<Waiting> m_waiting;
    uint64_t m_dropped = 0;
    bool m_changed = true;  // since figures were told
    Clock::time_point m_told_at{};
};

int Keeper::run() {
    m_changed = true;  // by a list
    for (;;) {
        std::vector<pollfd> watched{{m_control.fd(), POLLIN, 0}};
        for (const auto& guest : m_guests) watched.push_back({guest->channel.fd(), POLLIN, 0});
        const int timeout = !m_waiting.empty() ? 0 : m_changed ? static_cast<int>(k_between_figures.count()) : -1;
        if (poll(watched.data(), watched.size(), timeout) < 0) continue;
        // First: a session's tenant is told before its worker can ask.
        if (watched[0].revents != 0 && !hear_supervisor()) return 0;
        for (size_t i = 1; i < watched.size(); ++i)
            if (watched[i].revents != 0) hear(m_guests[i - 1]);
        std::erase_if(m_guests, [](const auto& guest) { return guest->gone; });
        take_in_one();
        if (m_changed && Clock::now() - m_told_at >= k_between_figures) tell_figures();
    }
}

/// False: the supervisor is gone.
bool Keeper::hear_supervisor() {
    const auto message = m_control.receive(false);
    if (!message.ok()) return message.error().code == Code::deadline;
    if (message->kind == ControlKind::cache_session) admit(*message);
    return true;
}

void Keeper::admit(const ControlMessage& message) {
    TextMessage tenant;
    if (message.fd < 0) return;
    const auto known = message.read(tenant) ? m_store->tenant(get_text(tenant.text)) : Error{Code::malformed, "no tenant"};
    if (!known.ok()) {
        close(message.fd);
        return;
    }
    auto guest = std::make_shared<Guest>(message.fd, **known);
    if (guest->channel.send(CacheGreeting{guest->tenant.key, m_store->bytes_of(guest->tenant)}).ok())
        m_guests.push_back(std::move(guest));
}

void Keeper::hear(const std::shared_ptr<Guest>& guest) {
    std::vector<int> files;
    for (int i = 0; i < k_messages_in_turn; ++i) {
        const auto request = guest->channel.receive<CacheRequest>(files, 0);
        if (!request.ok() && request.error().code == Code::deadline) return;
        guest->gone = !request.ok() || !handle(guest, *request, files);
        for (const int fd : files) close(fd);
        if (guest->gone) return;
    }
}

/// False: it is no worker of ours any more. @param files  those that are left in it are closed
bool Keeper::handle(const std::shared_ptr<Guest>& guest, const CacheRequest& request, std::vector<int>& files) {
    m_changed = true;
    if (request.kind == CacheRequest::lookup) return request.count <= k_most_asked && look_up(*guest, request);
    if (request.kind != CacheRequest::keep || files.size() != 1) return false;
    if (m_waiting.size() >= k_most_waiting || guest->waiting >= k_most_waiting_of_one) {
        ++m_dropped;
        return true;
    }
    ++guest->waiting;
    m_waiting.push_back({guest, files.front(), request.ns_per_byte});
    files.clear();
    return true;
}

bool Keeper::look_up(Guest& guest, const CacheRequest& request) {
    CacheAnswer answer{request.number, 0};
    std::vector<int> found;
    for (uint32_t i = 0; i < request.count; ++i) {
        // What is found may have to go for what is read from disk behind it: so a descriptor of its own.
        const int fd = m_store->find(guest.tenant, request.digests[i]);
        const int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        if (copy < 0) continue;
        found.push_back(copy);
        answer.has |= uint64_t{1} << i;
    }
    const auto sent = guest.channel.send(answer, found);
    for (const int fd : found) close(fd);
    return sent.ok();
}

void Keeper::take_in_one() {
    if (m_waiting.empty()) return;
    const Waiting next = std::move(m_waiting.front());
    m_waiting.pop_front();
    --next.of->waiting;
    m_changed = true;
    const auto added = m_store->add_file(next.of->tenant, next.fd, next.ns_per_byte);
    // A worker that hands in what is none has been taken over.
    if (!added.ok() && added.error().code == Code::malformed) next.of->gone = true;
}

void Keeper::tell_figures() {
    const StoreCounters& counters = m_store->counters();
    CacheFigures figures{};
    figures.memory_bytes = m_store->memory().bytes();
    figures.chunks = m_store->memory().chunks();
    figures.tenants = m_store->memory().tenants();
    figures.evicted = m_store->memory().evicted();
    if (const DiskChunks* disk = m_store->disk()) {
        figures.disk_bytes = disk->index().bytes();
        figures.damaged = disk->damaged();
    }
    figures.hits = counters.hits;
    figures.hit_bytes = counters.hit_bytes;
    figures.misses = counters.misses;
    figures.from_disk = counters.from_disk;
    figures.added = counters.added;
    figures.dropped = m_dropped;
    m_told_at = Clock::now();
    // The supervisor that does not read now is told the next time.
    m_changed = !m_control.send(ControlKind::cached, figures).ok();
}

}  // namespace

void make_upload_folder(const config::Settings& settings) {
    const std::string& folder = settings.path("upload_cache_folder");
    const std::string& user = settings.text("worker_user");
    if (folder.empty() || mkdir(folder.c_str(), 0700) != 0 || user.empty()) return;
    const passwd* const entry = getpwnam(user.c_str());
    if (entry != nullptr && chown(folder.c_str(), entry->pw_uid, entry->pw_gid) != 0)
        WL_LOG(warn, "cache", "{} cannot be given to {} (errno {})", folder, user, errno);
}

int keeper_main(const config::Settings& settings, pid_t supervisor) {
    for (int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);  // writes tell of it
    // What a terminal or systemd sends to all of us is for the supervisor to act on.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
    std::string problem;
    if (!give_up_privileges(settings, Privileges::keeper, problem).ok()) {
        WL_LOG(error, "cache", "nothing that is uploaded is kept: {}", problem);
        return 1;
    }
    // After the change of users, which undoes them: end with the supervisor, and let nobody look into us.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (getppid() != supervisor) return 1;
    const UploadStore::Limits limits{settings.bytes("upload_cache"), most_chunks(), settings.path("upload_cache_folder"),
                                     settings.bytes("upload_cache_disk")};
    auto store = UploadStore::open(limits, problem);
    if (!store.ok()) {
        WL_LOG(error, "cache", "nothing that is uploaded is kept: {}", problem.empty() ? store.error().what : problem);
        return 1;
    }
    Keeper keeper(std::move(*store));
    const auto confined = confine_process();
    if (!confined.ok())
        WL_LOG(warn, "cache", "the keeper of uploads runs without a system-call filter: {}", confined.error().what);
    keeper.tell_figures();
    warm(keeper.store(), settings.path("upload_cache_list"));
    return keeper.run();
}

}  // namespace warpline::server
