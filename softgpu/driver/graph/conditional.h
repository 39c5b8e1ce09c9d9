// Values that kernels set and graphs decide by.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace warpline::softgpu::driver {

/// The value behind a CUgraphConditionalHandle, which kernels set.
class Conditional {
public:
    /// Makes one and its handle.
    static std::shared_ptr<Conditional> create(uint32_t default_value, bool assign_default);
    /// Null if there is none of that handle (any more).
    static std::shared_ptr<Conditional> find(uint64_t handle);
    ~Conditional();

    uint64_t handle() const { return m_handle; }
    uint32_t value() const { return m_value.load(std::memory_order_acquire); }
    void set(uint32_t value) { m_value.store(value, std::memory_order_release); }
    /// What happens to the value at each launch of the graph.
    void launch_started() {
        if (m_assign_default) set(m_default);
    }

private:
    Conditional(uint32_t default_value, bool assign_default)
        : m_default(default_value), m_assign_default(assign_default), m_value(default_value) {}

    const uint32_t m_default;
    const bool m_assign_default;
    uint64_t m_handle = 0;
    std::atomic<uint32_t> m_value;  // released by kernels, acquired by the node that depends on them
};

}  // namespace warpline::softgpu::driver
