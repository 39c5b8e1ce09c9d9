// All objects of a session in one place.
#pragma once

#include <any>
#include <atomic>
#include <cstdint>

#include "client/state/answers.h"
#include "client/state/captures.h"
#include "client/state/code.h"
#include "client/state/context.h"
#include "client/state/device_memory.h"
#include "client/state/event_times.h"
#include "client/state/foresight.h"
#include "client/state/freed_memory.h"
#include "client/state/gates.h"
#include "client/state/graph_ends.h"
#include "client/state/graph_memory.h"
#include "client/state/host_memory.h"
#include "client/state/objects.h"
#include "client/state/pool_heap.h"
#include "client/state/shares.h"
#include "client/state/textures.h"
#include "client/state/token_table.h"
#include "cuda/abi/memory_advice.h"

namespace warpline::client {

/// The objects of a session, by token. One per process, made at cuInit and never destroyed.
class State {
public:
    TokenTable<Stream, HandleKind::stream> streams;
    TokenTable<Event, HandleKind::event> events;
    TokenTable<Context, HandleKind::context> contexts;
    TokenTable<Module, HandleKind::module> modules;
    TokenTable<Function, HandleKind::function> functions;
    Function no_function;  ///< what is known of questions that name none
    TokenTable<Library, HandleKind::library> libraries;
    TokenTable<Graph, HandleKind::graph> graphs;
    TokenTable<GraphNode, HandleKind::graph_node> graph_nodes;
    TokenTable<GraphExec, HandleKind::graph_exec> graph_execs;
    TokenTable<Pool, HandleKind::mem_pool> pools;
    TokenTable<Array, HandleKind::array> arrays;
    TokenTable<MipmappedArray, HandleKind::mipmapped_array> mipmapped_arrays;
    TokenTable<PhysicalMemory, HandleKind::allocation> physical_memory;
    TokenTable<Link, HandleKind::link> links;
    TokenTable<PlainObject, HandleKind::tex_ref> tex_refs;
    TokenTable<PlainObject, HandleKind::surf_ref> surf_refs;
    TokenTable<UserObjectEntry, HandleKind::user_object> user_objects;
    TokenTable<GreenContext, HandleKind::green_context> green_contexts;
    TokenTable<ResourceDesc, HandleKind::resource_desc> resource_descs;

    /// The table of a kind, for generated code.
    template <HandleKind kind>
    auto& table() {
        return table_among<kind>(streams, events, contexts, modules, functions, libraries, graphs, graph_nodes, graph_execs,
                                 pools, arrays, mipmapped_arrays, physical_memory, links, tex_refs, surf_refs, user_objects,
                                 green_contexts, resource_descs);
    }

    DeviceMemory memory;
    FreedMemory freed_memory;
    GraphMemory graph_memory{memory};
    HostMemory host_memory;
    cuda::abi::MemoryAdvice advice;
    Answers<std::any> answers;         ///< of calls of class cached, by their arguments
    Answers<Bytes> resources;          ///< what devices, contexts and streams have of multiprocessors and work queues
    Answers<CUtensorMap> tensor_maps;  ///< that were made of these arguments before
    PoolHeap pool_heap;
    Captures captures;
    Gates gates;
    GraphEnds graph_ends;
    DevicePools device_pools;
    /// Some memory, or a context, has been said to make synchronous copies and fills wait (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    /// CU_CTX_SYNC_MEMOPS).
    std::atomic<bool> any_sync_memops{false};
    std::atomic<bool> pools_to_trim{false};  ///< one of them says so
    Textures textures;
    Foresight foresight;
    EventTimes event_times;
    Shares shares;

    /// Records of events are numbered when they have been sent: what was sent after reading the number comes after the record.
    uint64_t next_record() { return m_records.fetch_add(1, std::memory_order_acq_rel) + 1; }
    uint64_t records() const { return m_records.load(std::memory_order_acquire); }
    /// Graphs or kernels record events, and nobody here sees it: from then on every question goes to the server.
    std::atomic<bool> device_records_events{false};

    /// Work may go on beside that for which the legacy default stream waits: there are streams that do not block it, or several
    /// contexts.
    std::atomic<bool> works_beside_default{false};
    /// Other processes have memory or events of this one, or this one of theirs: what is over here has to be over there.
    std::atomic<bool> shared_with_others{false};
    std::atomic<unsigned> contexts_used{0};  ///< how often one became active

    uint64_t next_id() { return m_next_id.fetch_add(1, std::memory_order_relaxed); }

private:
    template <HandleKind kind, typename First, typename... Rest>
    static auto& table_among(First& first, Rest&... rest) {
        if constexpr (First::k_kind == kind) {
            return first;
        } else {
            return table_among<kind>(rest...);
        }
    }

    // 1 and 2 stand for the special streams (cuStreamGetId).
    std::atomic<uint64_t> m_next_id{16};
    std::atomic<uint64_t> m_records{0};
};

}  // namespace warpline::client
