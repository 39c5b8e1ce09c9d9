// Records and waits in memory that processes share; who waits notices the end of the other process.
#include "softgpu/driver/share/shared_event.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <map>

#include "common/base/mutex.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

namespace {

/// Where the bytes lie whose locks say which processes live: past everything that the file holds.
constexpr off_t k_life_offset = off_t{1} << 40;
constexpr uint32_t k_process_bits = 23;
constexpr uint64_t k_ended = 1;
/// How often a wait looks whether the other process still lives. The end of work wakes it at once.
constexpr timespec k_look_interval{0, 100'000'000};

uint64_t number_of(uint64_t slot) { return slot >> (k_process_bits + 1); }
uint64_t process_of(uint64_t slot) { return (slot >> 1) & ((uint64_t{1} << k_process_bits) - 1); }
uint64_t slot_of(uint64_t number, uint64_t process) { return number << (k_process_bits + 1) | process << 1; }

struct flock life_of(uint64_t process) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = k_life_offset + static_cast<off_t>(process);
    lock.l_len = 1;
    return lock;
}

/// True if the process lives that an event was created in: the first lock is its. For any other process.
bool maker_lives(const SharedFile& file) {
    struct flock maker = life_of(0);
    return fcntl(file.fd(), F_GETLK, &maker) == 0 && maker.l_type != F_UNLCK;
}

/// The events that this process has, by file. A file is opened once only, and closed with the mutex held: closing any
/// descriptor of it takes away the process's locks on it.
struct Known {
    Mutex mutex;
    std::map<SharedId, SharedEventPtr> events WL_GUARDED_BY(mutex);
};
Known& known() {
    static auto* all = new Known;  // leaked on purpose: calls come after static destructors
    return *all;
}

}  // namespace

SharedEventPtr SharedEvent::attach(SharedFilePtr file, bool own) {
    uint64_t mapped = file->map_anywhere(file->data_bytes(), 0);
    if (mapped == 0) return nullptr;
    SharedEventPtr event(new SharedEvent(std::move(file), reinterpret_cast<Page*>(mapped), own));
    event->m_process = event->m_page->processes.fetch_add(1) & ((uint32_t{1} << k_process_bits) - 1);
    struct flock life = life_of(event->m_process);
    return fcntl(event->m_file->fd(), F_SETLK, &life) == 0 ? event : nullptr;
}

SharedEventPtr SharedEvent::create(const SharedOwner& owner) {
    SharedFilePtr file = SharedFile::create_named(SharedKind::event, round_up(sizeof(Page), k_page_bytes), owner);
    if (file == nullptr) return nullptr;
    SharedId id = file->id();
    SharedEventPtr event = attach(std::move(file), true);
    if (event == nullptr) return nullptr;
    sweep();
    Known& all = known();
    MutexLock lock(all.mutex);
    all.events[id] = event;
    return event;
}

CUresult SharedEvent::open(const ExportedEvent& exported, bool (*has_device)(const CUuuid& device), SharedEventPtr& event) {
    if (exported.magic != ExportedEvent::k_magic || exported.unused != 0) return CUDA_ERROR_MAP_FAILED;
    sweep();
    Known& all = known();
    MutexLock lock(all.mutex);
    if (auto found = all.events.find(exported.file); found != all.events.end()) {
        if (found->second->own()) return CUDA_ERROR_INVALID_CONTEXT;
        // Work that is just over may still refer to one of a process that has ended.
        if (!maker_lives(*found->second->m_file)) return CUDA_ERROR_INVALID_HANDLE;
        event = found->second;
        return CUDA_SUCCESS;
    }
    SharedFilePtr file = exported.pid > 0 ? SharedFile::open_named(exported.pid, SharedKind::event, exported.file) : nullptr;
    if (file == nullptr || file->data_bytes() < sizeof(Page)) return CUDA_ERROR_INVALID_HANDLE;
    // A process that has ended may have left the name behind.
    if (!maker_lives(*file)) return CUDA_ERROR_INVALID_HANDLE;
    if (!has_device(file->device())) return CUDA_ERROR_INVALID_DEVICE;
    event = attach(std::move(file), false);
    if (event == nullptr) return CUDA_ERROR_MAP_FAILED;
    all.events[exported.file] = event;
    return CUDA_SUCCESS;
}

SharedEvent::~SharedEvent() { munmap(m_page, m_file->data_bytes()); }

void SharedEvent::sweep() {
    Known& all = known();
    MutexLock lock(all.mutex);
    std::erase_if(all.events, [](const auto& entry) { return entry.second.use_count() == 1; });
}

ExportedEvent SharedEvent::exported() const {
    ExportedEvent exported;
    exported.pid = getpid();
    exported.file = m_file->id();
    return exported;
}

uint64_t SharedEvent::begin() {
    for (;;) {
        uint32_t changes = m_page->changes.load(std::memory_order_acquire);
        uint64_t before = latest(), number = before + 1;
        uint64_t seen = slot(number).load(std::memory_order_acquire);
        if (number_of(seen) > number) continue;
        if (number_of(seen) == number) {
            // Somebody has the slot and is about to say so.
            m_page->latest.compare_exchange_strong(before, number);
            continue;
        }
        bool free = number_of(seen) == 0 || (seen & k_ended) != 0 || gone(seen);
        if (!free) {
            sleep(changes);
            continue;
        }
        if (!slot(number).compare_exchange_strong(seen, slot_of(number, m_process))) continue;
        m_page->latest.compare_exchange_strong(before, number);  // or somebody has done it for us
        return number;
    }
}

void SharedEvent::end(uint64_t number) {
    slot(number).store(slot_of(number, m_process) | k_ended, std::memory_order_release);  // acquired in ended()
    m_page->changes.fetch_add(1);
    if (m_page->waiters.load() != 0) syscall(SYS_futex, &m_page->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SharedEvent::ended(uint64_t number) const {
    if (number == 0) return true;  // nothing was recorded
    uint64_t seen = slot(number).load(std::memory_order_acquire);
    return number_of(seen) != number || (seen & k_ended) != 0;
}

bool SharedEvent::lost(uint64_t number) const {
    uint64_t seen = slot(number).load(std::memory_order_acquire);
    if (number_of(seen) != number || (seen & k_ended) != 0 || !gone(seen)) return false;
    return !ended(number);  // it may have ended its work before it ended itself
}

bool SharedEvent::wait(uint64_t number, bool give_up) const {
    for (;;) {
        uint32_t changes = m_page->changes.load(std::memory_order_acquire);
        if (ended(number)) return true;
        if (give_up && lost(number)) return false;
        sleep(changes);
    }
}

/// True if the process that began the record in a slot lives no more. A process does not see its own locks.
bool SharedEvent::gone(uint64_t slot) const {
    if (process_of(slot) == m_process) return false;
    struct flock life = life_of(process_of(slot));
    return fcntl(m_file->fd(), F_GETLK, &life) == 0 && life.l_type == F_UNLCK;
}

/// Until something has changed since, or it is time to look who lives.
void SharedEvent::sleep(uint32_t changes) const {
    m_page->waiters.fetch_add(1);
    syscall(SYS_futex, &m_page->changes, FUTEX_WAIT, changes, &k_look_interval, nullptr, 0);
    m_page->waiters.fetch_sub(1);
}

}  // namespace warpline::softgpu::driver
