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
    const ElfW(Half) * versions = nullptr;      // of the symbols, as numbers
    const ElfW(Verneed) * needs = nullptr;      // which names they have
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
            case DT_VERSYM: object.versions = pointer<const ElfW(Half)>(object, value); break;
            case DT_VERNEED: object.needs = pointer<const ElfW(Verneed)>(object, value); break;
            default: break;
        }
    }
    return object;
}

template <typename T>
const T* behind(const void* place, uint64_t bytes) {
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(place) + bytes);
}

/// True if the object means the C library's function, and not one of that name in another library: functions of the C library
/// have versions.
bool is_of_c_library(const Object& object, uint64_t symbol) {
    constexpr unsigned k_number = 0x7fff;  // the other bit hides it
    if (!object.versions || !object.needs) return true;
    const unsigned version = object.versions[symbol] & k_number;
    for (const ElfW(Verneed)* need = object.needs;; need = behind<ElfW(Verneed)>(need, need->vn_next)) {
        const auto* one = behind<ElfW(Vernaux)>(need, need->vn_aux);
        for (unsigned i = 0; i < need->vn_cnt; ++i, one = behind<ElfW(Vernaux)>(one, one->vna_next))
            if ((one->vna_other & k_number) == version) return std::strncmp(object.strings + one->vna_name, "GLIBC_", 6) == 0;
        if (need->vn_next == 0) return false;
    }
}

bool is_in_object_of(const void* address, const void* other) {
    Dl_info one, two;
    return ::dladdr(address, &one) != 0 && ::dladdr(other, &two) != 0 && one.dli_fbase == two.dli_fbase;
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
    const uint64_t number = ELF64_R_SYM(entry.r_info);
    auto** place = reinterpret_cast<void**>(object.base + entry.r_offset);
    void* const is = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    const Import* import = search.with_address(is);
    // Data that is part of the code has been changed by the dynamic linker behind the protection of pages.
    if (import && type == k_data && !contains(info, place, PF_W)) return;
    // Not looked up yet: it leads back into the object.
    if (const ElfW(Sym)& symbol = object.symbols[number];
        !import && type == k_jump_slot && symbol.st_shndx == SHN_UNDEF && contains(info, is))
        import = search.with_name(object.strings + symbol.st_name);
    // Without a version it is the C library's, or that of a library that stands in for all of it (a sanitizer's).
    if (import && (is_of_c_library(object, number) || is_in_object_of(is, search.first())))
        replace(object, place, is, import->ours);
}

/// A walk through all objects, in the order in which they were loaded.
struct Walk {
    const Search& search;
    size_t known = 0;  ///< the first ones, which were looked at before
    size_t count = 0;
};

int redirect_object(dl_phdr_info* info, size_t, void* data) {
    auto& walk = *static_cast<Walk*>(data);
    const Search& search = walk.search;
    if (walk.count++ < walk.known) return 0;
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

/// How many objects were loaded in all, and taken away.
struct Counts {
    unsigned long long loaded = 0, unloaded = 0;
};
int count_loaded(dl_phdr_info* info, size_t, void* data) {
    *static_cast<Counts*>(data) = {info->dlpi_adds, info->dlpi_subs};
    return 1;
}

}  // namespace

bool redirect(std::span<const Import> imports, FunctionRef<bool()> is_settled) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    static std::atomic<unsigned long long> looked_at{0};
    static size_t known = 0;                      // this and the next: of who has set `busy`
    static unsigned long long known_without = 0;  // objects that had been taken away then: their places may be others' now
    Counts counts;
    ::dl_iterate_phdr(count_loaded, &counts);
    if (counts.loaded == looked_at.load(std::memory_order_acquire) || busy.test_and_set(std::memory_order_acquire))
        return false;
    // Not while the list of objects is locked: who loads one has the linker's other lock, and waits for that one.
    dl_phdr_info program{};
    ::dl_iterate_phdr(note_program, &program);
    bool any_found = false;
    for (const Import& import : imports) {
        if (*import.real != nullptr) continue;
        *import.real = find_function(import.name, program);
        any_found = any_found || *import.real != nullptr;
    }
    const Search search(imports);
    Walk walk{search, any_found || counts.unloaded != known_without ? 0 : known};
    if (search.first()) ::dl_iterate_phdr(redirect_object, &walk);
    if (is_settled()) {
        known = walk.count;
        known_without = counts.unloaded;
        looked_at.store(counts.loaded, std::memory_order_release);
    }
    busy.clear(std::memory_order_release);
    return true;
}

}  // namespace warpline::client
