// SPDX-License-Identifier: Apache-2.0
// Several coordinators in one process, and an all-to-all between the threads that drive them.
#ifndef SOK_OPS_TESTS_COORDINATOR_FIXTURE_H_
#define SOK_OPS_TESTS_COORDINATOR_FIXTURE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/exchange/coordinator.h"
#include "ops/tests/check.h"

namespace sok::testing {

using Words = std::vector<std::string>;

/// What MPI_Alltoallv does, for threads. Blocks until all ranks have come.
class AllToAll {
 public:
  explicit AllToAll(int num_ranks) : sent_(static_cast<size_t>(num_ranks)) {}

  Proposal Exchange(int rank, Proposal mine) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return num_taken_ == 0; });
    sent_[static_cast<size_t>(rank)] = std::move(mine);
    ++num_sent_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return num_sent_ == sent_.size(); });
    Proposal received;
    for (const Proposal& theirs : sent_) {
      int64_t begin = 0;
      for (int before = 0; before < rank; ++before)
        begin += theirs.send_bytes[static_cast<size_t>(before)];
      const int64_t size_bytes = theirs.send_bytes[static_cast<size_t>(rank)];
      received.data.insert(received.data.end(), theirs.data.begin() + begin,
                           theirs.data.begin() + begin + size_bytes);
      received.send_bytes.push_back(size_bytes);
    }
    if (++num_taken_ == sent_.size()) num_sent_ = num_taken_ = 0;
    changed_.notify_all();
    changed_.wait(lock, [&] { return num_taken_ == 0; });
    return received;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Proposal> sent_;
  size_t num_sent_ = 0;
  size_t num_taken_ = 0;
};

/// Coordinators with their driving threads. They leave together at the end, unless closed before.
class Ranks {
 public:
  explicit Ranks(int num_ranks, double stall_seconds = 60.0, double grouping_seconds = 0.002)
      : all_to_all_(num_ranks) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      CoordinatorOptions options;
      options.rank = rank;
      options.num_ranks = num_ranks;
      options.stall_seconds = stall_seconds;
      options.heartbeat_seconds = 0.02;
      options.grouping_seconds = grouping_seconds;
      coordinators_.push_back(std::make_unique<Coordinator>(options));
    }
    for (int rank = 0; rank < num_ranks; ++rank)
      drivers_.emplace_back([this, rank] { Drive(rank); });
  }

  ~Ranks() {
    for (const auto& coordinator : coordinators_) coordinator->Leave();
    for (std::thread& driver : drivers_) driver.join();
  }

  int size() const { return static_cast<int>(coordinators_.size()); }
  Coordinator& operator[](int rank) { return *coordinators_[static_cast<size_t>(rank)]; }

 private:
  void Drive(int rank) {
    Coordinator& coordinator = (*this)[rank];
    while (!coordinator.is_closed()) {
      const Proposal received = all_to_all_.Exchange(rank, coordinator.Propose());
      coordinator.Complete({SplitBySource(received.data.data(), received.send_bytes)});
    }
  }

  AllToAll all_to_all_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::vector<std::thread> drivers_;
};

/// Two coordinators whose rounds the test makes itself.
class Pair {
 public:
  explicit Pair(int64_t most_bytes = CoordinatorOptions().most_bytes) {
    for (int rank = 0; rank < 2; ++rank) {
      CoordinatorOptions options;
      options.rank = rank;
      options.num_ranks = 2;
      options.heartbeat_seconds = options.grouping_seconds = 0.0;
      options.most_bytes = most_bytes;
      coordinators_[rank] = std::make_unique<Coordinator>(options);
    }
  }

  Coordinator& operator[](int rank) { return *coordinators_[rank]; }

  void Propose(int rank) { sent_[rank] = coordinators_[rank]->Propose(); }

  /// Calls before() when all has been received.
  void Complete(int rank, const std::function<void()>& before = [] {}) {
    std::string received;
    std::vector<int64_t> sizes;
    for (const Proposal& theirs : sent_) {
      const int64_t begin = rank == 0 ? 0 : theirs.send_bytes[0];
      sizes.push_back(theirs.send_bytes[static_cast<size_t>(rank)]);
      received.append(theirs.data.data() + begin, static_cast<size_t>(sizes.back()));
    }
    before();
    coordinators_[rank]->Complete({SplitBySource(received.data(), sizes)});
  }

  void Round() {
    for (int rank = 0; rank < 2; ++rank) Propose(rank);
    for (int rank = 0; rank < 2; ++rank) Complete(rank);
  }

 private:
  std::unique_ptr<Coordinator> coordinators_[2];
  Proposal sent_[2];
};

/// What `rank` sends to `to` for a request: a length and a content that tell all of these apart.
inline std::string Content(int rank, int to, int64_t step, const std::string& name) {
  const std::string text =
      std::to_string(rank) + ">" + std::to_string(to) + ":" + std::to_string(step) + name;
  return text + std::string(static_cast<size_t>((rank * 7 + to * 3 + step) % 11), '.');
}

/// Each rank has its own step ids.
inline int64_t StepIdOf(int rank, int64_t step) { return 1000 * (rank + 1) + step * 3; }

/// A request without its ticket.
inline ExchangeRequest Request(int rank, int num_ranks, int64_t step, const std::string& name,
                               const std::string& kind = "keys") {
  ExchangeRequest request;
  request.kind = request.exchange = kind;
  request.step_id = StepIdOf(rank, step);
  for (int to = 0; to < num_ranks; ++to) {
    const std::string content = Content(rank, to, step, name);
    request.data.insert(request.data.end(), content.begin(), content.end());
    request.send_bytes.push_back(static_cast<int64_t>(content.size()));
  }
  return request;
}

/// A lookup of a session's step.
inline Ticket Begin(Coordinator& coordinator, int rank, int64_t step, const std::string& lookup) {
  return coordinator.Begin({lookup, StepIdOf(rank, step), false});
}

/// A lookup of eager code.
inline Ticket BeginEagerly(Coordinator& coordinator, const std::string& lookup) {
  return coordinator.Begin({lookup, std::nullopt, true});
}

/// A lookup of a function that eager code calls.
inline Ticket BeginInCall(Coordinator& coordinator, int64_t call_id, const std::string& lookup) {
  return coordinator.Begin({lookup, call_id, true});
}

/// What is left of an ExchangeResult.
struct Outcome {
  std::string error;
  ErrorCode code;
  std::string data;  // by source rank
};

/// Submits and gives the result; several threads may wait for several.
inline std::future<Outcome> Submit(Coordinator& coordinator, const Ticket& ticket,
                                   ExchangeRequest request) {
  request.ticket = ticket;
  auto promise = std::make_shared<std::promise<Outcome>>();
  std::future<Outcome> future = promise->get_future();
  request.done = [promise](const ExchangeResult& result) {
    std::string data;
    for (const std::string_view part : result.parts) data += part;
    promise->set_value({result.error, result.code, data});
  };
  coordinator.Submit(std::move(request));
  return future;
}

/// The same for a lookup that begins with it.
inline std::future<Outcome> SubmitFirst(Coordinator& coordinator, int rank, int num_ranks,
                                        int64_t step, const std::string& lookup) {
  return Submit(coordinator, Begin(coordinator, rank, step, lookup),
                Request(rank, num_ranks, step, lookup));
}

inline void CheckReceived(const Outcome& result, int rank, int num_ranks, int64_t step,
                          const std::string& name) {
  CHECK_EQ(result.error, "");
  std::string expected;
  for (int from = 0; from < num_ranks; ++from) expected += Content(from, rank, step, name);
  CHECK_EQ(result.data, expected);
}

inline void CheckFailed(const Outcome& result, const Words& words) {
  for (const std::string& word : words) {
    if (result.error.find(word) == std::string::npos)
      Fail(__FILE__, __LINE__, "no '" + word + "' in: " + result.error);
  }
}

inline std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("layer_" + std::to_string(i));
  return names;
}

inline void Pause(std::mt19937* random, int most_microseconds) {
  const auto pause = (*random)() % static_cast<unsigned>(most_microseconds + 1);
  if (pause > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause));
}

/// One layer's part of a step: keys, then rows, which need the keys.
inline void RunLayer(Ranks& ranks, int rank, int64_t step, const std::string& name) {
  const Ticket ticket = Begin(ranks[rank], rank, step, name);
  for (const std::string kind : {"keys", "rows"}) {
    auto result =
        Submit(ranks[rank], ticket, Request(rank, ranks.size(), step, name + "/" + kind, kind));
    CheckReceived(result.get(), rank, ranks.size(), step, name + "/" + kind);
  }
  ranks[rank].End(ticket);
}

/// Every rank runs the layers of each step on threads of their own, in an order of its own.
inline void RunSteps(Ranks& ranks, int num_layers, int num_steps, int most_microseconds,
                     unsigned seed, int64_t first_step = 0) {
  std::vector<std::thread> scripts;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    scripts.emplace_back([&, rank] {
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      for (int64_t step = first_step; step < first_step + num_steps; ++step) {
        std::vector<std::string> names = Names(num_layers);
        std::shuffle(names.begin(), names.end(), random);
        std::vector<std::thread> layers;
        for (const std::string& name : names) {
          layers.emplace_back([&, name] { RunLayer(ranks, rank, step, name); });
          Pause(&random, most_microseconds);
        }
        for (std::thread& layer : layers) layer.join();
      }
    });
  }
  for (std::thread& script : scripts) script.join();
}

}  // namespace sok::testing

#endif  // SOK_OPS_TESTS_COORDINATOR_FIXTURE_H_
