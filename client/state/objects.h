// What is known of streams, events, graphs, arrays, pools: everything behind a handle that has no file of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "client/state/completion.h"
#include "client/state/graph_memory.h"
#include "client/state/jit_outputs.h"
#include "client/state/user_objects.h"
#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "protocol/session/share_ticket.h"

namespace warpline::client {

/// A handle of which the client needs to know nothing but that it exists.
struct PlainObject {
    uint64_t context = 0;
};

/// The size of an array. Of formats with planes or blocks, row_bytes is 0: the server looks after those.
struct ArrayExtent {
    uint64_t row_bytes = 0, rows = 1, layers = 1;
    uint64_t element_bytes = 0;  ///< 0, as row_bytes: it has planes or blocks, which the server knows
};

struct Array {
    uint64_t context = 0;
    Mutex mutex;
    bool is_part WL_GUARDED_BY(mutex) = false;  ///< a level or a plane, which ends with what it is a part of
    // Nothing: the server has not been asked yet.
    std::optional<ArrayExtent> extent WL_GUARDED_BY(mutex);
    std::optional<CUDA_ARRAY3D_DESCRIPTOR> descriptor WL_GUARDED_BY(mutex);
    std::optional<CUDA_ARRAY_DESCRIPTOR> flat_descriptor WL_GUARDED_BY(mutex);
};

struct MipmappedArray {
    uint64_t context = 0;
    Mutex mutex;
    CUDA_ARRAY3D_DESCRIPTOR base WL_GUARDED_BY(mutex){};  ///< of level 0
    unsigned levels WL_GUARDED_BY(mutex) = 0;
};

struct Stream {
    uint64_t context = 0;
    Completion completion;            ///< numbers of calls of the session
    std::atomic<uint64_t> synced{0};  ///< events recorded in it with numbers up to this are complete
    uint64_t id = 0;                  ///< unique in the process
    unsigned flags = 0;
    std::atomic<int> priority{0};
    uint64_t green = 0;                 ///< token of the green context whose multiprocessors it has; 0: it has all
    uint64_t scope = 0;                 ///< token of the context whose legacy default stream it has to do with
    std::atomic<bool> detached{false};  ///< its green context has gone: it can only be destroyed

    // Capture: which one the stream takes part in (0: none), and whether it began there.
    std::atomic<uint64_t> capture_id{0};
    std::atomic<bool> capture_origin{false};
    Mutex mutex;  // protects the arrays that cuStreamGetCaptureInfo has handed out
    std::vector<uint64_t> capture_dependencies WL_GUARDED_BY(mutex);
    std::vector<CUgraphEdgeData> capture_edges WL_GUARDED_BY(mutex);
};

/// Some multiprocessors of a device, for streams of its primary context.
struct GreenContext {
    uint64_t context = 0;  ///< the primary context
    int device = 0;
    uint64_t id = 0;  ///< unique in the process
    unsigned multiprocessors = 0;
    uint64_t handle = 0;  ///< what the program knows it by, as a context, too: token of the context that it is converted to
};

/// What a green context can be made of.
struct ResourceDesc {
    uint64_t context = 0;
    unsigned multiprocessors = 0;
};

struct Graph {
    uint64_t context = 0;
    std::atomic<bool> memory{false};           ///< it allocates or frees: it cannot be copied, and none of its nodes taken away
    std::atomic<bool> is_body{false};          ///< of a conditional node
    std::atomic<bool> has_conditional{false};  ///< a conditional node: it cannot be copied, nor be inside another one
    std::atomic<bool> is_child{false};         ///< a child graph's node's: it ends with that, is cloned or part of its graph
    std::atomic<bool> is_moved{false};         ///< and was not copied for it
    Mutex mutex;                               // protects what follows
    MemoryNodes memory_nodes WL_GUARDED_BY(mutex);
    std::vector<uint64_t> nodes WL_GUARDED_BY(mutex);  ///< tokens of those that are known here; they end with it
    UserReferencesPtr references = std::make_shared<UserReferences>();  ///< shared with the node that holds the graph
};

struct UserObjectEntry {
    uint64_t context = 0;
    UserObjectPtr object;
};

/// A node of a graph, with what questions about it have handed out.
struct GraphNode {
    uint64_t context = 0;
    uint64_t graph = 0;  ///< token of its graph; 0: not known
    uint64_t made = 0;   ///< number of the call that added it; 0: not known, as of those that captures have made
    static constexpr int k_unknown_type = -1;
    std::atomic<int> type{k_unknown_type};  ///< CUgraphNodeType, as the program has it
    /// A copy within the program's memory, which the server knows as a host node.
    enum class HostCopy : uint8_t { unknown, yes, no };
    std::atomic<HostCopy> host_copy{HostCopy::unknown};
    std::atomic<uint32_t> copy_kinds{0};            ///< CopyNode::kinds(); 0: not known
    std::atomic<bool> copy_changed{false};          ///< executable graphs may have been made when it was another copy
    Mutex mutex;                                    // protects what follows
    std::set<uint64_t> after WL_GUARDED_BY(mutex);  ///< tokens of the nodes before it, if `made` is known; some may have gone
    bool has_data_edges WL_GUARDED_BY(mutex) = false;  ///< the edges to it are not plain
    Bytes params WL_GUARDED_BY(mutex);                 ///< values of a kernel's parameters, each aligned for any type
    std::vector<void*> pointers WL_GUARDED_BY(mutex);
    std::vector<CUgraph> bodies WL_GUARDED_BY(mutex);                              ///< of a conditional node
    std::optional<CUDA_CONDITIONAL_NODE_PARAMS> conditional WL_GUARDED_BY(mutex);  ///< how it was made
    uint64_t child WL_GUARDED_BY(mutex) = 0;                    ///< token of its child graph, once the program knows that
    std::vector<UserReferencesPtr> inner WL_GUARDED_BY(mutex);  ///< of its child graph or bodies, as far as known here
    // What it has of the program's (graph_holds.h), and the references of its graph, which hold that. Null: not known here.
    UserObjectPtr end WL_GUARDED_BY(mutex);
    UserReferencesPtr holder WL_GUARDED_BY(mutex);
};

/// An executable graph, and what it has to do with the program's memory.
struct GraphExec {
    uint64_t context = 0;
    uint64_t source = 0;  ///< token of the graph that it was made of
    uint64_t made = 0;    ///< number of the call that has made it
    MemoryNodes memory;   ///< as of its graph, without what is in `freed_anew`; only its addresses change, with `mutex`
    std::set<uint64_t> freed_anew;                       ///< what it leaves, if the next launch frees that first; never changed
    std::atomic<bool> concerned{false};                  ///< it has host copies or host functions
    Mutex mutex;                                         // protects what follows
    std::vector<uint64_t> sources WL_GUARDED_BY(mutex);  ///< copies from it that are read at each launch
    std::vector<uint64_t> targets WL_GUARDED_BY(mutex);
    bool host_functions WL_GUARDED_BY(mutex) = false;
    std::map<uint64_t, UserObjectPtr> ends WL_GUARDED_BY(mutex);  ///< given to nodes of it, by token (graph_holds.h)
    std::set<uint64_t> left_out WL_GUARDED_BY(mutex);   ///< tokens of copies within the program's memory, switched off
    UserReferencesPtr references WL_GUARDED_BY(mutex);  ///< never changed, only exchanged: launches share them; null: none
};

struct Event {
    static constexpr uint64_t k_no_stream = UINT64_MAX;  ///< recorded behind all work of a context
    uint64_t context = 0;
    unsigned flags = 0;
    std::atomic<uint64_t> record{0};      ///< number of its last record, among all of the session; 0: never recorded
    std::atomic<uint64_t> given{0};       ///< number of the call that made it
    std::atomic<uint64_t> identity{0};    ///< of the stream in which that was (Call::identity_of()); 0: in none
    std::atomic<uint64_t> stream{0};      ///< token of the stream in which that was
    std::atomic<uint64_t> scope{0};       ///< of the legacy default stream: token of the context whose one it is
    Completion completion;                ///< numbers of records
    std::atomic<uint64_t> capture_id{0};  ///< of the capture in which it was recorded last
    bool imported = false;                ///< of another process
    /// So many more of its records will probably be asked about by a program that polls: after each question a few more.
    std::atomic<int> expected_questions{0};
    static constexpr int k_expected_after_question = 4;
    /// Other processes record it and ask for it: the server is asked, and told at once.
    bool is_shared() const { return (flags & CU_EVENT_INTERPROCESS) != 0; }
};

/// A pool. Its memory is ours (PoolHeap); the pool is where the numbers are kept.
struct Pool {
    uint64_t context = 0;
    int device = 0;
    bool is_default = false;
    bool imported = false;  ///< of another process: nothing can be allocated of it here
    CUmemPoolProps properties{};
    std::atomic<uint64_t> release_threshold{0};
    std::atomic<bool> trim_pending{false};  ///< it may have more than that, until something is waited for
    std::atomic<uint64_t> used_bytes{0};
    std::atomic<uint64_t> used_high{0};
    // What is behind the memory that it has: used, freed in the order of a stream, or kept beyond that.
    std::atomic<uint64_t> small_bytes{0};  ///< of pieces that share blocks
    std::atomic<uint64_t> large_bytes{0};  ///< whole blocks
    std::atomic<uint64_t> reserved_high{0};
    std::atomic<int> reuse_event{1};
    std::atomic<int> reuse_opportunistic{1};
    std::atomic<int> reuse_internal{1};
    Mutex mutex;                                                       // protects what follows
    std::map<int, CUmemAccess_flags> access WL_GUARDED_BY(mutex);      ///< of other devices
    std::optional<protocol::ShareTicket> ticket WL_GUARDED_BY(mutex);  ///< that other processes know it by; nothing: none yet
};

/// Physical memory of cuMemCreate.
struct PhysicalMemory {
    uint64_t context = 0;
    uint64_t size_bytes = 0;  ///< 0: not known here, as of what another process has made
    int device = 0;
    CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
    Mutex mutex;  // protects what follows
    /// Of its handle, which the server has once. "The handle can be freed when there are still outstanding mappings" (CUDA
    /// Driver API, cuMemRelease), and be had again by an address (cuMemRetainAllocationHandle): so it goes with the last of
    /// both.
    unsigned references WL_GUARDED_BY(mutex) = 1;
    unsigned mappings WL_GUARDED_BY(mutex) = 0;
    std::optional<CUmemAllocationProp> properties WL_GUARDED_BY(mutex);  ///< never change; nothing: not known yet
};

/// A cuLink… operation: where the program wants the logs of its steps, and the result, which is ours until it is destroyed.
struct Link {
    uint64_t context = 0;
    JitOutputs outputs;  ///< as the options of cuLinkCreate name them
    Bytes cubin;
};

}  // namespace warpline::client
