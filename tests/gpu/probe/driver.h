#pragma once

// The driver that is asked: a library opened by path, its functions found by name.

#include <string>

#include "cuda/abi/cuda_types.h"

namespace warpline::probe {

class Driver {
public:
    /// Opens the library in this process. Exits with 2 and a line on stderr if it does not load.
    explicit Driver(const std::string& path);

    /// Address of an exported function, or nullptr if the driver does not have it.
    void* find(const char* symbol) const;

    /// A function that must be there. @throws Missing
    template <typename F>
    F* function(const char* symbol) const {
        return reinterpret_cast<F*>(found(symbol));
    }

private:
    void* found(const char* symbol) const;
    void* m_library = nullptr;
};

/// A question needs a function that this driver does not export: an answer of its own.
struct Missing {
    std::string symbol;
};

/// A question needs an object that could not be made.
struct NoFixture {
    std::string what;
    int result;
};

}  // namespace warpline::probe

/// The driver's function of that name, with the prototype of cuda.h: WL_CU(driver, cuInit)(0).
#define WL_CU(driver, name) ((driver).function<decltype(::name)>(#name))
