// Page-locked memory of the program's that kernels use.
#pragma once

#include <optional>

#include "client/call/call.h"
#include "client/state/host_memory.h"

namespace warpline::client {

/// True if earlier work may still write to host memory: a function of the program's, or a copy.
/// @param stream  token, of who reads it: functions that it cannot come behind do not count. Nothing: all do
bool may_be_written(const Call& call, const void* address, uint64_t size_bytes, std::optional<uint64_t> stream = {});
/// Waits for that work. @blocks until it is done
void settle_host_memory(Call& call, const void* address, uint64_t size_bytes);

/// Memory that CUDA has allocated goes, which another thread may be mapping in this moment. @errors  invalid value: there is
/// none
/// @blocks as take_back_host_memory(), or unmap_host_memory()
CUresult free_host_memory(Call& call, uint64_t base);
/// Ends a registration. @errors not registered, invalid value @blocks as take_back_host_memory(), and while kernels may use it
CUresult unregister_host_memory(Call& call, uint64_t base);
/// A context is about to end, and takes its page-locked memory and its registrations along.
void release_host_memory_of_context(Call& call, uint64_t context);

/// Before page-locked memory goes: what is to be written there has arrived, and what is read from there has been.
/// @blocks until both are so
void take_back_host_memory(Call& call, const void* address, uint64_t size_bytes);

/// From now on kernels may use page-locked memory: what CUDA has allocated at its own address, what was registered at another
/// one.
/// @errors  invalid value: CUDA does not know it; not supported; out of memory
CUresult map_host_memory(Call& call, uint64_t address, uint64_t& device_address);
/// False if map_host_memory() would not do it.
bool can_be_mapped(const Call& call, uint64_t address);

/// The same for every word of some bytes that is the address of page-locked memory: parameters of a kernel, structures. And
/// managed memory that is attached to the host is so no more.
/// @param sizes  of the parameters that the bytes are, a uint32_t each, one behind the other without what aligns them: words
///               count from where each begins. Empty: the bytes are one
CUresult map_host_pointers(Call& call, BytesView bytes, BytesView sizes = {});

/// Bytes of the program's travel to the device: kernels may find addresses of page-locked memory among them.
/// @param bytes  as HostMemory::note_named() has them
inline void note_named_memory(const Call& call, BytesView bytes) {
    if (call.state.host_memory.may_be_passed()) call.state.host_memory.note_named(bytes);
}
/// The same of a copy. Longer ones are not looked through: they are data, and it would take longer than to move them within a
/// machine.
inline void note_memory_named_in_copy(const Call& call, BytesView bytes) {
    constexpr size_t k_most_looked_through = 64 << 10;
    if (bytes.size() >= sizeof(uint64_t) && bytes.size() <= k_most_looked_through) note_named_memory(call, bytes);
}
/// True if copies have yet to use page-locked memory that is not the device's: mapping it waits for them.
bool is_being_copied(const Call& call, uint64_t base);
/// Kernels may use what was named so. What cannot be mapped is left out; the first time one line of the log says so.
/// @blocks until it is mapped, by whichever thread
void map_named_memory(const Call& call, uint64_t base);

/// The memory goes: nothing on the device uses it any more. @blocks until that is so
void unmap_host_memory(Call& call, const HostRange& range);

}  // namespace warpline::client
