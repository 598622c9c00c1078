// SPDX-License-Identifier: Apache-2.0
// Rounds through shared memory that the threads of a step drive themselves, as far as they can.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/exchange/shared_memory_rounds.h"
#include "ops/tests/check.h"
#include "ops/tests/coordinator_fixture.h"
#include "ops/tests/rank_numbers.h"

namespace sok::testing {
namespace {

constexpr int64_t kMostBytes = 1 << 16;

/// A rank with the thread of its rounds.
class Rank {
 public:
  Rank(int rank, int num_ranks, double stall_seconds)
      : link_(std::make_shared<SharedMemoryLink>(rank, RankNumbers(num_ranks), kMostBytes)) {
    CoordinatorOptions options;
    options.rank = rank;
    options.num_ranks = num_ranks;
    options.stall_seconds = stall_seconds;
    options.heartbeat_seconds = 0.05;
    options.grouping_seconds = 0.002;
    options.most_bytes = kMostBytes;
    coordinator_ = std::make_shared<Coordinator>(options);
    rounds_ = std::make_shared<SharedMemoryRounds>(coordinator_, link_);
  }

  void Start() {
    driver_ = std::thread([this] {
      try {
        rounds_->Run();
      } catch (const Error& error) {
        coordinator_->Abort(error.what());
      }
    });
  }
  void Join() { driver_.join(); }

  SharedMemoryLink& link() { return *link_; }
  Coordinator& coordinator() { return *coordinator_; }

  /// As an op does it.
  std::future<Outcome> Ask(int rank, int num_ranks, int64_t step, const std::string& lookup) {
    const Ticket ticket = Begin(*coordinator_, rank, step, lookup);
    ExchangeRequest request = Request(rank, num_ranks, step, lookup);
    request.ticket = ticket;
    auto promise = std::make_shared<std::promise<Outcome>>();
    request.done = [promise](const ExchangeResult& result) {
      std::string data;
      for (const std::string_view part : result.parts) data += part;
      promise->set_value({result.error, result.code, data});
    };
    if (coordinator_->SubmitQuietly(std::move(request))) rounds_->RunOneHere();
    return promise->get_future();
  }

 private:
  std::shared_ptr<SharedMemoryLink> link_;
  std::shared_ptr<Coordinator> coordinator_;
  std::shared_ptr<SharedMemoryRounds> rounds_;
  std::thread driver_;
};

using AllRanks = std::vector<std::unique_ptr<Rank>>;

AllRanks MakeRanks(int num_ranks, double stall_seconds = 60.0) {
  AllRanks ranks;
  std::vector<SharedMemoryAddress> addresses;
  for (int rank = 0; rank < num_ranks; ++rank) {
    ranks.push_back(std::make_unique<Rank>(rank, num_ranks, stall_seconds));
    addresses.push_back(ranks.back()->link().address());
  }
  for (const auto& rank : ranks) rank->link().Connect(addresses);
  for (const auto& rank : ranks) rank->Start();
  return ranks;
}

void LeaveAll(const AllRanks& ranks) {
  for (const auto& rank : ranks) rank->coordinator().Leave();
  for (const auto& rank : ranks) rank->Join();
}

std::string LookupName(int number) { return "layer " + std::to_string(number); }

/// Steps of several lookups, which each rank asks for in an order of its own.
SOK_TEST(AnyOrderOfLookups) {
  constexpr int kLookups = 3;
  constexpr int kSteps = 40;
  for (const int num_ranks : {2, 4}) {
    const AllRanks ranks = MakeRanks(num_ranks);
    std::vector<std::thread> scripts;
    for (int rank = 0; rank < num_ranks; ++rank) {
      scripts.emplace_back([&, rank] {
        for (int64_t step = 0; step < kSteps; ++step) {
          std::vector<std::future<Outcome>> results(kLookups);
          for (int i = 0; i < kLookups; ++i) {
            const int lookup = static_cast<int>((rank + step + i) % kLookups);
            results[static_cast<size_t>(lookup)] =
                ranks[static_cast<size_t>(rank)]->Ask(rank, num_ranks, step, LookupName(lookup));
          }
          for (int i = 0; i < kLookups; ++i) {
            CheckReceived(results[static_cast<size_t>(i)].get(), rank, num_ranks, step,
                          LookupName(i));
          }
        }
      });
    }
    for (std::thread& script : scripts) script.join();
    LeaveAll(ranks);
  }
}

/// Lookups of one step from several threads at once: one of them drives, or none.
SOK_TEST(ManyThreadsOfARank) {
  constexpr int kThreads = 3;
  const AllRanks ranks = MakeRanks(2);
  std::vector<std::thread> scripts;
  for (int rank = 0; rank < 2; ++rank) {
    for (int thread = 0; thread < kThreads; ++thread) {
      scripts.emplace_back([&, rank, thread] {
        for (int64_t step = 0; step < 30; ++step) {
          const std::string name = LookupName(thread);
          CheckReceived(
              ranks[static_cast<size_t>(rank)]->Ask(rank, 2, kThreads * step + thread, name).get(),
              rank, 2, kThreads * step + thread, name);
        }
      });
    }
  }
  for (std::thread& script : scripts) script.join();
  LeaveAll(ranks);
}

/// Who asks goes on meanwhile, and the thread of the rounds waits for the other rank.
SOK_TEST(ALateRankHoldsNobodyUp) {
  const AllRanks ranks = MakeRanks(2);
  for (int64_t step = 0; step < 6; ++step) {
    auto first = ranks[0]->Ask(0, 2, step, "layer");
    std::this_thread::sleep_for(std::chrono::milliseconds(step % 2 == 0 ? 5 : 0));
    auto second = ranks[1]->Ask(1, 2, step, "layer");
    CheckReceived(first.get(), 0, 2, step, "layer");
    CheckReceived(second.get(), 1, 2, step, "layer");
  }
  LeaveAll(ranks);
}

/// Whichever thread sees it.
SOK_TEST(AClosedLinkEndsTheRoundsOfAll) {
  const AllRanks ranks = MakeRanks(2);
  auto before = ranks[0]->Ask(0, 2, 0, "layer");
  CheckReceived(ranks[1]->Ask(1, 2, 0, "layer").get(), 1, 2, 0, "layer");
  CHECK_EQ(before.get().error, "");
  ranks[1]->link().Close();
  CheckFailed(ranks[0]->Ask(0, 2, 1, "layer").get(), Words{"has ended its exchanges"});
  ranks[1]->Ask(1, 2, 1, "layer").get();  // what rank 0 has sent for it may be there
  CheckFailed(ranks[1]->Ask(1, 2, 2, "layer").get(), Words{"has ended its exchanges"});
  for (const auto& rank : ranks) rank->Join();
}

SOK_TEST(ARankThatLeaves) {
  const AllRanks ranks = MakeRanks(2);
  ranks[1]->coordinator().Leave();
  CheckFailed(ranks[0]->Ask(0, 2, 0, "layer").get(), Words{"rank 1 has left"});
  for (const auto& rank : ranks) rank->Join();
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
