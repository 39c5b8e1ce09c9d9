// Pages that come along with a wait.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "client/call/call.h"
#include "client/call/pages.h"
#include "client/managed/shared_pages.h"

namespace warpline::client {

/// What the program will probably use again of memory that the device has: asked for with the question whether work is done,
/// and read when it is, so that it costs no round trip of its own (docs/host-memory.md).
class PagesAlong {
public:
    /// For a wait that travels now.
    void choose(const Call& call) { choose(call, false); }
    /// For one whose end is told later: also what will be the device's by then.
    void choose_for_later(const Call& call) { choose(call, true); }

    bool empty() const { return m_ranges.empty(); }
    /// Addresses and bytes, in turn.
    const std::vector<uint64_t>& ranges() const { return m_ranges; }
    /// Where they come to, one behind the other; none of them if they could not be read.
    Bytes bytes;
    std::atomic<bool> has_come{false};  ///< of what is told later: `bytes` are there

    /// False if more was heard of the device since the question than its answer: the program is told of all that from now on,
    /// and what was read may be of the time before.
    bool is_newest(const SharedPages& pages) const WL_REQUIRES(pages.mutex) { return pages.settled_news == m_news + 1; }
    /// Before the program's own pages change: what calls have changed meanwhile is of no use.
    void leave_out_changed(SharedPages& pages) WL_REQUIRES(pages.mutex);
    /// The program has them from now on. @param busy  the device may be writing there
    void put_in_place(SharedPages& pages, bool busy) WL_REQUIRES(pages.mutex);
    /// True if registered memory has come along.
    bool has_brought(const MirroredRange& mirrored) const;

    /// What comes with the end of an event's record is kept until the program asks for that.
    static void keep(uint64_t event, uint64_t record, std::shared_ptr<PagesAlong> along);
    /// Null: there is nothing.
    static std::shared_ptr<PagesAlong> take(uint64_t event, uint64_t record);

private:
    struct Piece {
        std::shared_ptr<PageRegion> region;
        AddressRange units;
        uint64_t size_bytes = 0;
        uint64_t ask = 0, arrivals = 0, epoch = 0;
        bool is_of_use = true;
    };
    /// Registered memory that kernels use: little of it, which is looked through whole.
    struct Mirror {
        std::shared_ptr<MirroredRange> range;
        std::vector<AddressRange> parts;
        uint64_t changes = 0, work = 0;
        bool has_come = false;
    };
    void choose(const Call& call, bool for_later);
    void choose_pages(const Call& call, SharedPages& pages, bool for_later) WL_REQUIRES(pages.mutex);
    void choose_mirrored(const Call& call, SharedPages& pages) WL_REQUIRES(pages.mutex);
    void put_mirrored_in_place(SharedPages& pages, BytesView bytes, bool busy) WL_REQUIRES(pages.mutex);

    uint64_t m_news = 0;  ///< Session::news() when it was asked for
    std::vector<uint64_t> m_ranges;
    std::vector<Piece> m_pieces;
    std::vector<Mirror> m_mirrors;
};

/// Around a call of the program's that finds out that work is done.
template <typename Wait>
CUresult with_pages_along(Call& call, Wait wait) {
    if (!SharedPages::in_use()) [[likely]]
        return wait();
    PagesAlong along;
    call.pages = &along;
    const CUresult done = wait();
    call.pages = nullptr;
    return done == CUDA_SUCCESS ? settle_pages_slow(call, done, &along) : done;
}

}  // namespace warpline::client
