// Finding and changing the addresses that the dynamic linker has filled in.
#include "client/managed/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

namespace warpline::client {

namespace {

#if defined(__x86_64__)
constexpr unsigned k_jump_slot = R_X86_64_JUMP_SLOT, k_global = R_X86_64_GLOB_DAT, k_data = R_X86_64_64;
#elif defined(__aarch64__)
constexpr unsigned k_jump_slot = R_AARCH64_JUMP_SLOT, k_global = R_AARCH64_GLOB_DAT, k_data = R_AARCH64_ABS64;
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

/// @param flags  what the part that it is in has to have
bool contains(const dl_phdr_info& info, const void* address, unsigned flags = 0) {
    const auto at = reinterpret_cast<uint64_t>(address);
    for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info.dlpi_phdr[i];
        if (part.p_type == PT_LOAD && at - (info.dlpi_addr + part.p_vaddr) < part.p_memsz)
            return (part.p_flags & flags) == flags;
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

/// What is in a place is looked at again when it is changed: tables in data are the program's to change.
void replace(const Object& object, void** place, void* is, void* becomes) {
    const auto at = reinterpret_cast<uint64_t>(place);
    const bool sealed = at >= object.sealed_begin && at < object.sealed_end;
    const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(at / page_bytes * page_bytes);
    if (sealed && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_compare_exchange_n(place, &is, becomes, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (sealed) (void)::mprotect(page, page_bytes, PROT_READ);
}

/// The imports that there are in this process, by address and by name: there are many relocations.
class Search {
public:
    explicit Search(std::span<const Import> imports) : m_first(*imports.front().real) {
        for (const Import& import : imports)
            if (*import.real != nullptr) m_by_address.push_back(&import);
        m_by_name = m_by_address;
        std::sort(m_by_address.begin(), m_by_address.end(), [](auto* a, auto* b) { return *a->real < *b->real; });
        std::sort(m_by_name.begin(), m_by_name.end(), [](auto* a, auto* b) { return std::strcmp(a->name, b->name) < 0; });
    }
    const Import* with_address(const void* address) const {
        const auto found = std::lower_bound(m_by_address.begin(), m_by_address.end(), address,
                                            [](auto* import, const void* wanted) { return *import->real < wanted; });
        return found != m_by_address.end() && *(*found)->real == address ? *found : nullptr;
    }
    const Import* with_name(const char* name) const {
        const auto found = std::lower_bound(m_by_name.begin(), m_by_name.end(), name, [](auto* import, const char* wanted) {
            return std::strcmp(import->name, wanted) < 0;
        });
        return found != m_by_name.end() && std::strcmp((*found)->name, name) == 0 ? *found : nullptr;
    }
    const void* first() const { return m_first; }

private:
    const void* m_first;
    std::vector<const Import*> m_by_address, m_by_name;
};

void redirect_one(const dl_phdr_info& info, const Object& object, const ElfW(Rela) & entry, const Search& search) {
    const auto type = static_cast<unsigned>(ELF64_R_TYPE(entry.r_info));
    if (type != k_jump_slot && type != k_global && type != k_data) return;
    auto** place = reinterpret_cast<void**>(object.base + entry.r_offset);
    void* const is = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    const Import* import = search.with_address(is);
    // Data that is part of the code has been changed by the dynamic linker behind the protection of pages.
    if (import && type == k_data && !contains(info, place, PF_W)) return;
    // Not looked up yet: it leads back into the object.
    if (const ElfW(Sym)& symbol = object.symbols[ELF64_R_SYM(entry.r_info)];
        !import && type == k_jump_slot && symbol.st_shndx == SHN_UNDEF && contains(info, is))
        import = search.with_name(object.strings + symbol.st_name);
    if (import) replace(object, place, is, import->ours);
}

int redirect_object(dl_phdr_info* info, size_t, void* data) {
    const auto& search = *static_cast<const Search*>(data);
    if (contains(*info, reinterpret_cast<const void*>(&redirect)) || contains(*info, search.first())) return 0;
    const Object object = read_object(*info);
    if (!object.symbols || !object.strings) return 0;
    if (object.calls)
        for (uint64_t i = 0; i < object.call_bytes / sizeof(ElfW(Rela)); ++i)
            redirect_one(*info, object, object.calls[i], search);
    if (object.others)
        for (uint64_t i = object.relative; i < object.other_bytes / sizeof(ElfW(Rela)); ++i)
            redirect_one(*info, object, object.others[i], search);
    return 0;
}

/// The program is the first object.
int note_program(dl_phdr_info* info, size_t, void* data) {
    *static_cast<dl_phdr_info*>(data) = *info;
    return 1;
}

/// What is called by a name, but for what the program itself has by that name: that is another function, or, in programs that
/// are loaded at fixed addresses, a way to the table that is going to be changed.
void* find_function(const char* name, const dl_phdr_info& program) {
    void* found = ::dlsym(RTLD_DEFAULT, name);
    for (const char* library : {"libc.so.6", "libpthread.so.0"}) {
        if (!found || !contains(program, found)) break;
        void* const loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
        found = loaded ? ::dlsym(loaded, name) : found;
        if (loaded) ::dlclose(loaded);
    }
    return found && contains(program, found) ? nullptr : found;
}

int count_loaded(dl_phdr_info* info, size_t, void* data) {
    *static_cast<unsigned long long*>(data) = info->dlpi_adds;
    return 1;
}

}  // namespace

bool redirect(std::span<const Import> imports) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    static std::atomic<unsigned long long> looked_at{0};
    unsigned long long loaded = 0;
    ::dl_iterate_phdr(count_loaded, &loaded);
    if (loaded == looked_at.load(std::memory_order_acquire) || busy.test_and_set(std::memory_order_acquire)) return false;
    // Not while the list of objects is locked: who loads one has the linker's other lock, and waits for that one.
    dl_phdr_info program{};
    ::dl_iterate_phdr(note_program, &program);
    for (const Import& import : imports)
        if (*import.real == nullptr) *import.real = find_function(import.name, program);
    Search search(imports);
    if (search.first()) ::dl_iterate_phdr(redirect_object, &search);
    looked_at.store(loaded, std::memory_order_release);
    busy.clear(std::memory_order_release);
    return true;
}

}  // namespace warpline::client
