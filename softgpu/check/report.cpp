// Prints reports, and counts them: one for each place and kind of finding.
#include "softgpu/check/report.h"

#include <cxxabi.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/log/log.h"

namespace warpline::softgpu::check {

std::string Site::text() const {
    std::string out = opcode + " at " + ptx;
    if (!source.empty()) out += " (" + source + ")";
    return out + ", in " + kernel;
}

uint64_t next_site_id() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

std::string readable_name(const std::string& symbol) {
    int status = 0;
    std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                     &std::free);
    return status == 0 && name != nullptr ? name.get() : symbol;
}

bool Reporter::count(Finding finding, uint64_t place) {
    MutexLock lock(m_mutex);
    m_total++;
    return m_counts[{finding, place}]++ == 0;
}

void Reporter::write(const std::string& lines) {
    std::string out;
    for (size_t begin = 0; begin < lines.size();) {
        size_t end = std::min(lines.find('\n', begin), lines.size());
        out += "========= " + lines.substr(begin, end - begin) + "\n";
        begin = end + 1;
    }
    if (m_sink) return m_sink(out);
    std::fwrite(out.data(), 1, out.size(), stderr);
}

void Reporter::print(const std::string& lines) {
    MutexLock lock(m_mutex);
    if (++m_printed > k_most_printed) return;
    write(lines);
    if (m_printed == k_most_printed) write("Further places are counted only.");
}

std::pair<uint64_t, uint64_t> Reporter::totals() const {
    MutexLock lock(m_mutex);
    return {m_total, m_counts.size()};
}

void Reporter::print_summary() {
    auto [total, places] = totals();
    MutexLock lock(m_mutex);
    write(
        log::format("SOFTGPU_CHECK: {} error{}, at {} place{}", total, total == 1 ? "" : "s", places, places == 1 ? "" : "s"));
}

}  // namespace warpline::softgpu::check
