// With line information (-lineinfo, -G) ptxas keeps the text that it translated in the cubin, one zero after each line.
#include <elf.h>

#include <algorithm>
#include <cstring>

#include "cuda/image/container.h"
#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

constexpr std::string_view k_section_name = ".nv_debug_ptx_txt";

Result<BytesView> contents(BytesView elf, const Elf64_Shdr& section) {
    if (section.sh_offset > elf.size() || section.sh_size > elf.size() - section.sh_offset) {
        return malformed("cubin section outside of the file");
    }
    return elf.subspan(section.sh_offset, section.sh_size);
}

bool is_named(BytesView names, const Elf64_Shdr& section) {
    // With its terminating zero: the name, not one that begins like it.
    const size_t bytes = k_section_name.size() + 1;
    return section.sh_name <= names.size() && names.size() - section.sh_name >= bytes &&
           std::memcmp(names.data() + section.sh_name, k_section_name.data(), bytes) == 0;
}

std::string text_of(BytesView lines) {
    std::string text(as_text(lines));
    std::replace(text.begin(), text.end(), '\0', '\n');
    return text;
}

}  // namespace

Result<std::string> read_debug_ptx(BytesView cubin) {
    Elf64_Ehdr header;
    if (!read_at(cubin, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return malformed("no ELF");
    if (header.e_shentsize != sizeof(Elf64_Shdr)) return malformed("cubin without sections");
    Elf64_Shdr first;
    if (!read_at(cubin, header.e_shoff, first)) return malformed("cubin section headers cut short");
    const uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
    if (count > (cubin.size() - header.e_shoff) / sizeof(Elf64_Shdr)) return malformed("cubin section headers cut short");
    auto section = [&](uint64_t index) {
        Elf64_Shdr found{};
        if (index < count) read_at(cubin, header.e_shoff + index * sizeof found, found);
        return found;
    };
    BytesView names = WL_TRY(contents(cubin, section(header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link)));
    for (uint64_t i = 0; i < count; i++) {
        const Elf64_Shdr header_of_section = section(i);
        if (header_of_section.sh_type != SHT_NOBITS && is_named(names, header_of_section)) {
            return text_of(WL_TRY(contents(cubin, header_of_section)));
        }
    }
    return std::string();
}

}  // namespace warpline::cuda::image
