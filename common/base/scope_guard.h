// Cleaning up at the end of a scope.
#pragma once

#include <utility>

namespace warpline {

/// Runs a function when the scope ends, unless dismissed.
template <typename F>
class [[nodiscard]] ScopeGuard {
public:
    explicit ScopeGuard(F function) : m_function(std::move(function)) {}
    ~ScopeGuard() {
        if (m_armed) m_function();
    }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;
    void dismiss() { m_armed = false; }

private:
    F m_function;
    bool m_armed = true;
};

}  // namespace warpline
