// How far containers reach that are given by a pointer alone: only their own headers say it.
#include "cuda/image/container.h"

#include <elf.h>

#include <algorithm>

#include "cuda/image/ptx_tokens.h"

namespace warpline::cuda::image {

namespace {

// Raises `end` to that of a table or a range of the file.
Result<void> include_range(uint64_t offset, uint64_t size, uint64_t limit, uint64_t& end) {
    if (offset > limit || size > limit - offset) return Error{Code::malformed, "ELF headers point outside of the image"};
    end = std::max(end, offset + size);
    return {};
}

}  // namespace

Result<uint64_t> elf_size(const std::byte* elf, uint64_t limit_bytes) {
    BytesView bytes(elf, limit_bytes);
    Elf64_Ehdr header;
    if (!read_at(bytes, 0, header)) return Error{Code::malformed, "ELF header cut short"};
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return Error{Code::malformed, "not a 64-bit little-endian ELF"};
    if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) return Error{Code::malformed, "ELF section headers"};
    if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return Error{Code::malformed, "ELF program headers"};
    uint64_t end = sizeof header;
    uint64_t section_count = header.e_shnum;
    // More sections than 16 bits hold: the count is in the first section header.
    if (header.e_shoff != 0 && section_count == 0) {
        Elf64_Shdr first;
        if (!read_at(bytes, header.e_shoff, first)) return Error{Code::malformed, "ELF section headers"};
        section_count = first.sh_size;
    }
    if (section_count > limit_bytes / sizeof(Elf64_Shdr)) return Error{Code::malformed, "ELF with too many sections"};
    WL_TRY(include_range(header.e_shoff, section_count * sizeof(Elf64_Shdr), limit_bytes, end));
    WL_TRY(include_range(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), limit_bytes, end));
    for (uint64_t i = 0; i < section_count; i++) {
        Elf64_Shdr section;
        read_at(bytes, header.e_shoff + i * sizeof section, section);
        if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
        // Relocatable cubins give sizes without bytes to their own kinds of uninitialised section (.nv.global, .nv.shared).
        if (section.sh_type == 0x70000007 || section.sh_type == 0x7000000a) continue;
        WL_TRY(include_range(section.sh_offset, section.sh_size, limit_bytes, end));
    }
    for (uint64_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        read_at(bytes, header.e_phoff + i * sizeof segment, segment);
        WL_TRY(include_range(segment.p_offset, segment.p_filesz, limit_bytes, end));
    }
    return end;
}

bool looks_like_ptx(BytesView start) {
    // The directive .version comes first; white space and comments may stand before it.
    std::string_view text = as_text(start);
    for (;;) {
        size_t at = text.find_first_not_of(" \t\r\n\f\v");
        if (at == std::string_view::npos) return false;
        text.remove_prefix(at);
        if (text.substr(0, 2) != "//" && text.substr(0, 2) != "/*") break;
        const bool line = text[1] == '/';
        const size_t end = text.find(line ? "\n" : "*/", 2);
        if (end == std::string_view::npos) return false;
        text.remove_prefix(end + (line ? 1 : 2));
    }
    return text.substr(0, 8) == ".version";
}

Target cubin_target(BytesView elf) {
    Elf64_Ehdr header;
    constexpr uint16_t k_em_cuda = 190;
    constexpr uint8_t k_osabi_cuda_13 = 0x41;  // earlier toolkits wrote 0x33 and the architecture in the lowest byte
    if (!read_at(elf, 0, header) || header.e_machine != k_em_cuda) return {};
    Target target;
    target.arch = header.e_ident[EI_OSABI] == k_osabi_cuda_13 ? (header.e_flags >> 8) & 0xff : header.e_flags & 0xff;
    return target;
}

Target target_of_name(std::string_view name) {
    Target target;
    size_t underscore = name.find('_');
    if (underscore == std::string_view::npos) return target;
    name.remove_prefix(underscore + 1);
    size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    uint64_t arch = 0;
    if (!parse_ptx_number(name.substr(0, digits), arch) || arch > 9999) return target;
    target.arch = static_cast<uint32_t>(arch);
    target.arch_specific = name.substr(digits) == "a";
    target.family_specific = name.substr(digits) == "f";
    return target;
}

Target ptx_target(std::string_view ptx) {
    constexpr int k_first_words = 32;
    PtxTokens tokens(ptx);
    for (int i = 0; i < k_first_words && !tokens.at_end(); i++) {
        if (tokens.next() == ".target") return target_of_name(tokens.peek());
    }
    return {};
}

}  // namespace warpline::cuda::image
