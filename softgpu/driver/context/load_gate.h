// Calls of a context wait while code is being loaded into it.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::softgpu::driver {

class Context;

/// True if code is loaded with its module, not at its first use: CUDA_MODULE_LOADING, else the profile.
bool loads_eagerly();

/// What a context's calls wait at while code is being loaded into it, if the profile has loads synchronise (DB-15).
class LoadGate {
public:
    /// Blocks while the gate is closed.
    void pass() const {
        for (uint32_t loads = m_loads.load(); loads != 0; loads = m_loads.load()) m_loads.wait(loads);
    }

    /// Closes the gate for a load and waits for all work that the context has. Does neither where loads do not synchronise.
    class Closed {
    public:
        explicit Closed(Context& context);
        ~Closed();
        Closed(const Closed&) = delete;
        Closed& operator=(const Closed&) = delete;

    private:
        LoadGate* m_gate = nullptr;
    };

private:
    std::atomic<uint32_t> m_loads{0};
};

}  // namespace warpline::softgpu::driver
