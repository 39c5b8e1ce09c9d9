// Memory that a payload is received into.
#pragma once

#include <utility>

#include "common/base/bytes.h"

namespace warpline::protocol {

/// Who lends places, and gets them back. @thread any
class PlaceOwner {
public:
    virtual void give_back(std::byte* data) = 0;

protected:
    ~PlaceOwner() = default;
};

/// Memory for a payload on its way, so that it need not be copied again: somebody's who keeps it himself (the destination of a
/// copy), or lent by an owner, who gets it back at the end. Moves, does not copy.
class Place {
public:
    Place() = default;
    Place(MutableBytesView bytes) : m_bytes(bytes) {}
    Place(MutableBytesView bytes, PlaceOwner& owner) : m_bytes(bytes), m_owner(&owner) {}
    ~Place() { clear(); }
    Place(Place&& other) noexcept : m_bytes(std::exchange(other.m_bytes, {})), m_owner(std::exchange(other.m_owner, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
        std::swap(m_bytes, other.m_bytes);
        std::swap(m_owner, other.m_owner);
        return *this;
    }

    std::byte* data() const { return m_bytes.data(); }
    size_t size() const { return m_bytes.size(); }
    MutableBytesView bytes() const { return m_bytes; }
    bool is_lent() const { return m_owner != nullptr; }

    /// Its owner will not have it back: nobody can tell when it is no longer used.
    void forget() { m_owner = nullptr; }
    void clear() {
        if (m_owner != nullptr) std::exchange(m_owner, nullptr)->give_back(m_bytes.data());
        m_bytes = {};
    }

private:
    MutableBytesView m_bytes;
    PlaceOwner* m_owner = nullptr;
};

}  // namespace warpline::protocol
