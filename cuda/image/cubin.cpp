// Cubins: ELF with NVIDIA's own sections. What a kernel takes is in ".nv.info.<kernel>", a list of records {format, attribute,
// value}; what all kernels have in common is in ".nv.info", by symbol number.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>

#include "cuda/image/container.h"
#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

constexpr uint16_t k_em_cuda = 190;
constexpr uint32_t k_sht_nv_info = 0x70000000;
constexpr unsigned k_stt_object = 13;     // variables of relocatable cubins; linked ones use STT_OBJECT
constexpr uint8_t k_other_entry = 0x10;   // st_other of a kernel
constexpr uint8_t k_other_managed = 0x4;  // st_other of a __managed__ variable
constexpr uint8_t k_other_shared = 0x40;  // st_other of a __shared__ variable in a relocatable cubin
constexpr uint64_t k_reserved_shared_bytes = 1024;
constexpr size_t k_max_params = 4096;  // a kernel's parameters have 32764 bytes in all
constexpr size_t k_max_name_bytes = 1 << 20;

enum Attribute : uint8_t {
    k_max_thread_bounds = 0x05,
    k_required_threads = 0x10,
    k_frame_bytes = 0x11,
    k_stack_bytes = 0x12,
    k_param = 0x17,
    k_params_bytes = 0x19,
    k_registers = 0x2f,
    k_cluster = 0x3d,
    k_param_v2 = 0x45,
};

struct Record {
    uint8_t attribute = 0;
    uint16_t inline_value = 0;
    BytesView value;
};

class CubinReader {
public:
    explicit CubinReader(BytesView cubin) : m_cubin(cubin) {}

    Result<ImageInfo> read() {
        WL_TRY(read_sections());
        WL_TRY(read_symbols());
        for (uint64_t i = 0; i < m_section_count; i++) WL_TRY(read_section(section(i)));
        for (Kernel& kernel : m_info.kernels) {
            WL_TRY(finish_params(kernel));
            finish_shared(kernel);
            kernel.constant_bytes = m_constant_bytes;
        }
        sort_names();
        return std::move(m_info);
    }

private:
    // Sections and strings. Foreign numbers are checked here and nowhere else.
    Result<void> read_sections();
    Elf64_Shdr section(uint64_t index) const {
        Elf64_Shdr header{};
        if (index < m_section_count) read_at(m_cubin, m_section_offset + index * sizeof header, header);
        return header;
    }
    Result<BytesView> contents(const Elf64_Shdr& header) const {
        if (header.sh_offset > m_cubin.size() || header.sh_size > m_cubin.size() - header.sh_offset)
            return malformed("cubin section outside of the file");
        return m_cubin.subspan(header.sh_offset, header.sh_size);
    }
    Result<std::string_view> string_at(BytesView table, uint64_t offset);
    std::string_view section_name(const Elf64_Shdr& header) {
        Result<std::string_view> name = string_at(m_names, header.sh_name);
        return name.ok() ? *name : std::string_view();
    }

    Result<void> read_symbols();
    Result<void> read_symbol(const Elf64_Sym& symbol, std::string_view name, uint32_t number, uint32_t section_number);
    void add_global(const Elf64_Sym& symbol, std::string_view name, uint32_t section_number);

    Result<void> read_section(const Elf64_Shdr& header);
    Result<bool> next_record(BytesView& rest, Record& record) const;
    Result<void> read_common_info(BytesView records);
    Result<void> read_kernel_info(BytesView records, Kernel& kernel);
    Result<void> read_param(const Record& record, Kernel& kernel);
    Result<void> finish_params(Kernel& kernel) const;
    void finish_shared(Kernel& kernel) const;
    void sort_names();

    Kernel* kernel_of(std::string_view section_name, std::string_view prefix) {
        auto found = m_kernel_by_name.find(section_name.substr(prefix.size()));
        return found == m_kernel_by_name.end() ? nullptr : &m_info.kernels[found->second];
    }
    // Sections of a forged file may overlap; together they must not be more than a file of this size can hold.
    bool spend(uint64_t bytes) {
        if (bytes > m_budget) return false;
        m_budget -= bytes;
        return true;
    }

    BytesView m_cubin;
    uint64_t m_budget = 0;
    uint64_t m_section_offset = 0;
    uint64_t m_section_count = 0;
    BytesView m_names;
    ImageInfo m_info;
    bool m_old_abi = false;
    bool m_reserves_shared = false;
    uint32_t m_constant_bytes = 0;
    std::unordered_map<std::string_view, size_t> m_kernel_by_name;  // keys point into the cubin
    std::unordered_map<uint32_t, size_t> m_kernel_by_symbol;
};

Result<void> CubinReader::read_sections() {
    Elf64_Ehdr header;
    if (!read_at(m_cubin, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return malformed("no ELF");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != k_em_cuda)
        return malformed("ELF, but no cubin");
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return malformed("cubin without sections");
    m_info.arch = cubin_target(m_cubin).arch;
    m_info.relocatable = header.e_type == ET_REL;
    m_old_abi = header.e_ident[EI_OSABI] != 0x41;
    m_section_offset = header.e_shoff;
    m_budget = 4 * m_cubin.size();

    Elf64_Shdr first;
    if (!read_at(m_cubin, header.e_shoff, first)) return malformed("cubin section headers cut short");
    m_section_count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
    if (m_section_count > (m_cubin.size() - header.e_shoff) / sizeof(Elf64_Shdr))
        return malformed("cubin section headers cut short");
    uint64_t names = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
    if (names >= m_section_count) return malformed("cubin without section names");
    m_names = WL_TRY(contents(section(names)));
    return {};
}

Result<std::string_view> CubinReader::string_at(BytesView table, uint64_t offset) {
    if (offset >= table.size()) return malformed("cubin name outside of its table");
    BytesView rest = table.subspan(offset, std::min(table.size() - offset, k_max_name_bytes));
    const void* end = std::memchr(rest.data(), 0, rest.size());
    if (end == nullptr) return malformed("cubin name without an end");
    std::string_view name = as_text(rest.first(static_cast<const std::byte*>(end) - rest.data()));
    if (!spend(name.size())) return malformed("cubin with more names than it can hold");
    return name;
}

Result<void> CubinReader::read_symbols() {
    Elf64_Shdr table{};
    uint64_t table_number = 0;
    BytesView long_numbers;
    for (uint64_t i = 0; i < m_section_count; i++) {
        Elf64_Shdr header = section(i);
        if (header.sh_type == SHT_SYMTAB && table.sh_type == 0) {
            table = header;
            table_number = i;
        }
        if (header.sh_type == SHT_SYMTAB_SHNDX) long_numbers = WL_TRY(contents(header));
    }
    if (table_number == 0) return malformed("cubin without symbols");
    BytesView symbols = WL_TRY(contents(table));
    BytesView strings = WL_TRY(contents(section(table.sh_link)));
    for (uint32_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        read_at(symbols, i * sizeof symbol, symbol);
        unsigned type = ELF64_ST_TYPE(symbol.st_info);
        if (type != STT_FUNC && type != STT_OBJECT && type != k_stt_object) continue;
        uint32_t section_number = symbol.st_shndx;
        if (section_number == SHN_XINDEX) read_at(long_numbers, i * sizeof section_number, section_number);
        WL_TRY(read_symbol(symbol, WL_TRY(string_at(strings, symbol.st_name)), i, section_number));
    }
    return {};
}

Result<void> CubinReader::read_symbol(const Elf64_Sym& symbol, std::string_view name, uint32_t number,
                                      uint32_t section_number) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) {
        add_global(symbol, name, section_number);
        return {};
    }
    if (name == "vprintf") m_info.uses_printf = true;
    if ((symbol.st_other & k_other_entry) == 0 || section_number == SHN_UNDEF || name.empty()) return {};
    if (!m_kernel_by_name.emplace(name, m_info.kernels.size()).second) return malformed("cubin with two kernels of one name");
    m_kernel_by_symbol.emplace(number, m_info.kernels.size());
    Kernel kernel;
    kernel.name = name;
    kernel.code_bytes = static_cast<uint32_t>(std::min<uint64_t>(symbol.st_size, UINT32_MAX));
    if (m_old_abi) kernel.registers = section(section_number).sh_info >> 24;
    m_info.kernels.push_back(std::move(kernel));
    return {};
}

void CubinReader::add_global(const Elf64_Sym& symbol, std::string_view name, uint32_t section_number) {
    // The linker's own: ".nv.reservedSmem.cap", the tables of unified functions.
    if (name.empty() || name.front() == '.' || name.starts_with("__UFT") || name.starts_with("__UDT")) return;
    Elf64_Shdr home = section(section_number);
    std::string_view home_name = section_number == SHN_UNDEF ? "" : section_name(home);
    Global global;
    if (home_name.starts_with(".nv.constant3")) {
        global.space = Space::constant;
    } else if (section_number == SHN_UNDEF) {
        if (symbol.st_other & k_other_shared) return;
        global.external = true;
    } else if (!home_name.starts_with(".nv.global")) {
        return;  // shared variables and the like have no address for the host
    }
    global.name = name;
    global.size_bytes = symbol.st_size;
    global.alignment_bytes = static_cast<uint32_t>(std::min<uint64_t>(home.sh_addralign, UINT32_MAX));
    global.managed = (symbol.st_other & k_other_managed) != 0;
    m_info.globals.push_back(std::move(global));
}

Result<void> CubinReader::read_section(const Elf64_Shdr& header) {
    std::string_view name = section_name(header);
    constexpr std::string_view k_info = ".nv.info", k_kernel_info = ".nv.info.", k_shared = ".nv.shared.";
    if (header.sh_type == k_sht_nv_info && name.starts_with(k_info)) {
        BytesView records = WL_TRY(contents(header));
        if (!spend(records.size())) return malformed("cubin with more records than it can hold");
        if (name == k_info) return read_common_info(records);
        if (Kernel* kernel = name.starts_with(k_kernel_info) ? kernel_of(name, k_kernel_info) : nullptr)
            return read_kernel_info(records, *kernel);
        return {};
    }
    if (name == ".nv.shared.reserved.0") {
        m_reserves_shared = true;
    } else if (name.starts_with(k_shared)) {
        if (Kernel* kernel = kernel_of(name, k_shared))
            kernel->static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(header.sh_size, UINT32_MAX));
    } else if (name == ".nv.constant3") {
        m_constant_bytes = static_cast<uint32_t>(std::min<uint64_t>(header.sh_size, UINT32_MAX));
    }
    return {};
}

// False at the end of the records.
Result<bool> CubinReader::next_record(BytesView& rest, Record& record) const {
    constexpr uint8_t k_format_sized = 4;
    if (rest.empty()) return false;
    if (rest.size() < 4) return malformed("cubin record cut short");
    auto format = static_cast<uint8_t>(rest[0]);
    record.attribute = static_cast<uint8_t>(rest[1]);
    read_at(rest, 2, record.inline_value);
    rest = rest.subspan(4);
    record.value = {};
    if (format != k_format_sized) return true;
    if (record.inline_value > rest.size()) return malformed("cubin record cut short");
    record.value = rest.first(record.inline_value);
    rest = rest.subspan(record.inline_value);
    return true;
}

Result<void> CubinReader::read_common_info(BytesView records) {
    Record record;
    while (WL_TRY(next_record(records, record))) {
        uint32_t symbol = 0, value = 0;
        if (!read_at(record.value, 0, symbol) || !read_at(record.value, 4, value)) continue;
        auto found = m_kernel_by_symbol.find(symbol);
        if (found == m_kernel_by_symbol.end()) continue;
        Kernel& kernel = m_info.kernels[found->second];
        if (record.attribute == k_registers) kernel.registers = value;
        if (record.attribute == k_frame_bytes || record.attribute == k_stack_bytes)
            kernel.local_bytes = std::max(kernel.local_bytes, value);
    }
    return {};
}

Result<void> CubinReader::read_kernel_info(BytesView records, Kernel& kernel) {
    Record record;
    while (WL_TRY(next_record(records, record))) {
        switch (record.attribute) {
            case k_param:
            case k_param_v2: WL_TRY(read_param(record, kernel)); break;
            case k_params_bytes: kernel.param_bytes = record.inline_value; break;
            case k_max_thread_bounds: read_at(record.value, 0, kernel.max_threads); break;
            case k_required_threads: read_at(record.value, 0, kernel.required_threads); break;
            case k_cluster: read_at(record.value, 0, kernel.cluster); break;
            default: break;
        }
    }
    return {};
}

Result<void> CubinReader::read_param(const Record& record, Kernel& kernel) {
    uint16_t ordinal = 0, offset = 0;
    uint32_t word = 0;
    if (!read_at(record.value, 4, ordinal) || !read_at(record.value, 6, offset) || !read_at(record.value, 8, word))
        return malformed("cubin parameter record cut short");
    if (kernel.params.size() == k_max_params) return malformed("cubin kernel with too many parameters");
    Param param;
    param.ordinal = ordinal;
    param.offset_bytes = offset;
    param.size_bytes = record.attribute == k_param ? word >> 18 : word & 0xffffff;
    kernel.params.push_back(param);
    return {};
}

// Records come in descending order of ordinals; every ordinal must be there once.
Result<void> CubinReader::finish_params(Kernel& kernel) const {
    std::sort(kernel.params.begin(), kernel.params.end(), [](const Param& a, const Param& b) { return a.ordinal < b.ordinal; });
    for (size_t i = 0; i < kernel.params.size(); i++) {
        const Param& param = kernel.params[i];
        if (param.ordinal != i) return malformed("cubin kernel with a parameter missing or twice");
        if (kernel.param_bytes != 0 && param.offset_bytes + param.size_bytes > kernel.param_bytes)
            return malformed("cubin parameter outside of the kernel's parameters");
    }
    return {};
}

// From compute capability 9.0 on, linked cubins count a kibibyte that the system keeps for itself; CUDA does not report it.
void CubinReader::finish_shared(Kernel& kernel) const {
    if (!m_info.relocatable && m_reserves_shared && kernel.static_shared_bytes >= k_reserved_shared_bytes)
        kernel.static_shared_bytes -= k_reserved_shared_bytes;
}

void CubinReader::sort_names() {
    auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(m_info.kernels.begin(), m_info.kernels.end(), by_name);
    std::stable_sort(m_info.globals.begin(), m_info.globals.end(), by_name);
}

}  // namespace

Result<ImageInfo> read_cubin_info(BytesView cubin) {
    try {
        return CubinReader(cubin).read();
    } catch (const std::bad_alloc&) {
        return Error{Code::alloc_failed, "no memory to read a cubin"};
    }
}

}  // namespace warpline::cuda::image
