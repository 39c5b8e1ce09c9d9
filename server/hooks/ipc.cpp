// Memory and events that sessions of one tenant share: given away as tickets, and taken from other sessions' workers.
#include "server/gen/ipc_calls.gen.h"

#include <algorithm>

#include "server/gen/internal_calls.gen.h"
#include "server/gen/pool_calls.gen.h"
#include "server/gen/vmm_calls.gen.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

constexpr auto k_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

uint32_t number_of(ShareRefusal why) { return static_cast<uint32_t>(why); }

Bytes bytes_of(const ShareTicket& ticket) {
    const BytesView view = as_bytes(&ticket, sizeof ticket);
    return Bytes(view.begin(), view.end());
}

/// What the program is told. The codes are those of CUDA for handles that are none, or are no longer.
CUresult result_of(ShareRefusal why) {
    switch (why) {
        case ShareRefusal::none: return CUDA_SUCCESS;
        case ShareRefusal::own: return CUDA_ERROR_INVALID_CONTEXT;
        case ShareRefusal::too_many:
        case ShareRefusal::out_of_files: return CUDA_ERROR_OUT_OF_MEMORY;
        case ShareRefusal::device_hidden: return CUDA_ERROR_INVALID_DEVICE;
        case ShareRefusal::not_shareable: return CUDA_ERROR_NOT_SUPPORTED;
        case ShareRefusal::other_pool: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_INVALID_HANDLE;
    }
}

template <typename Values>
CUresult refuse(Values& values, ShareRefusal why) {
    values.why = number_of(why);
    return result_of(why);
}

/// A descriptor for memory, made by the driver.
CUresult export_file(ServerCall& call, CUmemGenericAllocationHandle memory, std::shared_ptr<const net::Socket>& file) {
    const auto get = WL_DRIVER(call, cuMemExportToShareableHandle);
    int fd = -1;
    WL_CUDA(get(&fd, memory, k_descriptor, 0));
    file = std::make_shared<const net::Socket>(fd);
    return CUDA_SUCCESS;
}

CUresult import_file(ServerCall& call, const net::Socket& file, CUmemGenericAllocationHandle& memory) {
    const auto import = WL_DRIVER(call, cuMemImportFromShareableHandle);
    // NOLINTNEXTLINE: a descriptor, which the driver takes as a pointer
    return import(&memory, reinterpret_cast<void*>(static_cast<intptr_t>(file.fd())), k_descriptor);
}

template <typename Values>
CUresult give_ticket(ServerCall& call, const Sharing::Share& share, Values& values) {
    const auto ticket = call.session().sharing()->add(share);
    if (!ticket) return refuse(values, ShareRefusal::too_many);
    values.ticket = bytes_of(*ticket);
    return CUDA_SUCCESS;
}

/// An allocation in memory that the client has mapped, as others may have it: with all that is in the same mapping.
template <typename Values>
CUresult share_memory(ServerCall& call, ShareKind kind, uint64_t address, uint64_t bytes, const Sharing::Key& pool,
                      Values& values) {
    Sharing* sharing = call.session().sharing();
    if (sharing == nullptr) return refuse(values, ShareRefusal::not_shareable);
    const auto release = WL_DRIVER(call, cuMemRelease);
    CUmemGenericAllocationHandle memory{};
    Sharing::Share share;
    WL_CUDA(call.session().memory().retain(address, bytes, memory, share.mapping, share.answer.mapped_bytes));
    share.kind = kind;
    share.answer.offset = address - share.mapping;
    share.answer.size_bytes = bytes;
    std::copy(pool.begin(), pool.end(), share.answer.pool_key);
    // Programs tell handles of memory apart by their bytes: the same allocation has the same.
    if (const auto known = sharing->find(share)) {
        release(memory);
        values.ticket = bytes_of(*known);
        return CUDA_SUCCESS;
    }
    share.file = sharing->file_of(share.mapping);
    const CUresult made = share.file ? CUDA_SUCCESS : export_file(call, memory, share.file);
    release(memory);
    if (made != CUDA_SUCCESS) {
        WL_LOG(warn, "session", "memory cannot be shared: cuMemExportToShareableHandle gives CUDA error {}",
               static_cast<int>(made));
        return refuse(values, ShareRefusal::not_shareable);
    }
    return give_ticket(call, share, values);
}

/// Maps what another session shares where the client wants it.
template <typename Args, typename Values>
CUresult map_shared(ServerCall& call, const Args& args, const Sharing::Loan& loan, Values& values) {
    const auto ask = WL_DRIVER(call, cuMemGetAllocationPropertiesFromHandle);
    const auto release = WL_DRIVER(call, cuMemRelease);
    const ShareAnswer& answer = loan.answer;
    const bool sound = loan.file.valid() && answer.mapped_bytes == args.bytes && answer.size_bytes <= answer.mapped_bytes &&
                       answer.offset <= answer.mapped_bytes - answer.size_bytes;
    if (!sound) return refuse(values, ShareRefusal::not_there);
    CUmemGenericAllocationHandle memory{};
    WL_CUDA(import_file(call, loan.file, memory));
    CUmemAllocationProp properties{};
    CUresult result = ask(&properties, memory);
    CUdevice device = 0;
    if (result == CUDA_SUCCESS && !call.session().contexts().client_device(properties.location.id, device))
        result = refuse(values, ShareRefusal::device_hidden);
    CUdevice accessor = device;  // pointers of pools are imported without a context, too
    static_cast<void>(call.session().contexts().device_of(call.context(), accessor));
    if (result == CUDA_SUCCESS)
        result = call.session().memory().map_imported(args.address, args.bytes, memory, device, accessor);
    release(memory);  // the mapping keeps it
    values.offset = answer.offset;
    values.size = answer.size_bytes;
    values.device = device;
    return result;
}

Sharing::Key key_of(BytesView pool_ticket) {
    Sharing::Key key{};
    if (const auto ticket = protocol::read_ticket(pool_ticket, ShareKind::pool)) key = ticket->key;
    return key;
}

/// What another session shares. The client waits for the answer, so nothing later can depend on this call; the other session's
/// worker may take its time.
Sharing::Loan borrow(ServerCall& call, BytesView bytes, ShareKind kind) {
    const Bytes ticket(bytes.begin(), bytes.end());  // views end with the order
    Sharing* sharing = call.session().sharing();
    call.release_order();
    Sharing::Loan none;
    none.refused = ShareRefusal::not_shareable;
    return sharing != nullptr ? sharing->borrow(ticket, kind) : std::move(none);
}

}  // namespace

CUresult hook_server_cuIpcGetMemHandle(ServerCall& call, const CuIpcGetMemHandleArgs& args, CuIpcGetMemHandleValues& values) {
    return share_memory(call, ShareKind::memory, args.address, args.bytes, {}, values);
}

CUresult hook_server_cuIpcOpenMemHandle_v2(ServerCall& call, const CuIpcOpenMemHandleV2Args& args,
                                           CuIpcOpenMemHandleV2Values& values) {
    const CuIpcOpenMemHandleV2Args where{{}, args.address, args.bytes};
    const Sharing::Loan loan = borrow(call, args.ticket, ShareKind::memory);
    if (loan.refused != ShareRefusal::none) return refuse(values, loan.refused);
    return map_shared(call, where, loan, values);
}

CUresult hook_server_cuIpcGetEventHandle(ServerCall& call, const CuIpcGetEventHandleArgs& args,
                                         CuIpcGetEventHandleValues& values) {
    if (call.session().sharing() == nullptr) return refuse(values, ShareRefusal::not_shareable);
    const auto get = WL_DRIVER(call, cuIpcGetEventHandle);
    const auto event = WL_FIND(call, CUevent, event, args.event);
    CUipcEventHandle handle{};
    WL_CUDA(get(&handle, event));
    Sharing::Share share;
    share.kind = ShareKind::event;
    static_assert(sizeof handle == sizeof share.answer.handle);
    std::memcpy(share.answer.handle, &handle, sizeof handle);
    return give_ticket(call, share, values);
}

CUresult hook_server_cuIpcOpenEventHandle(ServerCall& call, const CuIpcOpenEventHandleArgs& args,
                                          CuIpcOpenEventHandleValues& values) {
    const auto open = WL_DRIVER(call, cuIpcOpenEventHandle);
    const uint64_t token = args.event;
    if (!call.may_bind(HandleKind::event, token)) return CUDA_ERROR_INVALID_HANDLE;
    const Sharing::Loan loan = borrow(call, args.ticket, ShareKind::event);
    if (loan.refused != ShareRefusal::none) return refuse(values, loan.refused);
    CUipcEventHandle handle{};
    std::memcpy(&handle, loan.answer.handle, sizeof handle);
    CUevent event = nullptr;
    WL_CUDA(open(&event, handle));
    call.bind(HandleKind::event, token, event, call.context());
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemExportToShareableHandle(ServerCall& call, const CuMemExportToShareableHandleArgs& args,
                                                  CuMemExportToShareableHandleValues& values) {
    if (call.session().sharing() == nullptr) return refuse(values, ShareRefusal::not_shareable);
    const auto memory = WL_FIND(call, CUmemGenericAllocationHandle, allocation, args.handle);
    Sharing::Share share;
    share.kind = ShareKind::allocation;
    WL_CUDA(export_file(call, memory, share.file));
    return give_ticket(call, share, values);
}

CUresult hook_server_cuMemImportFromShareableHandle(ServerCall& call, const CuMemImportFromShareableHandleArgs& args,
                                                    CuMemImportFromShareableHandleValues& values) {
    const uint64_t token = args.handle;
    if (!call.may_bind(HandleKind::allocation, token)) return CUDA_ERROR_INVALID_HANDLE;
    const Sharing::Loan loan = borrow(call, args.ticket, ShareKind::allocation);
    if (loan.refused != ShareRefusal::none) return refuse(values, loan.refused);
    CUmemGenericAllocationHandle memory{};
    WL_CUDA(import_file(call, loan.file, memory));
    call.bind(HandleKind::allocation, token, memory, 0);
    // What the importer's pointers tell.
    CUmemAllocationProp properties{};
    CUdevice device = 0;
    const auto ask = call.driver()->cuMemGetAllocationPropertiesFromHandle;
    if (ask == nullptr || ask(&properties, memory) != CUDA_SUCCESS) return CUDA_SUCCESS;
    if (call.session().contexts().client_device(properties.location.id, device)) values.device = static_cast<uint32_t>(device);
    values.handleTypes = static_cast<uint32_t>(properties.requestedHandleTypes);
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemPoolExportToShareableHandle(ServerCall& call, const CuMemPoolExportToShareableHandleArgs& args,
                                                      CuMemPoolExportToShareableHandleValues& values) {
    if (call.session().sharing() == nullptr) return refuse(values, ShareRefusal::not_shareable);
    CUdevice device = 0;
    if (!call.find_device(args.device, device)) return CUDA_ERROR_INVALID_DEVICE;
    Sharing::Share share;
    share.kind = ShareKind::pool;
    share.answer.device = device;
    return give_ticket(call, share, values);
}

CUresult hook_server_cuMemPoolImportFromShareableHandle(ServerCall& call, const CuMemPoolImportFromShareableHandleArgs& args,
                                                        CuMemPoolImportFromShareableHandleValues& values) {
    const Sharing::Loan loan = borrow(call, args.ticket, ShareKind::pool);
    if (loan.refused != ShareRefusal::none) return refuse(values, loan.refused);
    CUdevice device = 0;
    if (!call.session().contexts().client_device(loan.answer.device, device))
        return refuse(values, ShareRefusal::device_hidden);
    values.device = device;
    return CUDA_SUCCESS;
}

CUresult hook_server_cuMemPoolExportPointer(ServerCall& call, const CuMemPoolExportPointerArgs& args,
                                            CuMemPoolExportPointerValues& values) {
    return share_memory(call, ShareKind::pointer, args.address, args.bytes, key_of(args.pool), values);
}

CUresult hook_server_cuMemPoolImportPointer(ServerCall& call, const CuMemPoolImportPointerArgs& args,
                                            CuMemPoolImportPointerValues& values) {
    const CuMemPoolImportPointerArgs where{{}, {}, args.address, args.bytes};
    const Sharing::Key pool = key_of(args.pool);
    const Sharing::Loan loan = borrow(call, args.ticket, ShareKind::pointer);
    if (loan.refused != ShareRefusal::none) return refuse(values, loan.refused);
    if (!std::equal(pool.begin(), pool.end(), loan.answer.pool_key)) return refuse(values, ShareRefusal::other_pool);
    return map_shared(call, where, loan, values);
}

CUresult hook_server_wlShareEnd(ServerCall& call, const WlShareEndArgs& args) {
    Sharing* sharing = call.session().sharing();
    ShareTicket ticket;
    if (sharing == nullptr || args.ticket.size() != sizeof ticket) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&ticket, args.ticket.data(), sizeof ticket);
    sharing->forget(ticket);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
