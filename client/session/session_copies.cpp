// Copies to the program's memory that nobody waits for: where their bytes go, and in what order they are there.
#include <algorithm>
#include <utility>

#include "client/session/session.h"
#include "client/session/waiter.h"
#include "client/state/gates.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// True if rows of the one lie between those of the other, throughout.
bool lie_between(const CopyTarget& a, const CopyTarget& b) {
    const auto is_row = [](const CopyTarget& target) { return target.rows * target.slices == 1; };
    const CopyTarget& many = is_row(a) ? b : a;
    const CopyTarget& other = is_row(a) ? a : b;
    const uint64_t pitch = many.pitch_bytes;
    if (many.slices > 1 || other.slices > 1 || pitch == 0 || (!is_row(other) && other.pitch_bytes != pitch)) return false;
    // From the one's rows to the other's.
    const uint64_t first = reinterpret_cast<uint64_t>(many.base) % pitch;
    const uint64_t apart = (reinterpret_cast<uint64_t>(other.base) % pitch + pitch - first) % pitch;
    return apart >= many.row_bytes && apart + other.row_bytes <= pitch;
}

bool meet(const CopyTarget& a, const CopyTarget& b) {
    return a.spans(reinterpret_cast<uint64_t>(b.base), b.span_bytes()) && !lie_between(a, b);
}

}  // namespace

void Session::note_copy(uint64_t number, const CopyTarget& target, bool repeats, uint64_t context, uint64_t stream) {
    MutexLock lock(m_mutex);
    if (repeats) {
        m_graph_copies.emplace(number, Copy{target});  // whose context is the launch's
        return;
    }
    m_copies.emplace(number, Copy{target, context, stream, last_join()});
    count_copies();
}

void Session::note_graph_launch(uint64_t number, const GraphLaunch& launch) {
    MutexLock lock(m_mutex);
    m_graph_launches.emplace(number, launch).first->second.joined = last_join();
    count_copies();
}

void Session::forget_graph_copy(uint64_t number) {
    MutexLock lock(m_mutex);
    m_graph_copies.erase(number);
}

Session::FoundCopy Session::find_copy(uint64_t call) {
    if (auto it = m_copies.find(call); it != m_copies.end()) return {&it->second, {call, it->second.stream, it->second.joined}};
    const auto found = m_graph_copies.find(call);
    if (found == m_graph_copies.end()) return {};
    const auto launch = std::find_if(m_graph_launches.begin(), m_graph_launches.end(), [call](const auto& one) {
        const GraphLaunch& launched = one.second;
        return !launched.is_over && std::find(launched.targets.begin(), launched.targets.end(), call) != launched.targets.end();
    });
    if (launch == m_graph_launches.end()) return {};
    return {&found->second, {launch->first, launch->second.stream, launch->second.joined}};
}

bool Session::comes_too_soon(const Order& order, const CopyTarget& target) const {
    if (target.collect) return false;
    const auto comes_behind = [&order](uint64_t number, uint64_t stream) {
        return may_come_behind(order.stream, stream, number, order.joined);
    };
    for (auto it = m_copies.begin(); it != m_copies.end() && it->first < order.number; ++it) {
        if (comes_behind(it->first, it->second.stream) && meet(it->second.target, target)) return true;
    }
    for (auto it = m_graph_launches.begin(); it != m_graph_launches.end() && it->first < order.number; ++it) {
        if (!comes_behind(it->first, it->second.stream)) continue;
        for (const uint64_t call : it->second.targets) {
            const auto found = m_graph_copies.find(call);
            if (found != m_graph_copies.end() && meet(found->second.target, target)) return true;
        }
    }
    return false;
}

Result<std::optional<CopyTarget>> Session::target_of(uint64_t call, uint64_t offset) {
    const Error gap{Code::malformed, "a part of a payload does not follow upon the one before it"};
    MutexLock lock(m_mutex);
    if (auto it = m_waiters.find(call); it != m_waiters.end()) {
        Waiter& waiter = *it->second;
        if (!waiter.wants_payload) return std::optional<CopyTarget>();
        // Of what nobody knows the length of, all comes over one lane.
        if (waiter.target.collect && offset != waiter.received) return gap;
        if (!waiter.aside && comes_too_soon({.number = call}, waiter.target))
            waiter.aside = std::make_unique<Bytes>(waiter.target.total_bytes());
        return std::optional(waiter.place());
    }
    const auto [copy, order] = find_copy(call);
    if (!copy) return std::optional<CopyTarget>();
    if (!copy->aside && comes_too_soon(order, copy->target)) copy->aside = std::make_shared<Bytes>(copy->target.total_bytes());
    return std::optional(copy->place());
}

void Session::part_arrived(uint64_t call, uint64_t bytes) {
    MutexLock lock(m_mutex);
    if (auto it = m_waiters.find(call); it != m_waiters.end()) {
        it->second->received += bytes;
    } else if (Copy* copy = find_copy(call).copy) {
        copy->received += bytes;
    }
}

Result<void> Session::on_copy_done(uint64_t call, CUresult result, uint64_t bytes, BytesView payload) {
    if (end_graph_launch(call)) return {};
    CopyTarget place;
    Held held;
    held.call = call;
    uint64_t received = 0, context = 0;
    {
        MutexLock lock(m_mutex);
        const auto [copy, order] = find_copy(call);
        if (!copy) {
            // Nobody waits for it any more (copies_settled).
            WL_LOG(debug, "client", "{} bytes for a copy that was given up", bytes);
            return {};
        }
        if (!copy->aside && !payload.empty() && comes_too_soon(order, copy->target))
            copy->aside = std::make_shared<Bytes>(copy->target.total_bytes());
        place = copy->place();
        held.order = order;
        context = copy->context;
        held.target = copy->target;
        // A graph's copy comes again with the next launch.
        held.bytes = std::exchange(copy->aside, nullptr);
        received = std::exchange(copy->received, 0);
    }
    m_payload_received.fetch_add(bytes, std::memory_order_relaxed);
    if (!payload.empty() && !place.write(received, payload)) return Error{Code::malformed, "more bytes than the copy has"};
    if (result == CUDA_SUCCESS && received + payload.size() != place.total_bytes()) {
        WL_LOG(error, "client", "the copy of call {} is said to be done, and has another number of bytes than were asked for",
               call);
        result = CUDA_ERROR_UNKNOWN;
    }
    if (held.bytes && result == CUDA_SUCCESS) {
        MutexLock lock(m_mutex);
        if (const auto launch = m_graph_launches.find(held.order.number); launch != m_graph_launches.end())
            ++launch->second.held;
        m_held.push_back(std::move(held));
    } else {
        MutexLock lock(m_mutex);
        m_copies.erase(call);
        count_copies();
    }
    land_held();
    if (result != CUDA_SUCCESS) on_async_error(call, result, context);
    return {};
}

/// What comes next of those that nothing is in front of any more.
std::optional<Session::Held> Session::next_to_land(bool all) {
    const auto is_next = [&](const Held& held) WL_REQUIRES(m_mutex) { return !comes_too_soon(held.order, held.target); };
    const auto next = all ? std::ranges::min_element(m_held, {}, [](const Held& held) { return held.order.number; })
                          : std::find_if(m_held.begin(), m_held.end(), is_next);
    if (next == m_held.end()) return std::nullopt;
    std::optional<Held> taken(std::move(*next));
    m_held.erase(next);
    return taken;
}

void Session::land_held(bool all) {
    // What is held is a copy on its way, or of a launch that is: each reply asks, and most find none.
    if (m_copy_count.load(std::memory_order_acquire) == 0) [[likely]]
        return;
    for (;;) {
        std::optional<Held> held;
        {
            MutexLock lock(m_mutex);
            if (m_held.empty()) [[likely]]
                return;
            held = next_to_land(all);
        }
        if (!held) return;
        held->target.write(0, *held->bytes);
        landed(*held);
    }
}

void Session::landed(const Held& held) {
    decltype(m_graph_launches)::node_type over;  // what it held is given up without the lock
    MutexLock lock(m_mutex);
    m_copies.erase(held.call);
    const auto launch = m_graph_launches.find(held.order.number);
    if (launch != m_graph_launches.end() && --launch->second.held == 0 && launch->second.is_over)
        over = m_graph_launches.extract(launch);
    count_copies();
}

bool Session::end_graph_launch(uint64_t call) {
    {
        decltype(m_graph_launches)::node_type over;  // what it held is given up without the lock
        MutexLock lock(m_mutex);
        const auto launch = m_graph_launches.find(call);
        if (launch == m_graph_launches.end()) return false;
        launch->second.is_over = true;
        if (launch->second.held != 0) return true;
        over = m_graph_launches.extract(launch);
        count_copies();
    }
    land_held();
    return true;
}

void Session::forget_copy(uint64_t call) {
    {
        MutexLock lock(m_mutex);
        m_copies.erase(call);
        count_copies();
    }
    land_held();
}

bool Session::copy_pending(uint64_t address, uint64_t size_bytes) { return !contexts_copying(address, size_bytes).empty(); }

std::vector<uint64_t> Session::contexts_copying(uint64_t address, uint64_t size_bytes) {
    std::vector<uint64_t> contexts;
    if (m_copy_count.load(std::memory_order_acquire) == 0) return contexts;
    const auto add = [&](uint64_t context) {
        if (std::find(contexts.begin(), contexts.end(), context) == contexts.end()) contexts.push_back(context);
    };
    MutexLock lock(m_mutex);
    for (const auto& [number, copy] : m_copies) {
        if (copy.target.spans(address, size_bytes)) add(copy.context);
    }
    for (const auto& [number, launch] : m_graph_launches) {
        for (const uint64_t target : launch.targets) {
            const auto found = m_graph_copies.find(target);
            if (found != m_graph_copies.end() && found->second.target.spans(address, size_bytes)) add(launch.context);
        }
    }
    return contexts;
}

bool Session::graph_functions_pending(uint64_t number) {
    if (m_copy_count.load(std::memory_order_acquire) == 0) return false;
    MutexLock lock(m_mutex);
    return std::any_of(m_graph_launches.begin(), m_graph_launches.end(),
                       [number](const auto& launch) { return launch.first <= number && launch.second.host_functions; });
}

void Session::copies_settled(uint64_t context, uint64_t address, uint64_t size_bytes, uint64_t last_number) {
    {
        decltype(m_graph_launches) over;  // what they held is given up without the lock
        MutexLock lock(m_mutex);
        std::erase_if(m_copies, [&](const auto& copy) {
            return copy.second.context == context && copy.second.target.spans(address, size_bytes);
        });
        for (auto it = m_graph_launches.begin(); it != m_graph_launches.end() && it->first <= last_number;) {
            const auto launch = it++;
            if (launch->second.context == context) over.insert(m_graph_launches.extract(launch));
        }
        count_copies();
    }
    land_held();
}

}  // namespace warpline::client
