// What programs commonly do that waits more than it has to, and what they can do instead.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <set>

#include "client/analyze/account.h"

namespace warpline::analyze {

namespace {

constexpr uint64_t k_often = 10;  // fewer are no pattern
constexpr uint64_t k_small_bytes = 4096;
constexpr double k_matters = 0.02;  // of the whole time

/// A sentence, and what it is about costs so much.
struct Advice {
    double us;
    std::string text;
};

[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// What a wait is for. The program's own call says it, where there is one: what is sent for it may bring more than it asks for.
enum class Purpose : uint8_t { memory, managed, read, async_copy, write, synchronisation, progress, measure, question, other };

Purpose purpose_of(const WaitRow& row) {
    if (row.sent == "wlMapNow" || row.sent == "wlAlloc") return Purpose::memory;
    const std::string& call = row.call.empty() ? row.sent : row.call;
    // Outside of calls, what waits for the device are the program's accesses to memory that it has, too.
    if (row.call.empty() && contains(row.sent, "Synchronize")) return Purpose::managed;
    if (contains(call, "Synchronize")) return Purpose::synchronisation;
    if (contains(row.sent, "Pages") || row.sent == "wlWaitBesideCaptures") return Purpose::managed;
    if (contains(call, "Memcpy") || call.starts_with("wlCopy")) {
        if (contains(call, "Async")) return Purpose::async_copy;
        const bool up = contains(row.sent, "HtoD") || row.sent == "wlCopyToDevice";
        return up ? Purpose::write : Purpose::read;
    }
    if (call.starts_with("cuEventQuery") || call.starts_with("cuStreamQuery")) return Purpose::progress;
    if (call.starts_with("cuEventElapsedTime") || call.starts_with("cuMemGetInfo")) return Purpose::measure;
    const bool asks = contains(call, "Get") || contains(call, "Query") || contains(call, "Can") || contains(call, "Occupancy");
    return asks ? Purpose::question : Purpose::other;
}

/// All waits of one of the program's calls for one purpose.
std::vector<std::pair<Purpose, WaitRow>> by_purpose(const std::vector<WaitRow>& waits) {
    std::vector<std::pair<Purpose, WaitRow>> rows;
    for (const WaitRow& row : waits) {
        const Purpose purpose = purpose_of(row);
        const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& other) {
            return other.first == purpose && other.second.call == row.call &&
                   (!row.call.empty() || purpose == Purpose::managed);
        });
        if (same == rows.end()) {
            rows.emplace_back(purpose, row);
            continue;
        }
        same->second.count += row.count;
        same->second.us += row.us;
        same->second.executing_us += row.executing_us;
        same->second.payload_bytes += row.payload_bytes;
        same->second.brings_more |= row.brings_more;
    }
    return rows;
}

class Adviser {
public:
    explicit Adviser(const Account& account) : m_account(account) {
        for (const CallRow& row : account.calls) {
            if (contains(row.name, "Launch")) m_launches += row.count;
            const bool allocates = row.name.starts_with("cuMemAlloc") || row.name.starts_with("cuMemFree");
            if (allocates && !contains(row.name, "Async") && !contains(row.name, "Host")) {
                m_allocations += row.count;
                m_allocating_us += row.us;
            }
        }
    }

    std::vector<std::string> take() {
        for (const auto& [purpose, row] : by_purpose(m_account.waits)) about(purpose, row);
        about_polls();
        about_shares();
        std::stable_sort(m_advice.begin(), m_advice.end(), [](const Advice& a, const Advice& b) { return a.us > b.us; });
        std::vector<std::string> texts;
        for (Advice& advice : m_advice) texts.push_back(std::move(advice.text));
        return texts;
    }

private:
    bool matters(double us) const { return us > k_matters * m_account.whole.us(); }
    void add(double us, std::string text) { m_advice.push_back({us, std::move(text)}); }

    /// How much of a round trip each of these waits is, in words.
    std::string cost(const WaitRow& row) const {
        return printed("%llu times, %.1f ms in all, of which the server executed for %.1f ms",
                       static_cast<unsigned long long>(row.count), row.us / 1e3, row.executing_us / 1e3);
    }

    void about(Purpose purpose, const WaitRow& row) {
        if (purpose == Purpose::memory) return about_memory(row);
        if (row.count < k_often) return;
        const char* name = row.call.empty() ? row.sent.c_str() : row.call.c_str();
        const std::string waits = cost(row);
        switch (purpose) {
            case Purpose::memory: return;
            case Purpose::read: return about_read(row, name);
            case Purpose::synchronisation: return about_synchronisation(row, name);
            case Purpose::managed:
                return add(row.us, printed("%s waits %s, for pages of managed memory: cudaMemPrefetchAsync brings what is used "
                                           "next at once, and cudaMalloc with cudaMemcpyAsync does without such waits.",
                                           row.call.empty() ? "The program" : name, waits.c_str()));
            case Purpose::async_copy:
                return add(
                    row.us,
                    printed("%s waits %s: its memory is pageable, so that it returns when the copy is complete. Memory of "
                            "cudaMallocHost (or cudaHostRegister) makes it asynchronous.",
                            name, waits.c_str()));
            case Purpose::write:
                return add(row.us, printed("%s waits %s, since the program has several threads and the device is busy: "
                                           "cudaMemcpyAsync from page-locked memory does not wait.",
                                           name, waits.c_str()));
            case Purpose::progress:
                m_asking.insert(row.call);
                return add(row.us, printed("%s asks the server %s: ask less often, or wait with cudaEventSynchronize or "
                                           "cudaStreamSynchronize.",
                                           name, waits.c_str()));
            case Purpose::measure:
                return add(row.us, printed("%s waits %s: each costs a round trip; ask at the end, or for every n-th step.",
                                           name, waits.c_str()));
            case Purpose::question:
                return add(row.us, printed("%s waits %s (for %s): if its answer does not change, ask once and keep it.", name,
                                           waits.c_str(), row.sent.c_str()));
            case Purpose::other:
                return add(row.us,
                           printed("%s waits %s (for %s): each costs a round trip of %.3f ms at least here; call it before "
                                   "the loop, and keep what it makes.",
                                   name, waits.c_str(), row.sent.c_str(), m_account.round_trip_us / 1e3));
        }
    }

    void about_read(const WaitRow& row, const char* name) {
        const uint64_t each = row.payload_bytes / row.count;
        // What others ask for next comes along with some: then it is not known how much is the copy's own.
        const std::string size =
            row.brings_more || each == 0 ? "" : printed(" of about %llu bytes", static_cast<unsigned long long>(each));
        if (each <= k_small_bytes) {
            add(row.us,
                printed("%s%s waits %s: keep the value on the device, or copy it with cudaMemcpyAsync to page-locked memory "
                        "and look at it a step later, or gather several in one copy.",
                        name, size.c_str(), cost(row).c_str()));
        } else {
            add(row.us, printed("%s%s waits %s: cudaMemcpyAsync to page-locked memory lets the program go on meanwhile.", name,
                                size.c_str(), cost(row).c_str()));
        }
    }

    void about_synchronisation(const WaitRow& row, const char* name) {
        const double launches = static_cast<double>(m_launches) / static_cast<double>(row.count);
        if (m_launches != 0 && launches < 4) {
            add(row.us,
                printed("%s waits %s, after every %.1f launches: work in one stream needs no waiting in between; wait where a "
                        "result is used.",
                        name, cost(row).c_str(), launches));
        } else {
            add(row.us,
                printed("%s waits %s: each costs a round trip of %.3f ms at least here; one for several steps costs as much.",
                        name, cost(row).c_str(), m_account.round_trip_us / 1e3));
        }
    }

    void about_memory(const WaitRow& row) {
        add(row.us,
            printed(
                "%s waits for memory %s: there is a limit to what is allocated without asking. Memory that is kept and used "
                "again, cudaMallocAsync, or a larger memory_credit of the server's avoid it.",
                row.call.c_str(), cost(row).c_str()));
    }

    /// Questions whether work is done that are answered here, as the server tells the end: the waits for it are no calls'.
    void about_polls() {
        for (const CallRow& row : m_account.calls) {
            const bool asks = row.name.starts_with("cuEventQuery") || row.name.starts_with("cuStreamQuery");
            if (!asks || row.count < 10 * k_often || m_asking.contains(row.name) || !matters(row.us)) continue;
            add(row.us,
                printed("%s is called %llu times, which takes %.1f ms: cudaEventSynchronize or cudaStreamSynchronize waits "
                        "no longer, and leaves the processor to others; one for several steps costs one round trip.",
                        row.name.c_str(), static_cast<unsigned long long>(row.count), row.us / 1e3));
        }
    }

    void about_shares() {
        const Shares& shares = m_account.shares;
        if (m_allocations >= 10 * k_often && matters(m_allocating_us))
            add(m_allocating_us,
                printed("Memory is allocated and freed %llu times, which takes %.1f ms: allocate before the loop, or "
                        "from a pool (cudaMallocAsync).",
                        static_cast<unsigned long long>(m_allocations), m_allocating_us / 1e3));
        if (matters(shares.credit_us))
            add(shares.credit_us,
                printed("%.1f ms were lost because more was sent than the server may keep: WARPLINE_CREDIT_BYTES and "
                        "WARPLINE_CREDIT_CALLS here, --credit-bytes and --credit-calls there. (Where processors are "
                        "scarce, 2,048 calls are kept.)",
                        shares.credit_us / 1e3));
        if (matters(shares.payload_us))
            add(shares.payload_us,
                printed("%.1f ms were spent sending large copies from pageable memory: from memory of cudaMallocHost, "
                        "cudaMemcpyAsync returns at once and the program goes on.",
                        shares.payload_us / 1e3));
        if (matters(shares.session_us) && shares.session_us > shares.executing_us + shares.link_us)
            add(shares.session_us,
                printed("Connecting and the goodbye took %.1f ms, more than all waits: fewer, longer processes pay "
                        "that less often.",
                        shares.session_us / 1e3));
    }

    const Account& m_account;
    uint64_t m_launches = 0, m_allocations = 0;
    double m_allocating_us = 0;
    std::set<std::string> m_asking;  // calls of which many questions travel
    std::vector<Advice> m_advice;
};

}  // namespace

std::vector<std::string> advise(const Account& account) { return Adviser(account).take(); }

}  // namespace warpline::analyze
