// Events between processes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "softgpu/driver/share/shared_file.h"

namespace warpline::softgpu::driver {

/// What a CUipcEventHandle holds.
struct ExportedEvent {
    static constexpr uint64_t k_magic = 0x31746e65'7663704c;
    uint64_t magic = k_magic;
    int32_t pid = 0, unused = 0;
    SharedId file{};
    uint64_t reserved[4]{};
};
static_assert(sizeof(ExportedEvent) == sizeof(CUipcEventHandle));

/// The state of an interprocess event, in memory that its processes share. Records are numbered; each has a slot that says
/// whether the work it stands for has ended. Who waits, waits for a number, so that later records do not disturb it. Each
/// process holds a lock on a byte of the file, which the kernel takes away when the process ends: nobody waits for a record
/// whose process is gone. Any thread may call.
class SharedEvent {
public:
    /// Null if the machine refuses.
    static std::shared_ptr<SharedEvent> create(const SharedOwner& owner);
    /// Another process's. Errors: invalid handle (the bytes are none, or its process has ended), invalid context (the event is
    /// this process's own), invalid device (`has_device` says no), map failed.
    static CUresult open(const ExportedEvent& exported, bool (*has_device)(const CUuuid& device),
                         std::shared_ptr<SharedEvent>& event);
    /// Closes the events that nothing refers to any more. Called after references went away.
    static void sweep();
    ~SharedEvent();
    SharedEvent(const SharedEvent&) = delete;
    SharedEvent& operator=(const SharedEvent&) = delete;

    /// True in the process that created the event: only that one can give out handles.
    bool own() const { return m_own; }
    ExportedEvent exported() const;

    /// Begins a record: who waits from now on waits for it. Its number.
    ///
    /// @blocks while as many records as there are slots have not ended
    uint64_t begin();
    /// The work that a record stands for has ended.
    void end(uint64_t number);
    /// The number of the latest record; 0: it was never recorded.
    uint64_t latest() const { return m_page->latest.load(std::memory_order_acquire); }
    bool ended(uint64_t number) const;
    /// True if it has not ended and never will, because its process is gone.
    bool lost(uint64_t number) const;
    /// Returns when the record has ended, or false when it is lost; then never, unless it is to `give_up`.
    bool wait(uint64_t number, bool give_up) const;

private:
    static constexpr uint64_t k_slots = 1024;
    /// A slot is one word: number << 24 | process << 1 | ended.
    struct Page {
        std::atomic<uint32_t> changes, waiters, processes;
        std::atomic<uint64_t> latest;
        std::array<std::atomic<uint64_t>, k_slots> slots;
    };
    static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

    SharedEvent(SharedFilePtr file, Page* page, bool own) : m_file(std::move(file)), m_page(page), m_own(own) {}
    static std::shared_ptr<SharedEvent> attach(SharedFilePtr file, bool own);
    bool gone(uint64_t slot) const;
    void sleep(uint32_t changes) const;
    std::atomic<uint64_t>& slot(uint64_t number) const { return m_page->slots[number % k_slots]; }

    const SharedFilePtr m_file;
    Page* const m_page;
    const bool m_own;
    uint64_t m_process = 0;
};
using SharedEventPtr = std::shared_ptr<SharedEvent>;  // shared: work refers to it after the event was destroyed

}  // namespace warpline::softgpu::driver
