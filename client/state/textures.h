// What the program may ask about its texture and surface objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"

namespace warpline::client {

/// What texture and surface objects were made of: the numbers are the server's, the descriptions are asked for here.
class Textures {
public:
    struct Description {
        CUDA_RESOURCE_DESC resource{};
        CUDA_TEXTURE_DESC texture{};
        std::optional<CUDA_RESOURCE_VIEW_DESC> view;
    };
    enum class Kind : uint8_t { texture, surface };

    void add(Kind kind, uint64_t object, const Description& description) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        m_objects.insert_or_assign({kind, object}, description);
    }
    bool remove(Kind kind, uint64_t object) WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        return m_objects.erase({kind, object}) != 0;
    }
    std::optional<Description> find(Kind kind, uint64_t object) const WL_EXCLUDES(m_mutex) {
        MutexLock lock(m_mutex);
        auto it = m_objects.find({kind, object});
        return it == m_objects.end() ? std::nullopt : std::make_optional(it->second);
    }

private:
    mutable Mutex m_mutex;  // protects the map
    std::map<std::pair<Kind, uint64_t>, Description> m_objects WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::client
