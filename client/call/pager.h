// The threads behind accesses to pages that the device has: what they have in common.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "client/call/common.h"
#include "client/managed/faults.h"
#include "client/managed/function_window.h"
#include "client/managed/parts_used.h"
#include "client/managed/refresh_pace.h"
#include "client/managed/succession.h"

namespace warpline::client {

using PageClock = std::chrono::steady_clock;

/// Of one question.
constexpr uint64_t k_most_read_bytes = 4ull << 20;

/// An access that has not been answered.
struct Access {
    PageFault* fault = nullptr;
    bool waited = false;  ///< the device has been waited for, or for as long as there is patience
    PageClock::time_point since = PageClock::now();
    uint64_t watched = 0;  ///< number of the wait for the stream that the memory is attached to; 0: it waits for none
    uint64_t given = 0;    ///< what that stream had been given by then (Attachment)
};

/// What is to be fetched, and from whom.
struct Wanted {
    SharedRegion from;
    AddressRange what;
    uint64_t stream = 0;   ///< the memory is attached to this stream, which is done: whatever else runs, it does not use it
    uint64_t given = 0;    ///< to that stream (Attachment)
    bool is_done = false;  ///< it is known to be done with that
};

/// Bytes of a region, in its second mapping.
struct PieceOfRegion {
    PageRegion* region = nullptr;
    AddressRange bytes;
};

/// Of what is wanted: what has to be read.
struct Fetch {
    Wanted wanted;
    bool while_busy = false;
    bool ahead = false;                   ///< nobody has come there yet
    bool still = false;                   ///< while_busy, but only with a function (stands_still())
    std::vector<AddressRange> open{};     ///< what the program does not have of it
    std::vector<AddressRange> missing{};  ///< of that, what the device has
    uint64_t epoch = 0;
    bool out_of_date = false;  ///< it has changed meanwhile, or may have
    bool is_shown = true;      ///< the program gets all of it, and not only this:
    /// What the program gets where the device changes all of it faster than it can be read twice: it is not of one moment then.
    AddressRange if_unsteady{};
};

/// What the program has of memory that the device may be writing to, and that is asked about with a question for more: what it
/// is given then may be newer, and what it has stays only if it is still so.
struct Seen {
    std::shared_ptr<PageRegion> region;
    AddressRange bytes;
    uint64_t epoch = 0;
    uint64_t context = 0;  ///< that the memory belongs to, and is read in
    bool is_unchanged = false;
};

/// What is fetched with one question, and what is said of it.
struct PageQuestion {
    std::vector<Fetch>& fetches;
    std::vector<Seen> seen{};
    bool is_steady = true;  ///< it is all of one moment
};

/// Answers the program's accesses to pages that the device has. One for the process, and never destroyed.
class Pager {
public:
    static Pager& instance() {
        static auto* pager = new Pager;
        return *pager;
    }
    bool start(const Call& call) WL_EXCLUDES(m_mutex);

private:
    void run_fetching();
    void run_waiting() WL_EXCLUDES(m_mutex);
    void collect(std::deque<Access>& accesses) WL_EXCLUDES(m_mutex);
    void serve(Access access) WL_EXCLUDES(m_mutex);
    /// @returns false: the access has to wait for the device, or for the stream if one is set
    bool serve_now(const Access& access, FaultAnswer& answer, Wanted& wanted);
    /// True if the page is here: nothing is to be fetched.
    bool is_here(SharedPages& pages, PageRegion& region, const PageFault& fault, uint64_t window, FaultAnswer& answer)
        WL_REQUIRES(pages.mutex);
    /// How much is fetched at once beside a busy device, where what is fetched is soon given back.
    void narrow_beside(uint64_t address, Wanted& wanted);
    FunctionWindow::Choice choose_for_function(const SharedPages& pages, const SharedRegion& shared, const PageFault& fault)
        WL_REQUIRES(pages.mutex);
    void end_for_function(SharedPages& pages, const PageFault& fault, const FunctionWindow::Choice& brought, const Fetch& fetch)
        WL_REQUIRES(pages.mutex);
    uint64_t window_at(const SharedPages& pages, const PageRegion& region) const WL_REQUIRES(pages.mutex);
    void note_order(SharedPages& pages, const SharedRegion& shared, const PageFault& fault) WL_REQUIRES(pages.mutex);
    /// What the program will probably come to next, in other regions: it is read with the same question, and held until the
    /// program does.
    void add_next(SharedPages& pages, std::vector<Fetch>& fetches) WL_EXCLUDES(pages.mutex);
    /// Where in another region the program will probably come to behind this one.
    std::optional<uint64_t> region_behind(SharedPages& pages, uint64_t last) const WL_REQUIRES(pages.mutex);
    /// False: what was wanted cannot be had.
    bool fetch(std::vector<Fetch>& fetches);
    /// What of the memory the program may use whose fetch has failed.
    enum class Usable : uint8_t { none, own, all };
    Usable usable_after(CUresult result) const;
    void tell_failure(const PageQuestion& question, CUresult result, Usable usable);
    bool begin_fetch(PageQuestion& question);
    bool end_fetch(PageQuestion& question, CUresult result, Usable usable);
    /// True if memory that was asked about has been freed since: nothing was fetched, and all is out of date.
    bool leave_if_withdrawn(PageQuestion& question);
    CUresult read_all(PageQuestion& question);
    void look_beside(SharedPages& pages, PageQuestion& question) WL_REQUIRES(pages.mutex);
    void drop_changed(SharedPages& pages, const PageQuestion& question) WL_REQUIRES(pages.mutex);
    bool is_done(const Wanted& wanted);
    void wait_for_stream(Access access, const Wanted& wanted) WL_EXCLUDES(m_mutex);
    void take_told() WL_EXCLUDES(m_told_mutex) WL_REQUIRES(m_mutex);
    CUresult read(uint64_t context, const std::vector<PieceOfRegion>& pieces, PageQuestion& question);
    CUresult ask(uint64_t context, const std::vector<uint64_t>& ranges, const CopyTarget& target, PageQuestion* question);
    void ask_of_other_contexts(PageQuestion& question);
    void recall(bool in_turns);
    void read_mirrored();
    bool read_mirrored_once();
    struct Reading;
    class MirroredQuestions;
    void read_parts(std::vector<Reading>& all);
    void refresh();
    void refresh_now(PageClock::time_point now);
    bool is_busy();
    Call call_in(uint64_t context) { return Call{cuda::CallId::wlReadPages, this_thread(), *m_session, *m_state, context}; }

    Session* m_session = nullptr;  // this and the next: set before the threads begin
    State* m_state = nullptr;
    bool m_told_failure = false;        // this and the next nine: the fetching thread's
    bool m_looks = false;               // there is something to look at again and again
    uint64_t m_last_look = UINT64_MAX;  ///< the work behind which registered memory was looked through when all was done
    RefreshPace m_pace;
    Succession m_succession;
    PartsUsed m_parts;
    FunctionWindow m_function;
    /// The regions of the last accesses beside a busy device, the last one first: one instruction may need several of them.
    std::array<uint64_t, 4> m_needed{};
    uint64_t m_beside = 0;  // the region of the last access that was answered beside a busy device
    PageClock::time_point m_refreshed{}, m_mirror_again{};
    Mutex m_mutex;
    bool m_started WL_GUARDED_BY(m_mutex) = false;
    std::deque<Access> m_waiting WL_GUARDED_BY(m_mutex);  // for the device
    std::deque<Access> m_watched WL_GUARDED_BY(m_mutex);  // for a stream
    uint64_t m_watches WL_GUARDED_BY(m_mutex) = 0;
    Mutex m_told_mutex;                                        // nothing else is locked with it: the receiving thread takes it
    std::vector<uint64_t> m_told WL_GUARDED_BY(m_told_mutex);  // waits for streams that are over
    std::deque<Access> m_ready WL_GUARDED_BY(m_mutex);         // have waited
    ConditionVariable m_changed;
};

/// What a thread of the program waits for is of no use before the device is done with this memory. @blocks no
void narrow(const State& state, uint64_t address, SharedRegion& shared, Wanted& wanted);
/// A stream is done with what it had been given.
void note_done_with(uint64_t address, uint64_t given);

}  // namespace warpline::client
