// What the checkers found, as text for the program's user.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/base/mutex.h"

namespace warpline::softgpu::check {

/// Where an instruction stands, for reports.
struct Site {
    uint64_t id = 0;     ///< unique in the process
    std::string opcode;  ///< with its modifiers
    std::string kernel;  ///< or function, as the programmer wrote it
    std::string ptx;     ///< file of the PTX, and line
    std::string source;  ///< file and line that .loc tells; empty if the image has no line information
    uint32_t bytes = 0;  ///< of one thread's access; 0: unknown

    /// "st.global.u32 at ptx:57 (vec.cu:12), in add(float*)"
    std::string text() const;
};

uint64_t next_site_id();

/// A name as the programmer wrote it.
std::string readable_name(const std::string& symbol);

enum class Finding : uint8_t {
    bounds,         ///< outside of an allocation
    alignment,      ///< not a multiple of its size
    uninitialised,  ///< a read by a kernel
    host_copy,      ///< a copy of uninitialised memory to the host
    read_after_write,
    write_after_read,
    write_after_write,
    leak,
};

/// Prints findings: the first of each kind at each place, and no more than a bounded number; counts all.
class Reporter {
public:
    static constexpr uint64_t k_most_printed = 100;
    using Sink = std::function<void(const std::string&)>;

    /// Without a sink reports go to stderr.
    explicit Reporter(Sink sink = {}) : m_sink(std::move(sink)) {}

    /// Counts a finding. True if it is the first at its place: compose the text, and print() it.
    bool count(Finding finding, uint64_t place);
    /// Lines, each without its prefix.
    void print(const std::string& lines);
    /// Findings so far, and places where they were made.
    std::pair<uint64_t, uint64_t> totals() const;
    /// What is said at the end of the program.
    void print_summary();

private:
    void write(const std::string& lines) WL_REQUIRES(m_mutex);

    const Sink m_sink;
    mutable Mutex m_mutex;
    std::map<std::pair<Finding, uint64_t>, uint64_t> m_counts WL_GUARDED_BY(m_mutex);
    uint64_t m_total WL_GUARDED_BY(m_mutex) = 0, m_printed WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::softgpu::check
