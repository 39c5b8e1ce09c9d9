// Memory that program and device share: who has which page when (docs/host-memory.md).
#pragma once

#include "client/call/call.h"
#include "client/managed/shared_pages.h"

namespace warpline::client {

/// Of one message that writes to the device.
constexpr uint64_t k_most_written_bytes = 8ull << 20;
constexpr size_t k_most_written_ranges = 1024;

/// Before a call travels that lets kernels run: what the program has changed is queued to be written to the device, and the
/// program can reach the pages no more, until it needs them. Other calls pass.
CUresult give_pages_before(const Call& call);
/// The call has been queued, or will not be.
void pages_given(const Call& call);
/// Around the queueing of a call.
template <typename Queue>
CUresult with_pages_given(const Call& call, Queue queue) {
    if (!SharedPages::in_use() && !call.state.host_memory.any_named()) [[likely]]
        return queue();
    CUresult result = give_pages_before(call);
    if (result == CUDA_SUCCESS) result = queue();
    pages_given(call);
    return result;
}

/// A piece of a region of which one thing is said.
struct AttachedPiece {
    AddressRange range;
    uint64_t stream = 0;  ///< see Attachment; 0 where that stream has gone
    bool host_only = false;
};
/// The pieces that a range of a region is made of, in order. The caller has the lock of the pages.
std::vector<AttachedPiece> attached_pieces(const State& state, const SharedRegion& shared, AddressRange range);

/// Before a call that names this memory: the same for its pages.
CUresult give_pages(const Call& call, uint64_t address, uint64_t size_bytes);
inline CUresult give_named_pages(const Call& call, uint64_t address, uint64_t size_bytes) {
    return SharedPages::in_use() ? give_pages(call, address, size_bytes) : CUDA_SUCCESS;
}

/// Queues bytes of a region to be written to the device. The caller has the lock of the pages.
CUresult write_to_device(const Call& call, const SharedRegion& shared, const std::vector<AddressRange>& ranges);

/// Tokens of contexts that may still be working for the program. @thread any
std::vector<uint64_t> contexts_at_work(const Session& session, const State& state);
/// True if there are such, or will be with a call that is about to be queued. @thread any
bool is_device_busy(const Session& session, const State& state);
/// The same for who decides something by it that must hold as long as he has the lock of the pages.
bool is_device_busy(SharedPages& pages, const Session& session, const State& state) WL_REQUIRES(pages.mutex);
/// True if a function runs that a stream has called, and nothing else: that stream stands still until it returns, and all
/// others have nothing to do. Then the program has what the device has until that is given something.
bool stands_still(SharedPages& pages, const Session& session, const State& state) WL_REQUIRES(pages.mutex);

class PagesAlong;
/// What the program was told of.
enum class Told : bool {
    here,   ///< an event, of which it was known: nothing was sent
    there,  ///< something that it has asked the server
};
/// When work is known to be done: what the program looks at is what the device has now, and what it will probably look at is
/// fetched, or has come along. @returns its argument
CUresult settle_pages_slow(const Call& call, CUresult done, PagesAlong* along = nullptr, Told told = Told::there);
inline CUresult settle_pages(const Call& call, CUresult done) {
    return SharedPages::in_use() && done == CUDA_SUCCESS ? settle_pages_slow(call, done) : done;
}

/// The device may have written since pages were fetched beside it: they are given back, for the next access to fetch them.
CUresult refresh_pages(const Call& call);
/// The function that a stream has called is over: the same for what it was given.
CUresult take_back_from_function(const Call& call);
/// The same for what has stayed for long enough, while nothing is heard of the device.
CUresult refresh_pages_in_time(const Call& call);

/// For run_between_kernels(): that the function is called tells the program that work is done.
void note_function_called(Session& session);
/// For run_between_kernels(). @returns what it wants to be told afterwards
uint64_t pages_before_function(const Call& call, std::optional<uint64_t> stream);
void pages_after_function(const Call& call, uint64_t written_before);
/// Around a function of the program's that a stream has called. It finds what the device has written before it, and what comes
/// behind it in the stream finds what it has written. @blocks for the server, if the program has such memory in use
/// @param context  where it was given to a stream
/// @param stream   token of that; nothing: it is a graph's, other nodes of which may run meanwhile
template <typename Function>
void run_between_kernels(Session& session, State& state, uint64_t context, std::optional<uint64_t> stream, Function function) {
    note_function_called(session);
    const Call call{cuda::CallId::wlWritePages, this_thread(), session, state, context};
    const uint64_t written = SharedPages::in_use() ? pages_before_function(call, stream) : 0;
    function();
    // The program may have begun to use such memory meanwhile.
    if (SharedPages::in_use()) pages_after_function(call, written);
}
/// The threads that answer accesses are there from now on. False: they cannot be started. @blocks the first time, as LoadTurn
bool start_pager(Call& call);

}  // namespace warpline::client
