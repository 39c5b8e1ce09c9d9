// How functions say that they failed.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace warpline {

/// Failures of our own. What a CUDA driver answers is data and is passed through verbatim, never turned into one of these.
enum class Code : uint8_t {
    ok,
    not_configured,    ///< no server is named, or no certificate
    connect_refused,   ///< nobody listens there, or the name does not resolve
    auth_failed,       ///< the TLS handshake failed, or the certificate is not accepted
    connection_lost,   ///< the connection or the worker went away in mid-session
    version_mismatch,  ///< the other side speaks no protocol version of ours
    server_starting,   ///< the server is up but not ready to take sessions
    quota,             ///< a limit of the tenant or of the session is reached
    alloc_failed,      ///< no memory
    bad_argument,      ///< a caller's mistake
    unknown_handle,    ///< wrong kind of handle, or another session's
    unsupported,       ///< known, and not supported
    denied,            ///< refused by the server's policy
    deadline,          ///< a configured deadline passed
    shutting_down,     ///< the process or the session is ending
    malformed,         ///< bytes that are not what they should be
    io,                ///< an operating-system call failed
    internal,          ///< a bug of ours
};

/// Why something failed. Trivially copyable: `what` points at a string literal.
struct Error {
    Code code = Code::internal;
    const char* what = "";
    uint32_t detail = 0;  ///< errno, line number, call id: whatever `what` says

    friend bool operator==(const Error& a, const Error& b) { return a.code == b.code && a.detail == b.detail; }
};

/// The name of a code, for logs and messages.
const char* to_string(Code code);

/// The CUresult (as a number) that stands for a failure of ours: the only place of that mapping.
int to_cu_result(Code code);

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
public:
    Result(T value) : m_value(std::move(value)) {}  // NOLINT: conversion is the point
    Result(Error error) : m_error(error) {}         // NOLINT

    bool ok() const { return m_value.has_value(); }
    explicit operator bool() const { return ok(); }
    T& value() & { return *m_value; }
    const T& value() const& { return *m_value; }
    T&& value() && { return std::move(*m_value); }
    T& operator*() & { return *m_value; }
    const T& operator*() const& { return *m_value; }
    T* operator->() { return &*m_value; }
    const T* operator->() const { return &*m_value; }
    const Error& error() const { return m_error; }

private:
    std::optional<T> m_value;
    Error m_error{Code::ok};
};

template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : m_error(error), m_ok(false) {}  // NOLINT

    bool ok() const { return m_ok; }
    explicit operator bool() const { return m_ok; }
    void value() const {}
    const Error& error() const { return m_error; }

private:
    Error m_error{Code::ok};
    bool m_ok = true;
};

}  // namespace warpline

/// The value of a Result; returns its error from the calling function if there is none.
#define WL_TRY(expression)                                                                                \
    ({                                                                                                    \
        auto&& wl_try_result = (expression);                                                              \
        static_assert(!std::is_lvalue_reference_v<decltype(wl_try_result)> ||                             \
                          std::is_copy_constructible_v<std::remove_reference_t<decltype(wl_try_result)>>, \
                      "WL_TRY moves out of its argument");                                                \
        if (!wl_try_result.ok()) [[unlikely]]                                                             \
            return wl_try_result.error();                                                                 \
        std::move(wl_try_result).value();                                                                 \
    })
