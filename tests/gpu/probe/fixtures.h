#pragma once

// Live objects that questions are asked about: made when first wanted, by the driver that is asked.

#include <cstdint>
#include <map>
#include <string>

#include "tests/gpu/probe/driver.h"

namespace warpline::probe {

/// PTX of the kernels and variables that the questions use: `empty()`, `add(u64, u32)`, `many` with 65 parameters, variable
/// `counter`, kernel `cluster` and the like. Any GPU since Turing takes it.
extern const char* const k_ptx;

class Fixtures {
public:
    explicit Fixtures(const Driver& driver) : m_driver(driver) {}

    /// The primary context of device 0, retained and made current in the calling thread.
    CUcontext context();
    /// Makes it current again, after whatever a question has done. CUDA_SUCCESS if it still works.
    int restore();

    /// A live object of the kind (cuda/api/types.yaml), made once. `hint` is the call it is for: it tells which type of node.
    uint64_t handle(const std::string& kind, const std::string& hint = "");
    /// A new one, which nobody else uses.
    uint64_t fresh(const std::string& kind, const std::string& hint = "");
    /// A handle that was one of this kind, and is no more.
    uint64_t destroyed(const std::string& kind);

    CUdeviceptr device_memory();
    /// Of device 0; -1 if the driver does not tell it.
    int attribute(CUdevice_attribute which);
    CUfunction function(const char* name);
    CUmodule module();
    /// Forgets (and does not destroy) all but the context: the next question makes its own.
    void forget() { m_handles.clear(), m_device_memory = 0; }

    static constexpr size_t k_device_bytes = 1 << 16;

private:
    uint64_t make(const std::string& kind, const std::string& hint);
    uint64_t make_node(const std::string& hint);
    uint64_t make_graph_exec();
    uint64_t make_array(bool mipmapped);
    uint64_t make_allocation();
    bool destroy(const std::string& kind, uint64_t handle);

    const Driver& m_driver;
    CUcontext m_context = nullptr;
    CUdeviceptr m_device_memory = 0;
    std::map<std::string, uint64_t> m_handles;
};

/// Throws NoFixture unless the result is success.
void made(const char* what, int result);

}  // namespace warpline::probe
