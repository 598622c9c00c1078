// SPDX-License-Identifier: Apache-2.0
// Several coordinators in one process.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/tests/check.h"
#include "ops/tests/exchange/transports.h"

namespace sok::testing {

using Words = std::vector<std::string>;

/// Coordinators of several ranks. They leave together at the end, unless closed before.
class Ranks {
 public:
  explicit Ranks(int num_ranks, double stall_seconds = 60.0,
                 TransportKind kind = TransportKind::kSharedMemory)
      : transports_(kind, num_ranks) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      CoordinatorOptions options;
      options.rank = rank;
      options.num_ranks = num_ranks;
      options.stall_seconds = stall_seconds;
      coordinators_.push_back(std::make_unique<Coordinator>(options, transports_.Take(rank)));
    }
    transports_.Drive();
  }

  ~Ranks() {
    for (const auto& coordinator : coordinators_) coordinator->Leave();
    transports_.Stop();
  }

  int size() const { return static_cast<int>(coordinators_.size()); }
  Coordinator& operator[](int rank) { return *coordinators_[static_cast<size_t>(rank)]; }

 private:
  Transports transports_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
};

/// Keeps what a rank sends until the test delivers it.
class Mail : public Transport {
 public:
  void Start(Receiver* receiver) override { receiver_ = receiver; }
  void Send(int /*destination*/, Pieces message, std::shared_ptr<const void>) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string joined;
    for (const std::string_view piece : message) joined += piece;
    sent_.push_back(std::move(joined));
  }
  void Close() override {}
  double SilentSeconds() const override { return 0.0; }
  std::string failure() const override { return ""; }

  Receiver& receiver() { return *receiver_; }
  std::vector<std::string> Collect() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(sent_, {});
  }

 private:
  Receiver* receiver_ = nullptr;
  std::mutex mutex_;
  std::vector<std::string> sent_;
};

/// Two coordinators whose messages the test delivers.
class Pair {
 public:
  Pair() {
    for (int rank = 0; rank < 2; ++rank) {
      CoordinatorOptions options;
      options.rank = rank;
      options.num_ranks = 2;
      mail_[rank] = new Mail;
      coordinators_[rank] =
          std::make_unique<Coordinator>(options, std::unique_ptr<Mail>(mail_[rank]));
    }
  }

  Coordinator& operator[](int rank) { return *coordinators_[rank]; }

  /// Delivers a rank's messages to the other one; is_cut: the transport had no memory for them.
  void DeliverFrom(int rank, const std::function<void()>& before = [] {}, bool is_cut = false) {
    const std::vector<std::string> messages = mail_[rank]->Collect();
    before();
    for (const std::string& message : messages)
      mail_[1 - rank]->receiver().Receive(rank, message, is_cut);
  }

  /// Waits until no message, of a failure for instance, has come for a moment.
  void DeliverAll() {
    for (int i = 0; i < 20; ++i) {
      for (int rank = 0; rank < 2; ++rank) DeliverFrom(rank);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  Mail* mail_[2];
  std::unique_ptr<Coordinator> coordinators_[2];
};

/// Data of `rank` for `to` in a request: distinct lengths and contents.
inline std::string Content(int rank, int to, int64_t step, const std::string& name) {
  const std::string text =
      std::to_string(rank) + ">" + std::to_string(to) + ":" + std::to_string(step) + name;
  return text + std::string(static_cast<size_t>((rank * 7 + to * 3 + step) % 11), '.');
}

/// Each rank has its own step ids.
inline int64_t StepIdOf(int rank, int64_t step) { return 1000 * (rank + 1) + step * 3; }

/// A request without its collective.
inline ExchangeRequest Request(int rank, int num_ranks, int64_t step, const std::string& name,
                               const std::string& exchange = "keys") {
  ExchangeRequest request;
  request.exchange = exchange;
  request.step_id = StepIdOf(rank, step);
  std::vector<std::string> contents;
  for (int to = 0; to < num_ranks; ++to) contents.push_back(Content(rank, to, step, name));
  request.outgoing = TextsByRank(std::move(contents));
  return request;
}

/// A lookup of a session's step.
inline Collective Begin(Coordinator& coordinator, int rank, int64_t step,
                        const LookupName& lookup) {
  return coordinator.Begin({lookup, StepIdOf(rank, step)});
}
inline Collective Begin(Coordinator& coordinator, int rank, int64_t step,
                        const std::string& lookup) {
  return Begin(coordinator, rank, step, LookupName{lookup});
}

/// A lookup of eager code.
inline Collective BeginEagerly(Coordinator& coordinator, const std::string& lookup) {
  return coordinator.Begin({{lookup}, std::nullopt, true});
}

/// A lookup of a function that eager code calls.
inline Collective BeginInCall(Coordinator& coordinator, int64_t call_id,
                              const std::string& lookup) {
  return coordinator.Begin({{lookup}, call_id, true});
}

/// A copy of an ExchangeResult's contents.
struct Outcome {
  std::string error;
  ErrorCode code;
  std::string data;  // by source rank
};

/// Submits and returns the result; several threads may wait for several.
inline std::future<Outcome> Submit(Coordinator& coordinator, const Collective& collective,
                                   ExchangeRequest request) {
  request.collective = collective;
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
                                        int64_t step, const LookupName& lookup) {
  return Submit(coordinator, Begin(coordinator, rank, step, lookup),
                Request(rank, num_ranks, step, lookup.name));
}
inline std::future<Outcome> SubmitFirst(Coordinator& coordinator, int rank, int num_ranks,
                                        int64_t step, const std::string& lookup) {
  return SubmitFirst(coordinator, rank, num_ranks, step, LookupName{lookup});
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

/// One layer's part of a step: keys, then rows, which depend on the keys.
inline void RunLayer(Ranks& ranks, int rank, int64_t step, const std::string& name) {
  const Collective collective = Begin(ranks[rank], rank, step, name);
  for (const std::string kind : {"keys", "rows"}) {
    auto result =
        Submit(ranks[rank], collective, Request(rank, ranks.size(), step, name + "/" + kind, kind));
    CheckReceived(result.get(), rank, ranks.size(), step, name + "/" + kind);
  }
  ranks[rank].End(collective);
}

/// Every rank runs the layers of each step on its own threads, in its own order.
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
