// Finding and changing the addresses that the dynamic linker has filled in.
#include "client/managed/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace warpline::client {

namespace {

#if defined(__x86_64__)
constexpr unsigned k_jump_slot = R_X86_64_JUMP_SLOT, k_global = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr unsigned k_jump_slot = R_AARCH64_JUMP_SLOT, k_global = R_AARCH64_GLOB_DAT;
#endif

/// What a loaded object says of itself.
struct Object {
    uint64_t base = 0;
    const ElfW(Sym) * symbols = nullptr;
    const char* strings = nullptr;
    const ElfW(Rela) * calls = nullptr;  // DT_JMPREL
    uint64_t call_bytes = 0;
    const ElfW(Rela) * others = nullptr;  // DT_RELA
    uint64_t other_bytes = 0, relative = 0;
    uint64_t sealed_begin = 0, sealed_end = 0;  // read-only since it was relocated
};

bool contains(const dl_phdr_info& info, const void* address) {
    const auto at = reinterpret_cast<uint64_t>(address);
    for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info.dlpi_phdr[i];
        if (part.p_type == PT_LOAD && at - (info.dlpi_addr + part.p_vaddr) < part.p_memsz) return true;
    }
    return false;
}

/// Some C libraries write addresses there, others what is to be added to the base.
template <typename T>
T* pointer(const Object& object, uint64_t value) {
    return reinterpret_cast<T*>(value < object.base ? value + object.base : value);
}

Object read_object(const dl_phdr_info& info) {
    Object object;
    object.base = info.dlpi_addr;
    const ElfW(Dyn)* entry = nullptr;
    for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info.dlpi_phdr[i];
        if (part.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(object.base + part.p_vaddr);
        if (part.p_type != PT_GNU_RELRO) continue;
        object.sealed_begin = object.base + part.p_vaddr;
        object.sealed_end = object.sealed_begin + part.p_memsz;
    }
    for (; entry && entry->d_tag != DT_NULL; ++entry) {
        const uint64_t value = entry->d_un.d_val;
        switch (entry->d_tag) {
            case DT_SYMTAB: object.symbols = pointer<const ElfW(Sym)>(object, value); break;
            case DT_STRTAB: object.strings = pointer<const char>(object, value); break;
            case DT_JMPREL: object.calls = pointer<const ElfW(Rela)>(object, value); break;
            case DT_PLTRELSZ: object.call_bytes = value; break;
            case DT_RELA: object.others = pointer<const ElfW(Rela)>(object, value); break;
            case DT_RELASZ: object.other_bytes = value; break;
            case DT_RELACOUNT: object.relative = value; break;
            default: break;
        }
    }
    return object;
}

void replace(const Object& object, void** place, void* value) {
    const auto at = reinterpret_cast<uint64_t>(place);
    const bool sealed = at >= object.sealed_begin && at < object.sealed_end;
    const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(at / page_bytes * page_bytes);
    if (sealed && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if (sealed) (void)::mprotect(page, page_bytes, PROT_READ);
}

struct Search {
    std::span<const Import> imports;
    unsigned long long loaded = 0;
};

void redirect_one(const dl_phdr_info& info, const Object& object, const ElfW(Rela) & entry, std::span<const Import> imports) {
    const auto type = static_cast<unsigned>(ELF64_R_TYPE(entry.r_info));
    if (type != k_jump_slot && type != k_global) return;
    const char* name = object.strings + object.symbols[ELF64_R_SYM(entry.r_info)].st_name;
    for (const Import& import : imports) {
        if (*import.real == nullptr || std::strcmp(import.name, name) != 0) continue;
        auto** place = reinterpret_cast<void**>(object.base + entry.r_offset);
        void* const is = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        // Not looked up yet: it leads back into the object.
        if (is == *import.real || (type == k_jump_slot && contains(info, is))) replace(object, place, import.ours);
        return;
    }
}

int redirect_object(dl_phdr_info* info, size_t, void* data) {
    const auto& search = *static_cast<const Search*>(data);
    if (contains(*info, reinterpret_cast<const void*>(&redirect)) || contains(*info, *search.imports.front().real)) return 0;
    const Object object = read_object(*info);
    if (!object.symbols || !object.strings) return 0;
    if (object.calls)
        for (uint64_t i = 0; i < object.call_bytes / sizeof(ElfW(Rela)); ++i)
            redirect_one(*info, object, object.calls[i], search.imports);
    if (object.others)
        for (uint64_t i = object.relative; i < object.other_bytes / sizeof(ElfW(Rela)); ++i)
            redirect_one(*info, object, object.others[i], search.imports);
    return 0;
}

int count_loaded(dl_phdr_info* info, size_t, void* data) {
    *static_cast<unsigned long long*>(data) = info->dlpi_adds;
    return 1;
}

}  // namespace

void redirect(std::span<const Import> imports) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    static std::atomic<unsigned long long> looked_at{0};
    unsigned long long loaded = 0;
    ::dl_iterate_phdr(count_loaded, &loaded);
    if (loaded == looked_at.load(std::memory_order_acquire) || busy.test_and_set(std::memory_order_acquire)) return;
    // Not while the list of objects is locked: who loads one has the linker's other lock, and waits for that one.
    for (const Import& import : imports)
        if (*import.real == nullptr) *import.real = ::dlsym(RTLD_DEFAULT, import.name);
    Search search{imports};
    if (*imports.front().real) ::dl_iterate_phdr(redirect_object, &search);
    looked_at.store(loaded, std::memory_order_release);
    busy.clear(std::memory_order_release);
}

}  // namespace warpline::client
