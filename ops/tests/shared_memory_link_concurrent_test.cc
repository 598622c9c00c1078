// SPDX-License-Identifier: Apache-2.0
// Messages through shared memory arrive whole and in order, and nobody waits for who is gone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "ops/exchange/shared_memory_link.h"
#include "ops/tests/check.h"
#include "ops/tests/rank_numbers.h"

namespace sok {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
using Links = std::vector<std::unique_ptr<SharedMemoryLink>>;

std::vector<SharedMemoryAddress> AddressesOf(const Links& links) {
  std::vector<SharedMemoryAddress> addresses;
  for (const auto& link : links) addresses.push_back(link->address());
  return addresses;
}

Links MakeLinks(int num_ranks) {
  Links links;
  for (int rank = 0; rank < num_ranks; ++rank) {
    links.push_back(
        std::make_unique<SharedMemoryLink>(rank, testing::RankNumbers(num_ranks), kMostBytes));
  }
  for (const auto& link : links) link->Connect(AddressesOf(links));
  return links;
}

/// Bytes that every rank can tell: what `source` sends `destination` in a round.
std::vector<char> MessageOf(int round, int source, int destination) {
  std::mt19937 random(static_cast<unsigned>(10'000 * round + 100 * source + destination));
  const size_t most = round % 10 == 0 ? 200'000 : 300;  // now and then of many pages
  std::vector<char> message(random() % most);
  std::generate(message.begin(), message.end(), [&] { return static_cast<char>(random()); });
  return message;
}

std::string_view View(const std::vector<char>& bytes) { return {bytes.data(), bytes.size()}; }

/// Rounds of one rank; whether all came as it was sent.
void RunRounds(SharedMemoryLink& link, int rank, int num_ranks, int num_rounds) {
  for (int round = 0; round < num_rounds; ++round) {
    std::vector<std::vector<char>> sent;
    std::vector<Pieces> pieces;
    std::vector<std::vector<char>> expected;
    for (int other = 0; other < num_ranks; ++other) {
      sent.push_back(MessageOf(round, rank, other));
      const std::string_view message = View(sent.back());
      const size_t cut = other == rank ? message.size() : message.size() / 3;
      pieces.push_back({message.substr(0, cut), message.substr(cut)});
      expected.push_back(MessageOf(round, other, rank));
    }
    link.Send(pieces);
    const std::vector<std::string_view> received = *link.Receive();
    CHECK_EQ(received.size(), expected.size());
    for (size_t i = 0; i < received.size(); ++i) CHECK_TRUE(received[i] == View(expected[i]));
  }
}

SOK_TEST(MessagesArriveWholeAndInOrder) {
  for (const int num_ranks : {1, 2, 4}) {
    const Links links = MakeLinks(num_ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([&, rank] { RunRounds(*links[rank], rank, num_ranks, 300); });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

SOK_TEST(MessagesTravelBetweenProcesses) {
  int to_parent[2];
  int to_child[2];
  CHECK_TRUE(pipe(to_parent) == 0 && pipe(to_child) == 0);
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  SharedMemoryLink link(rank, testing::RankNumbers(2), kMostBytes);
  std::vector<SharedMemoryAddress> addresses(2);
  addresses[static_cast<size_t>(rank)] = link.address();
  SharedMemoryAddress& other = addresses[static_cast<size_t>(1 - rank)];
  const int writes = rank == 0 ? to_child[1] : to_parent[1];
  const int reads = rank == 0 ? to_parent[0] : to_child[0];
  const SharedMemoryAddress own = link.address();
  CHECK_TRUE(write(writes, &own, sizeof(own)) == sizeof(own));
  CHECK_TRUE(read(reads, &other, sizeof(other)) == sizeof(other));
  link.Connect(addresses);
  RunRounds(link, rank, 2, 100);
  if (child == 0) pause();  // until it is killed
  kill(child, SIGKILL);     // and nobody asks for its state: it stays a zombie
  CHECK_THROWS(ErrorCode::kAborted, {"process of rank 1 has ended"}, RunRounds(link, rank, 2, 1));
  waitpid(child, nullptr, 0);
}

SOK_TEST(WhoClosesItsLinkIsNotWaitedFor) {
  const Links links = MakeLinks(3);
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      CHECK_THROWS(ErrorCode::kAborted, {"has ended its exchanges"},
                   RunRounds(*links[rank], rank, 3, 1));
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  links[2]->Close();
  for (std::thread& thread : threads) thread.join();
  links[0]->Close();  // its own rounds end as well
  CHECK_THROWS(ErrorCode::kAborted, {"ended its exchanges"}, RunRounds(*links[0], 0, 3, 1));
}

std::vector<SharedMemoryAddress> AddressesWith(const SharedMemoryLink& link,
                                               const SharedMemoryAddress& other) {
  return {link.address(), other};
}

SOK_TEST(MemoryOfSomethingElseIsRefused) {
  SharedMemoryLink link(0, testing::RankNumbers(2), kMostBytes);
  const SharedMemoryLink larger(1, testing::RankNumbers(2), 2 * kMostBytes);
  SharedMemoryAddress wrong =
      SharedMemoryLink(1, testing::RankNumbers(2), kMostBytes).address();  // closed by now
  CHECK_THROWS(ErrorCode::kIo, {"memory of rank 1"}, link.Connect(AddressesWith(link, wrong)));
  CHECK_THROWS(ErrorCode::kIo, {"memory of rank 1"},
               link.Connect(AddressesWith(link, larger.address())));
  const SharedMemoryLink other(1, testing::RankNumbers(2), kMostBytes);
  wrong = other.address();
  ++wrong.token;
  CHECK_THROWS(ErrorCode::kIo, {"memory of rank 1"}, link.Connect(AddressesWith(link, wrong)));
}

SOK_TEST(AMessageMayNotBeLargerThanItsPlace) {
  const Links links = MakeLinks(2);
  const std::vector<char> data(kMostBytes);
  const Pieces too_many{{data.data(), 1000}, {data.data(), kMostBytes - 1000}};
  CHECK_THROWS(ErrorCode::kInvalidArgument, {"more than the 524288"},
               links[0]->Send({{}, too_many}));
}

SOK_TEST(WhatDoesNotComeInTimeComesLater) {
  const Links links = MakeLinks(2);
  links[0]->Send({{}, {"to 1"}});
  CHECK_TRUE(!links[0]->Receive(std::chrono::milliseconds(1)));
  links[1]->Send({{"to 0"}, {}});
  CHECK_TRUE(links[0]->Receive(std::chrono::seconds(10)).value()[1] == "to 0");
}

SOK_TEST(RanksOfAHostHaveTheirNumbersOfAll) {
  Links links;
  for (const int place : {0, 1}) {
    links.push_back(std::make_unique<SharedMemoryLink>(place, std::vector<int>{3, 7}, kMostBytes));
  }
  for (const auto& link : links) link->Connect(AddressesOf(links));
  links[1]->Close();
  links[0]->Send({{"own"}, {"other"}});
  CHECK_THROWS(ErrorCode::kAborted, {"rank 7 has ended"}, links[0]->Receive());
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
