// Attributes of kernels that nobody has asked for yet: programs that ask for those of one kernel after the other ask for all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/image/image.h"

namespace warpline::client {

/// What the driver answers for one attribute.
struct FunctionAttribute {
    int value = 0;
    int result = 0;  ///< CUresult
};
using FunctionAttributes = std::vector<FunctionAttribute>;

/// Of the kernels of one image: with each question about one of them others are asked about as well, a few at first, and then
/// about twice as many each time, so that all questions about an image wait for the server a few times only. What the driver
/// does for an answer (it may load the kernel) is done for a few kernels too many, or for about as many as were asked for. What
/// the program has set up itself is known from its own questions only.
///
/// @thread  one at a time: under the mutex of the image
class AttributesAhead {
public:
    static constexpr size_t k_first = 8, k_most = 256;  ///< in one question

    /// Whose answers: those of a module or a library (its token), on one device.
    struct Place {
        uint64_t owner = 0;
        int device = 0;
        auto operator<=>(const Place&) const = default;
    };

    /// What else to ask with a question about a kernel: those behind it in the image, and then from the first on.
    std::vector<std::string_view> next(const Place& place, const std::vector<cuda::image::Kernel>& kernels,
                                       const cuda::image::Kernel& kernel) {
        Asked& asked = m_asked[place];
        const size_t wanted = asked.question - 1;
        asked.question = std::min(asked.question * 2, k_most);
        asked.names.insert(kernel.name);
        std::vector<std::string_view> names;
        const auto first = static_cast<size_t>(&kernel - kernels.data());
        for (size_t i = 1; i < kernels.size() && names.size() < wanted; ++i) {
            const std::string& name = kernels[(first + i) % kernels.size()].name;
            if (!is_set_up(place.device, name) && asked.names.insert(name).second) names.push_back(name);
        }
        return names;
    }

    void keep(const Place& place, std::string_view name, FunctionAttributes&& attributes) {
        if (!is_set_up(place.device, name)) m_asked[place].told.insert_or_assign(std::string(name), std::move(attributes));
    }

    /// What has been told of a kernel; each answer is taken once.
    std::optional<FunctionAttributes> take(const Place& place, std::string_view name) {
        const auto asked = m_asked.find(place);
        if (asked == m_asked.end()) return std::nullopt;
        const auto found = asked->second.told.find(name);
        if (found == asked->second.told.end()) return std::nullopt;
        auto taken = std::move(found->second);
        asked->second.told.erase(found);
        return taken;
    }

    /// The program has set an attribute of this kernel on a device: to be called when the call has been sent.
    void set_up(int device, std::string_view name) {
        if (!m_set_up[device].emplace(name).second) return;
        for (auto& [place, asked] : m_asked) {
            if (place.device != device) continue;
            if (const auto found = asked.told.find(name); found != asked.told.end()) asked.told.erase(found);
        }
    }

private:
    struct Asked {
        size_t question = k_first;  ///< about how many the next one is
        std::set<std::string, std::less<>> names;
        std::map<std::string, FunctionAttributes, std::less<>> told;
    };
    bool is_set_up(int device, std::string_view name) const {
        const auto found = m_set_up.find(device);
        return found != m_set_up.end() && found->second.contains(name);
    }

    std::map<Place, Asked> m_asked;
    std::map<int, std::set<std::string, std::less<>>> m_set_up;  ///< by device, of whichever owner
};

}  // namespace warpline::client
