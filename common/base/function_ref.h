#pragma once

// A reference to something callable: for parameters that are called before the function returns. Nothing is allocated and
// nothing is kept, unlike std::function.

#include <memory>
#include <type_traits>
#include <utility>

namespace warpline {

template <typename Signature>
class FunctionRef;

/// Valid as long as what it was made from; a temporary is enough for an argument.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Args...>)
        FunctionRef(F&& function)
        : m_function(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
          m_call([](void* target, Args... args) -> R {
              return (*static_cast<std::remove_reference_t<F>*>(target))(std::forward<Args>(args)...);
          }) {}

    R operator()(Args... args) const { return m_call(m_function, std::forward<Args>(args)...); }

private:
    void* m_function;
    R (*m_call)(void*, Args...);
};

}  // namespace warpline
