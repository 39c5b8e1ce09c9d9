// Whether the machine's processors have more to do than they can.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace warpline {

/// The mean of how many threads want a processor, over the last few times that somebody looked.
class RunQueue {
public:
    explicit RunQueue(unsigned processors, float mean = 0) : m_processors(processors), m_mean(mean) {}
    void add(unsigned running);
    float mean() const { return m_mean; }
    /// More than there are processors.
    bool is_long() const;
    /// More than twice as many: not only who asks, its program and its server want one.
    bool is_crowded() const;

private:
    static constexpr float k_remembers = 8;
    static constexpr float k_margin = 0.5f;  // what runs for a moment now and then
    static constexpr unsigned k_crowd = 2;
    unsigned m_processors;
    float m_mean;
};

/// Processors of the machine, as far as they are in use; one at least. @thread any
unsigned processor_count();

/// The number of threads that run or would like to, of the whole machine, in /proc/loadavg's words. Nothing: not such words.
std::optional<unsigned> running_threads(std::string_view loadavg);

/// True if who looks for something in a loop takes the processor from somebody else. The kernel is asked once in a few
/// milliseconds by whoever comes first; where it does not tell, there are enough. @blocks reads a small file @thread any
bool processors_are_scarce();
/// What that has said last; for those who hold a lock. @blocks no @thread any
bool processors_were_scarce();
/// True if, when that was asked last, several programs wanted each processor. @blocks no @thread any
bool processors_were_crowded();

}  // namespace warpline
