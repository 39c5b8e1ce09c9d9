// What programs commonly do that waits more than it has to, and what they can do instead.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

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
bool synchronises(const WaitRow& row) {
    return row.sent == "cuCtxSynchronize" || row.sent == "cuStreamSynchronize" || row.sent == "cuEventSynchronize";
}

class Adviser {
public:
    explicit Adviser(const Account& account) : m_account(account) {
        for (const CallRow& row : account.calls) {
            if (contains(row.name, "Launch")) m_launches += row.count;
            if (row.name.starts_with("cuMemAlloc") || row.name.starts_with("cuMemFree")) {
                m_allocations += row.count;
                m_allocating_us += row.us;
            }
        }
    }

    std::vector<std::string> take() {
        for (const WaitRow& row : m_account.waits) about(row);
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

    void about(const WaitRow& row) {
        if (row.sent == "wlMapNow" || row.sent == "wlAlloc") return about_memory(row);
        if (row.count < k_often) return;
        const char* name = row.call.empty() ? row.sent.c_str() : row.call.c_str();
        if (contains(row.call, "Async") && synchronises(row)) {
            add(row.us, printed("%s waits %s: its memory is pageable, so that it returns when the copy is complete. Memory of "
                                "cudaMallocHost (or cudaHostRegister) makes it asynchronous.",
                                name, cost(row).c_str()));
        } else if (contains(row.sent, "DtoH") || row.sent == "wlCopyFromDevice") {
            about_copy(row, name);
        } else if (contains(row.sent, "HtoD") || row.sent == "wlCopyToDevice") {
            add(row.us,
                printed("%s waits %s, since the program has several threads and the device is busy: cudaMemcpyAsync from "
                        "page-locked memory does not wait.",
                        name, cost(row).c_str()));
        } else if (synchronises(row)) {
            about_synchronisation(row, name);
        } else if (row.sent == "cuEventQuery" || row.sent == "cuStreamQuery") {
            add(row.us,
                printed("%s asks the server %s: ask less often, or wait with cudaEventSynchronize or cudaStreamSynchronize.",
                        name, cost(row).c_str()));
        } else if (row.sent == "cuEventElapsedTime_v2" || row.sent == "cuMemGetInfo_v2") {
            add(row.us, printed("%s waits %s: each costs a round trip; ask at the end, or for every n-th step.", name,
                                cost(row).c_str()));
        } else {
            add(row.us, printed("%s waits %s (for %s): if its answer does not change, ask once and keep it.", name,
                                cost(row).c_str(), row.sent.c_str()));
        }
    }

    void about_copy(const WaitRow& row, const char* name) {
        const uint64_t each = row.bytes_down / row.count;
        if (each <= k_small_bytes) {
            add(row.us,
                printed("%s of about %llu bytes waits %s: keep the value on the device, or copy it with cudaMemcpyAsync "
                        "to page-locked memory and look at it a step later, or gather several in one copy.",
                        name, static_cast<unsigned long long>(each), cost(row).c_str()));
        } else {
            add(row.us, printed("%s of about %llu bytes waits %s: cudaMemcpyAsync to page-locked memory lets the program go on "
                                "meanwhile.",
                                name, static_cast<unsigned long long>(each), cost(row).c_str()));
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
    std::vector<Advice> m_advice;
};

}  // namespace

std::vector<std::string> advise(const Account& account) { return Adviser(account).take(); }

}  // namespace warpline::analyze
