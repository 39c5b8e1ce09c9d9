// Copies of graphs that read or write the program's memory at each launch.
#pragma once

#include <optional>
#include <vector>

#include "client/copy/copy_plan.h"
#include "client/graph/holds.h"

namespace warpline::client {

/// The end of a graph's copy that lies in the program's memory, and how the server is told of it.
class HostEndOfCopy {
public:
    HostEndOfCopy() = default;
    /// @param end  as the program described it
    HostEndOfCopy(const CopyEnd& end, const CopyPlan& plan);
    bool exists() const { return m_exists; }

    /// Puts into a copy that travels how the rows lie in the program's memory.
    template <typename Copy>
    void tell_rows(Copy& copy) const {
        if (!m_exists) return;
        size_t& pitch = m_is_source ? copy.srcPitch : copy.dstPitch;
        size_t& height = m_is_source ? copy.srcHeight : copy.dstHeight;
        pitch = m_end.rows.pitch_bytes;
        height = m_end.rows.layer_rows();
    }
    /// Lets `issue(source, address, bytes)` queue the call that makes the copy a node.
    template <typename Issue>
    CUresult send(Call& call, Issue&& issue) {
        if (!m_exists) return issue(0, 0, 0);
        const uint64_t source = m_is_source ? add_source(call) : 0;
        call.copy_to = m_is_source ? nullptr : &m_end.rows;
        call.copy_repeats = true;
        const CUresult result = issue(source, reinterpret_cast<uint64_t>(m_end.rows.base), m_end.span_bytes());
        call.copy_to = nullptr;
        if (!m_is_source && result == CUDA_SUCCESS) call.state.graph_ends.add_target(call.number, m_end);
        if (m_is_source && result != CUDA_SUCCESS) {
            call.session.host_calls().forget(source);
            call.state.graph_ends.remove_source(source);
        }
        if (result == CUDA_SUCCESS)
            m_held = make_end(call, m_is_source ? EndKind::source : EndKind::target, m_is_source ? source : call.number);
        return result;
    }
    /// After send(): to be held by whatever has the node.
    const UserObjectPtr& held() const { return m_held; }

private:
    /// The host call that sends the bytes when the server asks for them.
    uint64_t add_source(Call& call) const;

    bool m_exists = false;
    bool m_is_source = false;
    GraphEnd m_end;
    UserObjectPtr m_held;
};

/// A copy from or to host memory in a stream that is being captured.
CUresult capture_host_copy(Call& call, const CopyPlan& plan, uint64_t stream);

/// The bytes of a launch's sources, one after the other; nothing if they cannot be told yet.
/// @param stream  token, of the launch
std::optional<Bytes> gather_sources(Call& call, const std::vector<uint64_t>& sources, uint64_t stream);

/// Asks what an executable graph has to do with the program's memory, if any graph has. @blocks for a round trip then
CUresult learn_copies(Call& call, uint64_t exec);

}  // namespace warpline::client
