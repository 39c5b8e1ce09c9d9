// What sessions share, without a supervisor: tickets, true and forged, and answers of a worker that lies (A2).
#include "server/objects/sharing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace warpline::server {
namespace {

constexpr uint64_t k_shared_block = 2 << 20;

Sharing::SessionId session_named(uint8_t number) {
    Sharing::SessionId id{};
    id.fill(number);
    return id;
}

std::shared_ptr<const net::Socket> file_with(char content) {
    auto file = std::make_shared<const net::Socket>(memfd_create("shared", MFD_CLOEXEC));
    EXPECT_EQ(pwrite(file->fd(), &content, 1, 0), 1);
    return file;
}

char content_of(const net::Socket& file) {
    char content = 0;
    EXPECT_EQ(pread(file.fd(), &content, 1, 0), 1);
    return content;
}

Bytes ticket_bytes(const ShareTicket& ticket) {
    const BytesView view = as_bytes(&ticket, sizeof ticket);
    return Bytes(view.begin(), view.end());
}

/// Two sessions of one tenant, and the supervisor's part played by a function.
class SharingTest : public testing::Test {
protected:
    Sharing::Share memory(uint64_t mapping, char content) {
        Sharing::Share share;
        share.kind = ShareKind::memory;
        share.file = file_with(content);
        share.mapping = mapping;
        share.answer.mapped_bytes = k_shared_block;
        share.answer.offset = 512;
        share.answer.size_bytes = 1024;
        return share;
    }
    ShareRefusal refusal(const ShareTicket& ticket) { return other.borrow(ticket_bytes(ticket), ShareKind::memory).refused; }

    Sharing::ServerId server{1, 2, 3};
    Sharing owner{server, session_named(1), {}};
    int asked = 0;
    Sharing other{server, session_named(2), [this](const ShareRequest& request, int fd) {
                      ++asked;
                      if (std::memcmp(request.session_id, session_named(1).data(), sizeof request.session_id) != 0)
                          return false;
                      owner.lend(request, net::Socket(fcntl(fd, F_DUPFD_CLOEXEC, 0)));
                      return true;
                  }};
};

TEST_F(SharingTest, AnotherSessionGetsTheFileAndWhereTheMemoryIs) {
    const auto ticket = owner.add(memory(k_shared_block, 'a'));
    ASSERT_TRUE(ticket);
    EXPECT_EQ(ticket->mapped_bytes, k_shared_block);
    const auto loan = other.borrow(ticket_bytes(*ticket), ShareKind::memory);
    ASSERT_EQ(loan.refused, ShareRefusal::none);
    EXPECT_EQ(content_of(loan.file), 'a');
    EXPECT_EQ(loan.answer.offset, 512u);
    EXPECT_EQ(loan.answer.size_bytes, 1024u);
}

TEST_F(SharingTest, AnAllocationHasOneTicketAndAMappingOneFile) {
    const Sharing::Share share = memory(k_shared_block, 'a');
    const auto ticket = owner.add(share);
    EXPECT_EQ(owner.find(share), ticket);
    EXPECT_EQ(owner.file_of(k_shared_block), share.file);
    EXPECT_EQ(owner.file_of(2 * k_shared_block), nullptr);
    Sharing::Share beside = share;
    beside.answer.offset = 4096;
    EXPECT_FALSE(owner.find(beside));
}

TEST_F(SharingTest, WhatIsGivenUpIsNotToBeHad) {
    const auto first = owner.add(memory(k_shared_block, 'a')), second = owner.add(memory(2 * k_shared_block, 'b'));
    owner.forget_mappings(k_shared_block, k_shared_block);
    EXPECT_EQ(refusal(*first), ShareRefusal::not_there);
    EXPECT_EQ(refusal(*second), ShareRefusal::none);
    owner.forget(*second);
    EXPECT_EQ(refusal(*second), ShareRefusal::not_there);
    EXPECT_EQ(owner.file_of(2 * k_shared_block), nullptr);
}

TEST_F(SharingTest, WhoHasItKeepsIt) {
    const auto ticket = owner.add(memory(k_shared_block, 'a'));
    const auto loan = other.borrow(ticket_bytes(*ticket), ShareKind::memory);
    owner.forget(*ticket);
    EXPECT_EQ(content_of(loan.file), 'a');
}

TEST_F(SharingTest, ForgedTicketsAreRefused) {
    const auto ticket = owner.add(memory(k_shared_block, 'a'));
    for (size_t byte = 0; byte < sizeof *ticket; ++byte) {
        const bool is_size = byte >= offsetof(ShareTicket, mapped_bytes) && byte < offsetof(ShareTicket, unused);
        for (int bit = 0; bit < 8; ++bit) {
            Bytes forged = ticket_bytes(*ticket);
            forged[byte] ^= static_cast<std::byte>(1 << bit);
            const auto loan = other.borrow(forged, ShareKind::memory);
            // What it says of the size is for the client; what is believed is the answer.
            EXPECT_EQ(loan.refused == ShareRefusal::none, is_size) << byte << '.' << bit;
            EXPECT_EQ(loan.answer.mapped_bytes, is_size ? k_shared_block : 0);
            EXPECT_EQ(loan.file.valid(), is_size);
        }
    }
}

TEST_F(SharingTest, TicketsOfOtherKindsServersAndLengthsAreRefused) {
    const auto ticket = owner.add(memory(k_shared_block, 'a'));
    EXPECT_EQ(other.borrow(ticket_bytes(*ticket), ShareKind::allocation).refused, ShareRefusal::other_kind);
    ShareTicket changed = *ticket;
    changed.kind = ShareKind::allocation;
    EXPECT_EQ(other.borrow(ticket_bytes(changed), ShareKind::allocation).refused, ShareRefusal::not_there);
    asked = 0;
    Sharing elsewhere{{9}, session_named(1), {}};
    EXPECT_EQ(refusal(*elsewhere.add(memory(k_shared_block, 'a'))), ShareRefusal::other_server);
    Bytes longer = ticket_bytes(*ticket);
    longer.push_back(std::byte{0});
    for (const Bytes& bytes : {longer, Bytes(longer.begin(), longer.begin() + 63), Bytes{}, Bytes(64)})
        EXPECT_EQ(other.borrow(bytes, ShareKind::memory).refused, ShareRefusal::other_kind);
    EXPECT_EQ(asked, 0) << "nobody is asked about what is no ticket of this server";
}

TEST_F(SharingTest, TheSessionsOwn) {
    EXPECT_EQ(owner.borrow(ticket_bytes(*owner.add(memory(k_shared_block, 'a'))), ShareKind::memory).refused,
              ShareRefusal::own);
    Sharing::Share allocation = memory(0, 'c');
    allocation.kind = ShareKind::allocation;
    const auto ticket = owner.add(allocation);
    const auto loan = owner.borrow(ticket_bytes(*ticket), ShareKind::allocation);
    ASSERT_EQ(loan.refused, ShareRefusal::none);
    EXPECT_EQ(content_of(loan.file), 'c');
}

TEST_F(SharingTest, ASessionSharesSoMuchAndNoMore) {
    Sharing::Share pool;
    pool.kind = ShareKind::pool;
    for (size_t i = 0; i < Sharing::k_max_shares; ++i) ASSERT_TRUE(owner.add(pool));
    EXPECT_FALSE(owner.add(pool));
}

TEST_F(SharingTest, AWorkerThatDoesNotAnswerOrLies) {
    ShareTicket ticket;
    ticket.kind = ShareKind::memory;
    ticket.server = server;
    ticket.session = session_named(3);  // nobody passes that on
    EXPECT_EQ(refusal(ticket), ShareRefusal::no_answer);
    const auto answered = [&](auto answer) {
        Sharing asker{server, session_named(2), [&](const ShareRequest&, int fd) { return answer(fd), true; }};
        return asker.borrow(ticket_bytes(ticket), ShareKind::memory).refused;
    };
    EXPECT_EQ(answered([](int) {}), ShareRefusal::no_answer);  // its end was closed
    EXPECT_EQ(answered([](int fd) { EXPECT_EQ(send(fd, "short", 5, 0), 5); }), ShareRefusal::no_answer);
    EXPECT_EQ(answered([](int fd) { send_share_refusal(fd, ShareRefusal::not_there); }), ShareRefusal::not_there);
    const std::string much(sizeof(ShareAnswer) + 1, 'x');
    EXPECT_NE(answered([&](int fd) { EXPECT_EQ(send(fd, much.data(), much.size(), 0), static_cast<ssize_t>(much.size())); }),
              ShareRefusal::none);
}

}  // namespace
}  // namespace warpline::server
