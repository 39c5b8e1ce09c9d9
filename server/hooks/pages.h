// Pages of memory that the client's program and the device share, read along with other calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/hooks/common.h"

namespace warpline::server {

/// What a client wants to have of such pages once a wait is over. What cannot be read does not come: the wait is what counts.
class PagesAlong {
public:
    PagesAlong(ServerCall& call, const std::vector<uint64_t>& ranges) : m_call(call), m_ranges(ranges) {}

    /// With the order, before the wait.
    void prepare();
    uint64_t bytes() const { return m_bytes; }
    /// After the wait. @param out  bytes() of them. False: nothing has come
    bool read(std::byte* out);

private:
    ServerCall& m_call;
    const std::vector<uint64_t> m_ranges;
    CUstream m_stream = nullptr;
    uint64_t m_bytes = 0;
};

}  // namespace warpline::server
