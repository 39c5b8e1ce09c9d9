#pragma once

// What this build checks at run time, where that leaves less of a process to use, or takes for a mistake what is meant.

namespace warpline {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool k_has_thread_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool k_has_thread_sanitizer = true;
#else
inline constexpr bool k_has_thread_sanitizer = false;
#endif
#else
inline constexpr bool k_has_thread_sanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool k_has_address_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool k_has_address_sanitizer = true;
#else
inline constexpr bool k_has_address_sanitizer = false;
#endif
#else
inline constexpr bool k_has_address_sanitizer = false;
#endif

}  // namespace warpline
