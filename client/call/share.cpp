// Tickets in descriptors, and memory of other processes.
#include "client/call/share.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <utility>

#include "client/call/allocate.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/ipc_calls.gen.h"
#include "client/gen/pool_calls.gen.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

using protocol::ShareRefusal;

const char* text_of(ShareRefusal why) {
    switch (why) {
        case ShareRefusal::other_server:
            return "it is of a session on another server, or of this one before it was started anew; processes share what is "
                   "on one server (with several in WARPLINE_SERVERS, WARPLINE_POLICY=in_order keeps them together)";
        case ShareRefusal::not_there:
            return "no session of this tenant on the server shares it: its process has ended, or has freed it";
        case ShareRefusal::own: return "a process cannot open its own handle";
        case ShareRefusal::no_answer: return "the server's process that has it does not answer";
        case ShareRefusal::not_shareable: return "the server's driver did not make this memory so that it can be shared";
        case ShareRefusal::too_many: return "the session shares as much as it may at a time";
        case ShareRefusal::device_hidden: return "it is on a device that this process does not see";
        case ShareRefusal::out_of_files: return "the server's process has no descriptors left";
        case ShareRefusal::other_pool: return "the pointer is not of this pool";
        default: return "it is not the handle of such a thing";
    }
}

}  // namespace

void note_shared(const Call& call) {
    call.state.shared_with_others.store(true);
    call.state.works_beside_default.store(true);
}

CUresult told_why(const char* function, uint32_t why, CUresult result) {
    static std::array<std::atomic<bool>, 32> told{};
    if (result == CUDA_SUCCESS || why == 0 || why >= told.size() || told[why].exchange(true)) return result;
    WL_LOG(warn, "client", "{}: {}", function, text_of(static_cast<ShareRefusal>(why)));
    return result;
}

bool take_ticket(const Bytes& bytes, ShareKind kind, ShareTicket& ticket) {
    const auto read = protocol::read_ticket(bytes, kind);
    if (read) ticket = *read;
    return read.has_value();
}

CUresult give_descriptor(Call& call, const ShareTicket& ticket, Ends ends, int& descriptor) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    net::Socket own(sockets[0]);
    net::Socket programs(sockets[1]);
    if (send(own.fd(), &ticket, sizeof ticket, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof ticket))
        return CUDA_ERROR_OUT_OF_MEMORY;
    // Without our end the ticket stays readable in the other one.
    if (ends == Ends::yes) call.state.shares.gave(ticket, std::move(own));
    descriptor = programs.release();
    return CUDA_SUCCESS;
}

std::optional<ShareTicket> ticket_in(int descriptor, ShareKind kind) {
    std::array<std::byte, sizeof(ShareTicket) + 1> bytes;
    const ssize_t received = recv(descriptor, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (received < 0) return std::nullopt;
    return protocol::read_ticket(BytesView(bytes).first(static_cast<size_t>(received)), kind);
}

void settle_shares(Call& call) {
    for (const ShareTicket& ticket : call.state.shares.take_ended())
        gen::issue_wlShareEnd(call, as_bytes(&ticket, sizeof ticket));
}

void end_share(Call& call, uint64_t address) {
    if (!call.state.shared_with_others.load(std::memory_order_relaxed)) return;
    if (const auto ticket = call.state.shares.take_lent(address))
        gen::issue_wlShareEnd(call, as_bytes(&*ticket, sizeof *ticket));
}

CUresult open_memory(Call& call, const ShareTicket& ticket, const ShareTicket* pool, uint64_t owner, OpenedMemory& opened) {
    DeviceMemory& memory = call.state.memory;
    const uint64_t bytes = ticket.mapped_bytes;
    if (bytes == 0 || bytes % DeviceMemory::k_block_bytes != 0 || bytes > memory.window_bytes())
        return pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    settle_freed(call);
    const auto block = memory.take_block(bytes);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    const BytesView ticket_bytes = as_bytes(&ticket, sizeof ticket);
    gen::CuIpcOpenMemHandleV2Values answer;
    CUresult result = CUDA_SUCCESS;
    if (pool) {
        gen::CuMemPoolImportPointerValues pointer;
        result =
            gen::request_cuMemPoolImportPointer(call, as_bytes(pool, sizeof *pool), ticket_bytes, block->base, bytes, pointer);
        answer = {pointer.offset, pointer.size, pointer.device, pointer.why};
    } else {
        result = gen::request_cuIpcOpenMemHandle_v2(call, ticket_bytes, block->base, bytes, answer);
    }
    if (result != CUDA_SUCCESS) {
        memory.return_block(*block);
        return told_why(pool ? "cuMemPoolImportPointer" : "cuIpcOpenMemHandle", answer.why, result);
    }
    if (answer.size > bytes || answer.offset > bytes - answer.size) {
        WL_LOG(error, "client", "the server says that memory of another process lies beyond what was mapped");
        unmap_block(call, *block);
        return CUDA_ERROR_UNKNOWN;
    }
    opened = {call.context, block->base + answer.offset, *block};
    DeviceRange range;
    range.base = opened.address;
    range.size_bytes = answer.size;
    range.context = call.context;
    range.device = answer.device;
    range.owner = owner;
    range.kind = MemoryKind::imported;
    memory.register_range(range);
    note_shared(call);
    return CUDA_SUCCESS;
}

CUresult close_pointer(Call& call, uint64_t address) {
    const std::optional<DeviceRange> range = call.state.memory.find(address);
    const bool pointer = range && range->base == address && range->kind == MemoryKind::imported && range->owner != 0;
    const auto opened = pointer ? call.state.shares.close(address) : std::nullopt;
    if (!opened) return CUDA_ERROR_INVALID_VALUE;
    call.state.memory.forget(address, MemoryKind::imported);
    // It belongs to no context: the stream in whose order it is freed, or who frees it, says which has used it.
    unmap_block(call, opened->block);
    return CUDA_SUCCESS;
}

CUresult ticket_of(Call& call, Pool& pool, const char* function, ShareTicket& ticket) {
    {
        MutexLock lock(pool.mutex);
        if (pool.ticket) {
            ticket = *pool.ticket;
            return CUDA_SUCCESS;
        }
    }
    if (pool.properties.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
    gen::CuMemPoolExportToShareableHandleValues answer;
    const CUresult result = gen::request_cuMemPoolExportToShareableHandle(call, pool.device, answer);
    if (result != CUDA_SUCCESS) return told_why(function, answer.why, result);
    if (!take_ticket(answer.ticket, ShareKind::pool, ticket)) return CUDA_ERROR_UNKNOWN;
    MutexLock lock(pool.mutex);
    if (!pool.ticket) {
        pool.ticket = ticket;
        return CUDA_SUCCESS;
    }
    // Of two threads that come at the same time, the first one's.
    const ShareTicket second = std::exchange(ticket, *pool.ticket);
    lock.unlock();
    gen::issue_wlShareEnd(call, as_bytes(&second, sizeof second));
    return CUDA_SUCCESS;
}

void end_sharing(Call& call, Pool& pool) {
    MutexLock lock(pool.mutex);
    if (!pool.ticket || pool.imported) return;
    const ShareTicket ticket = *pool.ticket;
    lock.unlock();
    gen::issue_wlShareEnd(call, as_bytes(&ticket, sizeof ticket));
}

void close_memory(Call& call, const OpenedMemory& opened) {
    call.context = opened.context;
    unmap_block(call, opened.block);
}

}  // namespace warpline::client
