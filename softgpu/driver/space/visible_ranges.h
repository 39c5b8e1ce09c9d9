// The memory that kernels of each device may touch.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::exec {
class Memory;
}

namespace warpline::softgpu::check {
struct Checker;
}

namespace warpline::softgpu::driver {

/// Which memory the kernels of which device may touch. Memory belongs to a device or to all of them; a device reaches another's
/// after peer access was enabled. Engines are told about ranges as they come and go, and about all of them when they are made.
class VisibleRanges {
public:
    static constexpr int k_all_devices = -1;

    /// A device's engine exists from now on.
    void attach(int device, exec::Memory* memory);
    /// Is told what kernels may touch.
    void set_checker(check::Checker* checker) { m_checker = checker; }
    void add(int owner, uint64_t address, uint64_t size_bytes);
    void remove(uint64_t address);
    /// Lets kernels of `accessor` touch what `owner` owns, or stops that. Counted: contexts enable independently.
    void allow_peer(int accessor, int owner);
    void deny_peer(int accessor, int owner);

private:
    struct Range {
        int owner;
        uint64_t size_bytes;
    };
    bool sees(int accessor, int owner) const WL_REQUIRES(m_mutex);
    void tell(exec::Memory& memory, uint64_t address, uint64_t size_bytes, bool valid) WL_REQUIRES(m_mutex);

    check::Checker* m_checker = nullptr;  // set before there are ranges
    mutable Mutex m_mutex;
    std::map<uint64_t, Range> m_ranges WL_GUARDED_BY(m_mutex);
    std::map<int, exec::Memory*> m_memories WL_GUARDED_BY(m_mutex);
    std::map<std::pair<int, int>, uint32_t> m_peers WL_GUARDED_BY(m_mutex);  // (accessor, owner) → contexts that enabled it
};

}  // namespace warpline::softgpu::driver
