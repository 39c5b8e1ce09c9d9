// What the models of sessions share: a walk through all that can happen.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <utility>

namespace warpline::protocol::test {

/// Walks every world that can be reached from one, each once. A world has `std::string key()`, equal for equal worlds.
template <typename World>
class WorldExplorer {
public:
    virtual ~WorldExplorer() = default;
    void explore(World start) {
        m_seen.insert(start.key());
        m_waiting.push_back(std::move(start));
        while (!m_waiting.empty() && !testing::Test::HasFailure()) {
            const World world = std::move(m_waiting.back());
            m_waiting.pop_back();
            const size_t before = m_steps;
            step(world);
            if (m_steps != before) continue;
            ++m_ends;
            expect_finished(world);
        }
    }
    size_t worlds() const { return m_seen.size(); }
    /// Worlds in which nothing can happen any more.
    size_t ends() const { return m_ends; }

protected:
    /// Calls reach() for all that can happen next.
    virtual void step(const World& world) = 0;
    virtual void expect_finished(const World& world) = 0;

    /// `change(World&)` leads to another world. @return it, to be looked at
    template <typename Change>
    World reach(const World& from, Change&& change) {
        ++m_steps;
        World world = from;
        change(world);
        if (m_seen.insert(world.key()).second) m_waiting.push_back(world);
        return world;
    }

private:
    std::set<std::string> m_seen;
    std::deque<World> m_waiting;
    size_t m_steps = 0;
    size_t m_ends = 0;
};

}  // namespace warpline::protocol::test
