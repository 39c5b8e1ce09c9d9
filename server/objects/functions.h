// Kernels by their tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "server/driver/driver.h"
#include "server/objects/handle_table.h"

namespace warpline::server {

/// Functions of modules and kernels of libraries share one kind of token. A kernel belongs to no context; what the driver calls
/// a function is found for the context at hand, once.
///
/// @thread  any
class Functions {
public:
    Functions(const Driver& driver, HandleTable& handles);

    /// Names a kernel of a library, or a function of a module, by a token.
    bool bind_kernel(uint64_t token, CUkernel kernel, uint64_t library, const std::string& name);
    bool bind_function(uint64_t token, CUfunction function, uint64_t module, const std::string& name);

    /// What was found for a token: the function in the context at hand, and its parameters if they are known already.
    struct Found {
        CUfunction function = nullptr;
        std::shared_ptr<const ParamLayout> layout;
        uint64_t token = 0;
    };
    /// The function behind a token in a context, which is current. Null: no such function, or none in this context. Takes no
    /// lock for those that the thread has found lately.
    /// @param why  of null: the driver's error where it would not give one (a context that has failed), else invalid handle
    Found function(uint64_t token, uint64_t context, CUresult& why);
    /// What a function's parameters are, as the driver says; as its image says, with drivers that cannot tell (before
    /// CUDA 12.4).
    /// @param why  of null: invalid handle (no such function), the driver's error, or invalid value (nobody can tell; logged)
    std::shared_ptr<const ParamLayout> layout(uint64_t token, CUresult& why);
    /// A module or library was loaded from these bytes. Costs something with drivers that do not tell parameters.
    void note_image(uint64_t image, BytesView bytes);
    /// Forgets what was noted of images that are gone.
    void images_ended();
    /// The kernel behind a token. Null: no such function, or one of a module.
    CUkernel kernel(uint64_t token);

    /// The token of a kernel, or of a function, that the driver has named; 0: it has none.
    uint64_t token_of(CUkernel kernel);
    uint64_t token_of(CUfunction function);

    /// What was found for a context that has gone.
    void context_ended(uint64_t context);

private:
    struct PairHash {
        size_t operator()(const std::pair<uint64_t, uint64_t>& pair) const {
            return static_cast<size_t>((pair.first ^ (pair.second << 7)) * 0x9E3779B97F4A7C15ull);
        }
    };

    /// What a thread has found lately, and when: it holds while nothing has been forgotten.
    struct Lately;
    uint64_t epoch() const { return m_epoch.load(std::memory_order_acquire) + m_handles.functions_forgotten(); }
    Found look_up(uint64_t token, uint64_t context, CUresult& why);
    void sweep() WL_REQUIRES(m_mutex);
    std::shared_ptr<const ParamLayout> layout_in_image(uint64_t image, const std::string& name);
    bool driver_tells() const;
    std::shared_ptr<const ParamLayout> ask_driver(const HandleTable::Entry& entry, CUresult& why);

    using Layouts = std::map<std::string, std::shared_ptr<const ParamLayout>, std::less<>>;

    const Driver& m_driver;
    HandleTable& m_handles;
    std::atomic<uint64_t> m_epoch;  // begins where no other session's does, and grows when a context ends
    Mutex m_mutex;
    std::unordered_map<std::pair<uint64_t, uint64_t>, CUfunction, PairHash> m_found WL_GUARDED_BY(m_mutex);  // (token, context)
    std::map<uint64_t, Layouts> m_images WL_GUARDED_BY(m_mutex);  // by token, with drivers that do not tell
    size_t m_sweep_at WL_GUARDED_BY(m_mutex) = 1024;  // entries of m_found at which those of unloaded libraries are looked for
};

}  // namespace warpline::server
