#pragma once

#include <cstdint>
#include <unordered_map>

#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/session/handle_table.h"

namespace warpline::server {

/// Functions of modules and kernels of libraries share one kind of token. A kernel belongs to no context; what the driver calls
/// a function is found for the context at hand, once.
///
/// @thread  any
class Functions {
public:
    Functions(const Driver& driver, HandleTable& handles) : m_driver(driver), m_handles(handles) {}

    /// Names a kernel of a library, or a function of a module, by a token.
    bool bind_kernel(uint64_t token, CUkernel kernel, uint64_t library);
    bool bind_function(uint64_t token, CUfunction function, uint64_t module);

    /// The function behind a token in a context, which is current. Null: no such function, or none in this context.
    /// @param why  of null: the driver's error where it would not give one (a context that has failed), else invalid handle
    CUfunction function(uint64_t token, uint64_t context, CUresult& why);
    /// The kernel behind a token. Null: no such function, or one of a module.
    CUkernel kernel(uint64_t token);

    /// The token of a kernel or function that the driver has named; 0: it has none.
    uint64_t token_of(CUkernel kernel, CUfunction function);

    /// What was found for a context that has gone.
    void context_ended(uint64_t context);

private:
    struct PairHash {
        size_t operator()(const std::pair<uint64_t, uint64_t>& pair) const {
            return static_cast<size_t>((pair.first ^ (pair.second << 7)) * 0x9E3779B97F4A7C15ull);
        }
    };

    void sweep() WL_REQUIRES(m_mutex);

    const Driver& m_driver;
    HandleTable& m_handles;
    Mutex m_mutex;
    std::unordered_map<std::pair<uint64_t, uint64_t>, CUfunction, PairHash> m_found WL_GUARDED_BY(m_mutex);  // (token, context)
    size_t m_sweep_at WL_GUARDED_BY(m_mutex) = 1024;  // entries of m_found at which those of unloaded libraries are looked for
};

}  // namespace warpline::server
