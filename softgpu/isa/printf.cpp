// Formats what device code prints.
#include "softgpu/isa/printf.h"

#include <cstdio>
#include <cstring>

namespace warpline::softgpu::isa {

namespace {

constexpr size_t k_longest_string = 64 * 1024;
constexpr uint32_t k_most_arguments = 32;  ///< as CUDA documents

class Arguments {
public:
    Arguments(exec::Warp& warp, uint64_t address) : m_warp(warp), m_address(address) {}
    template <typename T>
    bool next(T& out) {
        m_address = (m_address + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        std::byte* from = m_warp.resolve(m_address, sizeof(T));
        if (from == nullptr) return false;
        std::memcpy(&out, from, sizeof(T));
        m_address += sizeof(T);
        ++m_count;
        return true;
    }
    uint64_t address() const { return m_address; }
    uint32_t count() const { return m_count; }

private:
    exec::Warp& m_warp;
    uint64_t m_address;
    uint32_t m_count = 0;
};

/// One conversion: flags, width and precision as written, with * already replaced; the length modifier apart.
struct Conversion {
    std::string prefix;
    int longs = 0;
    char letter = 0;
};

bool parse_conversion(const std::string& format, size_t& at, Arguments& arguments, Conversion& out) {
    out.prefix = "%";
    for (; at < format.size(); ++at) {
        char c = format[at];
        if (c == '*') {
            int value = 0;
            if (!arguments.next(value)) return false;
            out.prefix += std::to_string(value);
        } else if (c == 'l' || c == 'j' || c == 'z' || c == 't') {
            out.longs += c == 'l' ? 1 : 2;
        } else if (c == 'h' || c == 'L') {
            continue;  // the argument has been promoted
        } else if (std::strchr("-+ #0.123456789", c) != nullptr) {
            out.prefix += c;
        } else {
            out.letter = c;
            ++at;
            return true;
        }
    }
    return true;
}

template <typename T>
void append(std::string& out, const std::string& format, T value) {
    char small[128];
    int needed = std::snprintf(small, sizeof(small), format.c_str(), value);
    if (needed < 0) return;
    if (size_t(needed) < sizeof(small)) {
        out.append(small, size_t(needed));
        return;
    }
    if (size_t(needed) > k_longest_string) return;
    std::string big(size_t(needed) + 1, '\0');
    std::snprintf(big.data(), big.size(), format.c_str(), value);
    out.append(big, 0, size_t(needed));
}

bool append_conversion(exec::Warp& warp, const Conversion& conversion, Arguments& arguments, std::string& out, uint64_t& bad) {
    bad = arguments.address();
    switch (conversion.letter) {
        case 'd':
        case 'i':
        case 'u':
        case 'o':
        case 'x':
        case 'X': {
            if (conversion.longs == 0) {
                uint32_t value = 0;
                if (!arguments.next(value)) return false;
                append(out, conversion.prefix + conversion.letter, value);
                return true;
            }
            uint64_t value = 0;
            if (!arguments.next(value)) return false;
            append(out, conversion.prefix + "ll" + conversion.letter, static_cast<unsigned long long>(value));
            return true;
        }
        case 'c': {
            int value = 0;
            if (!arguments.next(value)) return false;
            append(out, conversion.prefix + "c", value);
            return true;
        }
        case 'p': {
            uint64_t value = 0;
            if (!arguments.next(value)) return false;
            append(out, conversion.prefix + "p", reinterpret_cast<void*>(value));
            return true;
        }
        case 's': {
            uint64_t address = 0;
            std::string text;
            if (!arguments.next(address)) return false;
            if (!read_device_string(warp, address, text, bad)) return false;
            append(out, conversion.prefix + "s", text.c_str());
            return true;
        }
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
        case 'a':
        case 'A': {
            double value = 0;
            if (!arguments.next(value)) return false;
            append(out, conversion.prefix + conversion.letter, value);
            return true;
        }
        default:  // not a conversion: printed as it stands
            out += conversion.prefix;
            if (conversion.letter != 0) out += conversion.letter;
            return true;
    }
}

}  // namespace

bool read_device_string(exec::Warp& warp, uint64_t address, std::string& out, uint64_t& bad) {
    if (address == 0) {
        out = "(null)";
        return true;
    }
    for (; out.size() < k_longest_string; ++address) {
        std::byte* at = warp.resolve(address, 1);
        bad = address;
        if (at == nullptr) return false;
        if (*at == std::byte{0}) return true;
        out += char(*at);
    }
    return true;
}

bool format_device_text(exec::Warp& warp, uint64_t format_address, uint64_t arguments_address, std::string& out, int& printed,
                        uint64_t& bad) {
    std::string format;
    if (!read_device_string(warp, format_address, format, bad)) return false;
    Arguments arguments(warp, arguments_address);
    for (size_t at = 0; at < format.size();) {
        if (format[at] != '%') {
            out += format[at++];
            continue;
        }
        ++at;
        if (at < format.size() && format[at] == '%') {
            out += '%';
            ++at;
            continue;
        }
        Conversion conversion;
        if (arguments.count() > k_most_arguments) break;
        bad = arguments.address();
        if (!parse_conversion(format, at, arguments, conversion)) return false;
        if (!append_conversion(warp, conversion, arguments, out, bad)) return false;
    }
    printed = int(arguments.count());
    return true;
}

}  // namespace warpline::softgpu::isa
