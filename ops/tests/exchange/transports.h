// SPDX-License-Identifier: Apache-2.0
// The transports of several ranks in one process.
#ifndef SOK_OPS_TESTS_EXCHANGE_TRANSPORTS_H_
#define SOK_OPS_TESTS_EXCHANGE_TRANSPORTS_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ops/exchange/transport/all_to_all.h"
#include "ops/exchange/transport/by_host.h"
#include "ops/exchange/transport/shared_memory.h"

namespace sok::testing {

/// MPI_Alltoallv between threads. Blocks until all ranks have come; after a rank has stopped, no
/// rank waits for it, and nothing is delivered.
class ThreadsAllToAll {
 public:
  explicit ThreadsAllToAll(int num_ranks) : sent_(static_cast<size_t>(num_ranks)) {}

  /// The bytes of a round by source rank; false if the rounds have been stopped.
  bool Exchange(int rank, AllToAllTransport::Outgoing mine, std::vector<std::string>* received) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return num_taken_ == 0 || is_stopped_; });
    sent_[static_cast<size_t>(rank)] = std::move(mine);
    ++num_sent_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return num_sent_ == sent_.size() || is_stopped_; });
    if (is_stopped_) return false;
    received->clear();
    for (const AllToAllTransport::Outgoing& theirs : sent_) {
      const auto& sizes = theirs.send_bytes;
      const int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + rank, int64_t{0});
      received->emplace_back(theirs.data.data() + begin,
                             static_cast<size_t>(sizes[static_cast<size_t>(rank)]));
    }
    if (++num_taken_ == sent_.size()) num_sent_ = num_taken_ = 0;
    changed_.notify_all();
    changed_.wait(lock, [&] { return num_taken_ == 0 || is_stopped_; });
    return true;
  }

  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<AllToAllTransport::Outgoing> sent_;
  size_t num_sent_ = 0;
  size_t num_taken_ = 0;
  bool is_stopped_ = false;
};

inline std::vector<std::unique_ptr<SharedMemoryTransport>> SharedMemoryOf(
    const std::vector<int>& ranks, int64_t ring_bytes) {
  std::vector<std::unique_ptr<SharedMemoryTransport>> transports;
  std::vector<SharedMemoryAddress> addresses;
  for (size_t place = 0; place < ranks.size(); ++place) {
    transports.push_back(
        std::make_unique<SharedMemoryTransport>(static_cast<int>(place), ranks, ring_bytes));
    addresses.push_back(transports.back()->address());
  }
  for (const auto& transport : transports) transport->Connect(addresses);
  return transports;
}

/// Shared memory; rounds of an all-to-all; or both, with ranks below (num_ranks + 1) / 2 on one
/// host and the others on another.
enum class TransportKind { kSharedMemory, kAllToAll, kByHost };
constexpr TransportKind kTransportKinds[] = {TransportKind::kSharedMemory, TransportKind::kAllToAll,
                                             TransportKind::kByHost};

class Transports {
 public:
  Transports(TransportKind kind, int num_ranks, int64_t ring_bytes = 1 << 16,
             int64_t most_bytes = 1 << 18)
      : by_rank_(static_cast<size_t>(num_ranks)),
        all_to_all_(num_ranks),
        is_dead_(static_cast<size_t>(num_ranks)) {
    if (kind != TransportKind::kSharedMemory) {
      AllToAllOptions options;
      options.num_ranks = num_ranks;
      options.most_bytes = most_bytes;
      options.heartbeat_seconds = 0.02;
      for (options.rank = 0; options.rank < num_ranks; ++options.rank) {
        rounds_.push_back(std::make_shared<AllToAllTransport>(options));
        by_rank_[static_cast<size_t>(options.rank)] = rounds_.back();
      }
    }
    if (kind == TransportKind::kAllToAll) return;
    std::vector<int> hosts[2];
    for (int rank = 0; rank < num_ranks; ++rank) {
      hosts[kind == TransportKind::kByHost && rank >= (num_ranks + 1) / 2].push_back(rank);
    }
    for (const std::vector<int>& ranks : hosts) {
      auto of_host = SharedMemoryOf(ranks, ring_bytes);
      for (size_t place = 0; place < ranks.size(); ++place) {
        std::shared_ptr<Transport>& transport = by_rank_[static_cast<size_t>(ranks[place])];
        std::shared_ptr<Transport> within = std::move(of_host[place]);
        transport = kind == TransportKind::kByHost
                        ? std::make_shared<ByHostTransport>(within, ranks, transport)
                        : within;
      }
    }
  }

  ~Transports() { Stop(); }

  /// Stops driving rounds.
  void Stop() {
    all_to_all_.Stop();
    for (std::thread& driver : drivers_) driver.join();
    drivers_.clear();
    rounds_.clear();
  }

  std::shared_ptr<Transport> Take(int rank) {
    return std::exchange(by_rank_[static_cast<size_t>(rank)], nullptr);
  }

  /// Starts driving rounds, after each transport was started.
  void Drive() {
    for (size_t rank = 0; rank < rounds_.size(); ++rank) {
      drivers_.emplace_back([this, rank] {
        std::vector<std::string> received;
        bool goes_on = true;
        while (goes_on && !is_dead_[rank] &&
               all_to_all_.Exchange(static_cast<int>(rank), rounds_[rank]->Next(), &received)) {
          goes_on = rounds_[rank]->Take({received.begin(), received.end()});
        }
      });
    }
  }

  /// The rank comes to no later round, and says nothing.
  void Kill(int rank) { is_dead_[static_cast<size_t>(rank)] = true; }

  const std::shared_ptr<Transport>& operator[](int rank) const {
    return by_rank_[static_cast<size_t>(rank)];
  }

 private:
  std::vector<std::shared_ptr<Transport>> by_rank_;
  std::vector<std::shared_ptr<AllToAllTransport>> rounds_;
  ThreadsAllToAll all_to_all_;
  std::vector<std::atomic<bool>> is_dead_;
  std::vector<std::thread> drivers_;
};

}  // namespace sok::testing

#endif  // SOK_OPS_TESTS_EXCHANGE_TRANSPORTS_H_
