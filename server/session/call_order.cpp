// Keeps calls until those that they depend on have ended.
#include "server/session/call_order.h"

#include <algorithm>

namespace warpline::server {

uint64_t CallOrder::overtaken(const Footprint& footprint) {
    MutexLock lock(m_mutex);
    const uint64_t number = ++m_last;
    m_nodes[number].client_waits = footprint.client_waits;
    enter(number, footprint);
    m_any.store(true, std::memory_order_release);
    return number;
}

bool CallOrder::hold(const Footprint& footprint, const std::shared_ptr<OrderedWork>& work, uint64_t& number) {
    MutexLock lock(m_mutex);
    const std::vector<uint64_t> before = what_holds(footprint);
    if (before.empty()) return false;
    number = ++m_last;
    for (const uint64_t other : before) m_nodes[other].followers.push_back(number);
    Node& node = m_nodes[number];
    node.work = work;
    node.waits_for = before.size();
    node.client_waits = footprint.client_waits;
    enter(number, footprint);
    return true;
}

bool CallOrder::is_unfinished(const Footprint& footprint) {
    MutexLock lock(m_mutex);
    const std::vector<uint64_t> before = what_holds(footprint);
    return !before.empty() && std::find(before.begin(), before.end(), m_barrier) == before.end();
}

std::vector<std::shared_ptr<OrderedWork>> CallOrder::ended(uint64_t number) {
    MutexLock lock(m_mutex);
    std::vector<std::shared_ptr<OrderedWork>> free;
    const auto found = m_nodes.find(number);
    if (found == m_nodes.end()) return free;
    const std::vector<uint64_t> followers = std::move(found->second.followers);
    m_nodes.erase(found);
    for (const uint64_t follower : followers) {
        const auto next = m_nodes.find(follower);
        if (next != m_nodes.end() && --next->second.waits_for == 0) free.push_back(std::move(next->second.work));
    }
    if (m_nodes.empty()) {
        m_keys.clear();
        m_any.store(false, std::memory_order_release);
    }
    return free;
}

void CallOrder::clear() {
    std::unordered_map<uint64_t, Node> nodes;  // works end outside of the lock
    MutexLock lock(m_mutex);
    nodes.swap(m_nodes);
    m_keys.clear();
    m_any.store(false, std::memory_order_release);
}

std::vector<uint64_t> CallOrder::what_holds(const Footprint& footprint) {
    std::vector<uint64_t> before;
    if (footprint.after_all || footprint.before_all) {
        // Whoever waits for a reply has nothing that a later call could depend on.
        for (const auto& [number, node] : m_nodes) {
            if (!node.client_waits) before.push_back(number);
        }
        return before;
    }
    if (!footprint.is_of_pages) before.push_back(m_barrier);
    for (const Footprint::Touch& touch : footprint.touches) {
        const auto key = m_keys.find(touch.key);
        if (key == m_keys.end()) continue;
        before.push_back(key->second.provider);
        if (touch.after_users) before.insert(before.end(), key->second.users.begin(), key->second.users.end());
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    forget_ended(before);
    return before;
}

void CallOrder::forget_ended(std::vector<uint64_t>& numbers) {
    size_t kept = 0;
    for (const uint64_t number : numbers) {
        if (m_nodes.contains(number)) numbers[kept++] = number;
    }
    numbers.resize(kept);
}

/// What later calls will find of this one.
void CallOrder::enter(uint64_t number, const Footprint& footprint) {
    if (footprint.client_waits) return;
    if (footprint.before_all) m_barrier = number;
    for (const Footprint::Touch& touch : footprint.touches) {
        if (!touch.provides && !touch.uses) continue;
        Key& key = m_keys[touch.key];
        if (touch.provides) {
            key.provider = number;
            if (touch.after_users) key.users.clear();
            continue;
        }
        if (key.users.size() >= key.sweep_at) {
            forget_ended(key.users);
            key.sweep_at = key.users.size() * 2 + 64;
        }
        key.users.push_back(number);
    }
}

}  // namespace warpline::server
