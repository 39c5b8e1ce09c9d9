// The client's names for the driver's objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/token.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::server {

using cuda::HandleKind;

using cuda::abi::make_token;
using cuda::abi::token_is;

class MemoryCharge;

/// What the parameters of a kernel are.
struct ParamLayout {
    std::vector<uint32_t> sizes;  ///< of each, by ordinal
    uint64_t bytes = 0;           ///< of all together, as they lie in the block that a kernel is given
};

/// The driver's handles by the client's tokens. The kind is part of the token and of the question: a stream's token never finds
/// an event, and a token whose object has gone never finds the object that took its index. Objects that die with another one
/// (kernels with their library, nodes with their graph, streams with their context) go when that goes, so that no token ever
/// leads to a handle that the driver has forgotten.
///
/// @thread  any
class HandleTable {
public:
    /// More handles than any program holds; bounds what a client can make us remember.
    static constexpr size_t k_max_handles = 4u << 20;

    /// What is remembered of a handle.
    struct Entry {
        uint64_t value = 0;         ///< the driver's handle
        uint64_t owner = 0;         ///< token of the object that it dies with; 0: none
        bool kernel = false;        ///< of kind function: it is a CUkernel, not a CUfunction
        bool non_blocking = false;  ///< of kind stream: it does not wait for the legacy default stream, nor the reverse
        std::shared_ptr<const ParamLayout> layout{};   ///< of kind function: once somebody has asked
        std::shared_ptr<const MemoryCharge> charge{};  ///< of device memory that the object is, or keeps
        uint64_t scope = 0;  ///< of kind stream: token of the context whose legacy default stream it has to do with
    };

    /// True if a new object may take this token: it is of the kind, and free.
    bool is_free(HandleKind kind, uint64_t token) const WL_EXCLUDES(m_mutex);
    /// False if the token is not free.
    bool bind(HandleKind kind, uint64_t token, Entry entry) WL_EXCLUDES(m_mutex);
    /// An object that dies with none does so with another one from now on.
    void set_owner(uint64_t token, uint64_t owner) WL_EXCLUDES(m_mutex);
    /// Remembers a function's parameters, if it is still there.
    void set_layout(uint64_t token, std::shared_ptr<const ParamLayout> layout) WL_EXCLUDES(m_mutex);
    std::optional<Entry> find(HandleKind kind, uint64_t token) const WL_EXCLUDES(m_mutex);
    /// Forgets an object and everything that dies with it.
    std::optional<Entry> remove(HandleKind kind, uint64_t token) WL_EXCLUDES(m_mutex);
    /// Forgets everything that dies with this object, which itself may be known here or not (a primary context is not).
    void remove_owned(uint64_t owner) WL_EXCLUDES(m_mutex);

    /// The token of a graph, node, event, array or function that the driver has named; 0: it has none.
    uint64_t token_of(HandleKind kind, uint64_t value) const WL_EXCLUDES(m_mutex);
    /// The driver's handles of this kind that die with the owner.
    std::vector<uint64_t> values_of(HandleKind kind, uint64_t owner) const WL_EXCLUDES(m_mutex);
    /// The same with their tokens.
    std::vector<std::pair<uint64_t, uint64_t>> owned(HandleKind kind, uint64_t owner) const WL_EXCLUDES(m_mutex);
    size_t size() const WL_EXCLUDES(m_mutex);
    /// How many functions have been forgotten: while it is the same, what was found of one holds. @thread any
    uint64_t functions_forgotten() const { return m_functions_forgotten.load(std::memory_order_acquire); }

private:
    static bool is_indexed(HandleKind kind) {
        return kind == HandleKind::graph_node || kind == HandleKind::graph || kind == HandleKind::event ||
               kind == HandleKind::array || kind == HandleKind::function || kind == HandleKind::context;
    }
    void forget(uint64_t token) WL_REQUIRES(m_mutex);

    std::atomic<uint64_t> m_functions_forgotten{0};
    mutable Mutex m_mutex;
    std::unordered_map<uint64_t, Entry> m_entries WL_GUARDED_BY(m_mutex);
    std::unordered_map<uint64_t, std::unordered_set<uint64_t>> m_owned WL_GUARDED_BY(m_mutex);
    std::map<std::pair<HandleKind, uint64_t>, uint64_t> m_tokens WL_GUARDED_BY(m_mutex);  // by kind and handle, where asked for
};

}  // namespace warpline::server
