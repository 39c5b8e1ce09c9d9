// With line information (-lineinfo, -G) ptxas keeps the text that it translated in the cubin, one zero after each line. A
// linker (nvlink, nvJitLink) keeps those of all its inputs: as sections with a number behind the name, or one after the other
// in one.
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
    if (section.sh_name >= names.size()) return false;
    std::string_view name = as_text(names.subspan(section.sh_name));
    if (!name.starts_with(k_section_name)) return false;
    name.remove_prefix(k_section_name.size());
    return name.starts_with('\0') || name.starts_with('.');  // not one that only begins like it
}

std::string text_of(BytesView lines) {
    std::string text(as_text(lines));
    std::replace(text.begin(), text.end(), '\0', '\n');
    return text;
}

/// Takes texts apart that stand one after the other: each begins with its .version, which comes nowhere else at the start of a
/// line.
void add_texts(std::string_view all, std::vector<std::string>& texts) {
    constexpr std::string_view k_version = "\n.version ";
    while (!all.empty()) {
        const size_t own = all.starts_with(k_version.substr(1)) ? 0 : all.find(k_version);
        const size_t next = own == std::string_view::npos ? own : all.find(k_version, own + 1);
        const size_t end = next == std::string_view::npos ? all.size() : next + 1;
        texts.emplace_back(all.substr(0, end));
        all.remove_prefix(end);
    }
}

}  // namespace

Result<std::vector<std::string>> read_debug_ptx(BytesView cubin) {
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
    std::vector<std::string> texts;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const Elf64_Shdr header_of_section = section(i);
        if (header_of_section.sh_type == SHT_NOBITS || !is_named(names, header_of_section)) continue;
        BytesView lines = WL_TRY(contents(cubin, header_of_section));
        bytes += lines.size();
        if (bytes > cubin.size()) return malformed("cubin sections that overlap");  // or few bytes would become many
        add_texts(text_of(lines), texts);
    }
    return texts;
}

}  // namespace warpline::cuda::image
