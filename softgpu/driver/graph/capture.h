// Streams whose calls become nodes of a graph.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/event.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/graph/graph.h"

namespace warpline::softgpu::driver {

class Device;
class MemoryPool;

/// A capture that is going on: calls on its streams become nodes of a graph. Streams join by waiting for an event that was
/// recorded in it. Any thread may call.
class Capture : public std::enable_shared_from_this<Capture> {
public:
    /// Begins on a stream, into a new graph or into one of the program's after some of its nodes.
    ///
    /// @errors  stream capture unsupported (the legacy stream), illegal state (it is being captured already)
    /// @source  CUDA Driver API 13.0, Stream Management, cuStreamBeginCapture
    static CUresult begin(const StreamPtr& stream, GraphPtr graph, std::vector<GraphEdge> after, CUstreamCaptureMode mode);
    /// Ends it. `graph` is null after an error, which CUDA does so that the program can destroy what it got.
    static CUresult end(Stream& stream, GraphPtr& graph);

    uint64_t id() const { return m_id; }
    const Stream* origin() const { return m_origin; }
    /// Ends it without a graph: its first stream is gone, so that nobody can end it any more.
    void abandon();
    /// The graph was made for the capture; false if the program named one.
    bool owns_graph() const { return m_own_graph; }
    const GraphPtr& graph() const { return m_graph; }
    CUstreamCaptureMode mode() const { return m_mode; }
    uint64_t thread() const { return m_thread; }
    bool invalidated() const { return m_invalidated.load(); }
    void invalidate() { m_invalidated = true; }
    /// Its events stand for nothing that other streams could wait for any more.
    bool ended() const { return m_ended.load(); }
    /// True if a stream of a context takes part.
    bool captures_stream_of(const Context& context) const;
    /// True if a stream takes part that this legacy default stream waits for.
    bool captures_blocking_stream(const Stream& legacy) const;
    /// True if a stream of a device takes part.
    bool captures_on(const Device& device) const;

    /// A call on a stream of the capture: a node after what the stream did before.
    CUresult add(Stream& stream, NodeBody body);
    /// What the next node of a stream comes after.
    std::vector<GraphEdge> next_after(const Stream& stream) const;
    /// What it came after before and does not any more need not be joined at the end.
    void set_next_after(const Stream& stream, std::vector<GraphEdge> after);
    /// A stream takes part from now on, or waits for more.
    void join(const StreamPtr& stream, const std::vector<GraphEdge>& after);
    void leave(const Stream& stream);

    /// Arrays that cuStreamGetCaptureInfo hands out, good until the next call for the stream.
    struct Shown {
        std::vector<CUgraphNode> nodes;
        std::vector<CUgraphEdgeData> edges;
    };
    Shown& shown(const Stream& stream);

private:
    Capture(GraphPtr graph, bool own_graph, CUstreamCaptureMode mode);
    bool joined(const Stream& origin) const;
    /// Its streams are ordinary ones again, and it forbids nothing any more.
    void finish();

    struct Branch {
        std::weak_ptr<Stream> stream;
        std::vector<GraphEdge> after;
        Shown shown;
    };
    const GraphPtr m_graph;  // shared with events recorded in the capture, whose nodes it keeps
    const bool m_own_graph;
    const CUstreamCaptureMode m_mode;
    const uint64_t m_id;
    const uint64_t m_thread;
    const Stream* m_origin = nullptr;
    std::atomic<bool> m_invalidated{false}, m_ended{false};
    mutable Mutex m_mutex;  // the branches, and the graph while it is captured
    std::map<const Stream*, Branch> m_branches WL_GUARDED_BY(m_mutex);
    std::vector<std::weak_ptr<GraphNode>> m_added WL_GUARDED_BY(m_mutex);  // those that have to be joined at the end
};

/// For calls that may not be made while a capture is going on that concerns the calling thread: stream capture unsupported,
/// and the capture is invalidated.
CUresult check_unsafe_call();
/// For calls that wait for everything that a device does: captures on it stand for work that nobody can wait for. Whatever
/// their mode, they are invalidated: stream capture unsupported.
///
/// @source  docs/driver-behaviour.md, DB-04 and DB-05
CUresult check_device_wait(const Device& device);
/// For calls on all streams of a context: stream capture unsupported if one of them is being captured, which is invalidated.
CUresult check_context_not_capturing(const Context& context);
CUresult check_green_not_capturing(const GreenContext& green);
/// What was recorded last in a capture is a place in a graph, and none in time. Errors: captured event; invalid value, once
/// the capture has ended.
CUresult check_no_place_in_graph(const Event& event);
/// For calls that ask whether an event was reached, or wait for it: the same, and a capture that goes on is invalidated;
/// stream capture unsupported, also for an event from outside, as for check_unsafe_call().
CUresult check_wait_for_event(const Event& event);
/// Stream capture unsupported for an event that was recorded in a capture which is going on, and is invalidated.
CUresult check_event_not_captured(const Event& event);
/// True if a stream is being captured that this legacy default stream would wait for.
bool legacy_stream_blocked(const Stream& legacy);
/// For calls on a stream that cannot be captured: the same if it is being captured.
CUresult check_not_capturing(Stream& stream);
/// For calls that ask whether a stream is idle, or wait for it: the same, and for another stream as check_unsafe_call().
CUresult check_wait_for_stream(Stream& stream);
/// The capture that a call on a stream belongs to, or null. Errors: stream capture implicit (the legacy stream would wait for
/// a stream that is being captured, which is invalidated), stream capture invalidated.
CUresult capture_of(Stream& stream, std::shared_ptr<Capture>& capture);
/// True while a capture adds to a graph. Neither the graph nor its nodes can be destroyed then.
///
/// @source  CUDA Driver API 13.0, Stream Management, cuStreamGetCaptureInfo
bool is_being_captured(const Graph& graph);

/// cuEventRecord and cuStreamWaitEvent, captured or not. `external`: a node even if the event was recorded elsewhere.
CUresult record_event(Stream& stream, const EventPtr& event, CUevent handle, bool external);
CUresult wait_for_event(const StreamPtr& stream, const EventPtr& event, CUevent handle, bool external);
/// cuMemAllocAsync and cuMemFreeAsync on a stream that is being captured.
CUresult capture_allocation(Stream& stream, MemoryPool& pool, size_t bytes, CUdeviceptr* out);
CUresult capture_free(Stream& stream, CUdeviceptr address);

/// Checks the items of cuStreamBatchMemOp and of such nodes, but for whether there is memory. Errors: invalid value, not
/// supported.
CUresult check_memory_operations(std::span<const CUstreamBatchMemOpParams> items);
/// Whether there is memory where they wait and write: of a node that is asked at its launch (DB-71). Errors: invalid value.
CUresult check_operated_memory(std::span<const CUstreamBatchMemOpParams> items);

}  // namespace warpline::softgpu::driver
