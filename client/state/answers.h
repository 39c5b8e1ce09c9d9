// What questions to the server were answered, where nothing but a call of the program changes the answer.
#pragma once

#include <any>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <type_traits>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/gen/call_id.gen.h"

namespace warpline::client {

namespace detail {

template <typename T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void append_part(Bytes& question, T part) {
    const BytesView bytes = as_bytes(&part, sizeof part);
    question.insert(question.end(), bytes.begin(), bytes.end());
}

inline void append_part(Bytes& question, BytesView part) {
    append_part(question, uint64_t{part.size()});
    question.insert(question.end(), part.begin(), part.end());
}

inline void append_part(Bytes& question, std::string_view part) { append_part(question, as_bytes(part)); }

}  // namespace detail

/// A question as bytes: a call, and everything on which its answer depends.
template <typename... Parts>
Bytes question_of(cuda::CallId id, const Parts&... parts) {
    Bytes question;
    detail::append_part(question, id);
    (detail::append_part(question, parts), ...);
    return question;
}

/// Answers by question. @thread any
template <typename Answer>
class Answers {
public:
    /// More than programs ask; what is asked beyond is asked every time.
    static constexpr size_t k_most = 4096;

    /// The answer: what is known, or what ask(answer) tells, which is kept if it returns CUDA_SUCCESS and nothing was forgotten
    /// while it was asked.
    template <std::invocable<Answer&> Ask>
    CUresult get(const Bytes& question, Answer& answer, Ask&& ask) {
        const uint64_t time = now();
        if (find(question, answer)) return CUDA_SUCCESS;
        const CUresult result = ask(answer);
        if (result == CUDA_SUCCESS) keep(question, answer, time);
        return result;
    }

    /// To be read before a question is asked whose answer is kept then.
    uint64_t now() const {
        MutexLock lock(m_mutex);
        return m_forgotten;
    }
    bool find(const Bytes& question, Answer& answer) const {
        MutexLock lock(m_mutex);
        const auto found = m_known.find(question);
        if (found == m_known.end()) return false;
        answer = found->second;
        return true;
    }
    /// @param asked  now(), as it was
    void keep(const Bytes& question, const Answer& answer, uint64_t asked) {
        MutexLock lock(m_mutex);
        if (asked == m_forgotten && m_known.size() < k_most) m_known.emplace(question, answer);
    }

    /// True if nothing more is kept.
    bool is_full() const {
        MutexLock lock(m_mutex);
        return m_known.size() >= k_most;
    }

    /// What is known may not be true any more: to be called when the call that changes it has been sent, so that what was asked
    /// before it is not kept.
    void forget() {
        MutexLock lock(m_mutex);
        ++m_forgotten;
        m_known.clear();
    }

private:
    mutable Mutex m_mutex;
    std::map<Bytes, Answer> m_known WL_GUARDED_BY(m_mutex);
    uint64_t m_forgotten WL_GUARDED_BY(m_mutex) = 0;  ///< how often
};

}  // namespace warpline::client
