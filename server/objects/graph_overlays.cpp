// Bytes from one staging memory to another, by where they lie in the client's.
#include "server/objects/graph_overlays.h"

#include <algorithm>
#include <cstring>

namespace warpline::server {

namespace {

/// The rows of a copy, one after the other.
class Rows {
public:
    explicit Rows(const HostCopy& copy) : m_rows(*copy.rows), m_data(copy.staging->data) {}
    bool ended() const { return m_row == m_rows.rows.value() * m_rows.layers.value(); }
    void next() { ++m_row; }
    /// Where it begins and ends in the client's memory.
    uint64_t begin() const {
        const uint64_t rows = m_rows.rows.value();
        return m_rows.address.value() + m_row / rows * m_rows.layer_pitch.value() + m_row % rows * m_rows.pitch.value();
    }
    uint64_t end() const { return begin() + m_rows.row_bytes.value(); }
    /// Where that address's byte lies here.
    std::byte* here(uint64_t address) const { return m_data + m_row * m_rows.row_bytes.value() + (address - begin()); }

private:
    const Region& m_rows;
    std::byte* const m_data;
    uint64_t m_row = 0;
};

}  // namespace

void lay_over(const HostCopy& written, HostCopy& reads) {
    // Rows ascend, as their pitch is not less than they are. If a client lies about that, its own bytes are wrong.
    for (Rows from(written), to(reads); !from.ended() && !to.ended();) {
        const uint64_t begin = std::max(from.begin(), to.begin()), end = std::min(from.end(), to.end());
        if (begin < end) std::memcpy(to.here(begin), from.here(begin), end - begin);
        from.end() <= to.end() ? from.next() : to.next();
    }
}

Overlay& Overlay::of(HostCopy& reads, const std::vector<HostCopyPtr>& written) {
    for (const auto& overlay : reads.overlays) {
        if (overlay->m_written == written) return *overlay;
    }
    return *reads.overlays.emplace_back(std::make_shared<Overlay>(reads, written));
}

void CUDA_CB Overlay::run(void* overlay) {
    const auto* mine = static_cast<const Overlay*>(overlay);
    for (const HostCopyPtr& written : mine->m_written) {
        if (written->has_run()) lay_over(*written, mine->m_reads);
    }
}

}  // namespace warpline::server
