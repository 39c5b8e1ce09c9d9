// What the generated tests of messages are made of.
#pragma once

#include <capnp/any.h>
#include <capnp/message.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

/// What the generated files of the message tests consist of: for each message of the API description, a function that fills it
/// and one that compares it.
namespace warpline::tests {

/// Values for the fields of a message, made from a seed. Field `changed` (-1: none) gets another value than without it.
class Values {
public:
    Values(uint64_t seed, int changed) : m_seed(seed), m_changed(changed) {}

    template <typename T>
    T scalar(int field) const {
        uint64_t raw = hash(field);
        if constexpr (std::is_same_v<T, bool>) {
            return ((raw & 1) != 0) != (field == m_changed);
        } else if constexpr (std::is_floating_point_v<T>) {
            return static_cast<T>(raw & 0xffff) + static_cast<T>(0.5) + (field == m_changed ? 1 : 0);
        } else {
            return static_cast<T>(field == m_changed ? ~raw : raw);
        }
    }

    /// Between 0 and 40 bytes, none of them zero.
    std::string text(int field) const {
        std::string made = bytes(field);
        for (char& c : made) c = static_cast<char>('a' + static_cast<unsigned char>(c) % 26);
        return made;
    }

    std::string bytes(int field) const {
        std::string made(hash(field) % 40, '\0');
        for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(hash(field) >> (i % 8 * 8)) + static_cast<char>(i);
        if (field == m_changed) made += 'x';
        return made;
    }

    std::vector<uint64_t> list(int field) const {
        std::vector<uint64_t> made;
        for (size_t i = 0; i < hash(field) % 6 + (field == m_changed ? 1 : 0); ++i) made.push_back(hash(field) + i);
        return made;
    }

    /// Sets a list that `init(size)` makes.
    template <typename Init>
    void fill(int field, Init&& init) const {
        std::vector<uint64_t> made = list(field);
        auto target = init(static_cast<unsigned>(made.size()));
        for (unsigned i = 0; i < made.size(); ++i) target.set(i, made[i]);
    }

    template <typename List>
    bool equal(int field, const List& read) const {
        std::vector<uint64_t> wanted = list(field);
        bool same = wanted.size() == read.size();
        // Every element is read even if the sizes differ: a corrupted message must survive that, too.
        for (unsigned i = 0; i < read.size(); ++i) same &= i < wanted.size() && wanted[i] == read[i];
        return same;
    }

    bool equal_bytes(int field, capnp::Data::Reader read) const {
        std::string wanted = bytes(field);
        bool same = wanted.size() == read.size();
        for (size_t i = 0; i < read.size(); ++i) same &= i < wanted.size() && static_cast<capnp::byte>(wanted[i]) == read[i];
        return same;
    }

private:
    /// SplitMix64 of seed and field.
    uint64_t hash(int field) const {
        uint64_t x = m_seed + static_cast<uint64_t>(field + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
    }

    uint64_t m_seed;
    int m_changed;
};

inline capnp::Data::Reader as_data(const std::string& bytes) {
    // The builder copies before the temporary goes: both live until the end of the full expression.
    return {reinterpret_cast<const capnp::byte*>(bytes.data()), bytes.size()};
}

struct MessageCase {
    const char* name;
    int fields;
    void (*fill)(capnp::AnyPointer::Builder root, const Values& values);
    /// The number of a field that has not the given value, or -1. Reads every field in any case.
    int (*difference)(capnp::AnyPointer::Reader root, const Values& values);
};

/// Every message of the API description.
const std::vector<MessageCase>& all_messages();

}  // namespace warpline::tests
