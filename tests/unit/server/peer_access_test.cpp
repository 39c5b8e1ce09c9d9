// Who may use whose memory, and until when.
#include <gtest/gtest.h>

#include "server/objects/peer_access.h"

namespace warpline::server {
namespace {

using Leave = PeerAccess::Leave;
using Ending = PeerAccess::Ending;

constexpr uint64_t k_owner = 10, k_peer = 20, k_other_peer = 21;

TEST(PeerAccess, A6_DevicesAreOpenAsLongAsOneOfTheirContextsHasAccess) {
    PeerAccess access;
    const Leave first{0, 1, k_owner, k_peer}, second{0, 1, k_owner, k_other_peer};
    EXPECT_TRUE(access.let(first));
    EXPECT_FALSE(access.let(first));
    EXPECT_TRUE(access.let(second));
    EXPECT_TRUE(access.is_open(0, 1));
    EXPECT_FALSE(access.is_open(1, 0));  // one way
    EXPECT_TRUE(access.end(first));
    EXPECT_FALSE(access.end(first));
    EXPECT_TRUE(access.is_open(0, 1));
    EXPECT_TRUE(access.end(second));
    EXPECT_FALSE(access.is_open(0, 1));
}

TEST(PeerAccess, A6_AccessEndsWithItsContexts) {
    PeerAccess access;
    const Leave leave{0, 1, k_owner, k_peer}, other{0, 2, k_owner, 30};
    access.let(leave);
    access.let(other);
    EXPECT_EQ(access.ended_by(k_peer, Ending::reset), std::vector{leave});
    EXPECT_EQ(access.ended_by(k_peer, Ending::destroyed), std::vector{leave});
    EXPECT_EQ(access.ended_by(k_owner, Ending::destroyed), (std::vector{leave, other}));
    EXPECT_TRUE(access.ended_by(k_owner, Ending::reset).empty());  // its handle stays
    EXPECT_TRUE(access.ended_by(99, Ending::destroyed).empty());
}

TEST(PeerAccess, A6_PoolsKeepDevicesOpen) {
    PeerAccess access;
    const Leave leave{0, 1, k_owner, k_peer};
    access.let(leave);
    access.share_pool(0, 1, 5, true);
    access.share_pool(0, 2, 5, true);
    access.share_pool(0, 2, 6, true);
    EXPECT_EQ(access.peers_of(0), (std::vector<CUdevice>{1, 2}));
    access.end(leave);
    access.share_pool(0, 2, 5, false);
    EXPECT_EQ(access.peers_of(0), (std::vector<CUdevice>{1, 2}));
    access.share_pool(0, 1, 5, false);
    access.share_pool(0, 2, 6, false);
    EXPECT_TRUE(access.peers_of(0).empty());
}

TEST(PeerAccess, A6_ADeviceIsNoPeerOfItself) {
    PeerAccess access;
    access.let({0, 0, k_owner, 11});
    EXPECT_TRUE(access.peers_of(0).empty());
}

}  // namespace
}  // namespace warpline::server
