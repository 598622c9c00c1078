// SPDX-License-Identifier: Apache-2.0
// The transports of several ranks in one process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
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
#include "ops/exchange/transport/mpi.h"
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

/// Messages of MPI between threads. A send ends when its message has been received, as MPI may have
/// it.
class ThreadsMpi {
 public:
  explicit ThreadsMpi(int num_ranks) : inboxes_(static_cast<size_t>(num_ranks)) {}

  std::unique_ptr<MpiPort> PortOf(int rank) { return std::make_unique<Port>(this, rank); }

 private:
  struct Sent {
    std::string bytes;
    std::shared_ptr<std::atomic<bool>> has_been_received;
  };

  struct Operation : MpiOperation {
    explicit Operation(std::shared_ptr<std::atomic<bool>> flag) : has_ended(std::move(flag)) {}
    bool HasEnded() override { return *has_ended; }
    const std::shared_ptr<std::atomic<bool>> has_ended;
  };

  class Port : public MpiPort {
   public:
    Port(ThreadsMpi* all, int rank) : all_(all), rank_(static_cast<size_t>(rank)) {}

    std::unique_ptr<MpiOperation> Send(int destination, const MpiBuffer& bytes) override {
      auto flag = std::make_shared<std::atomic<bool>>(false);
      const std::lock_guard<std::mutex> lock(all_->mutex_);
      all_->inboxes_[static_cast<size_t>(destination)].push_back(
          {std::string(bytes.data(), bytes.size()), flag});
      return std::make_unique<Operation>(flag);
    }

    std::unique_ptr<MpiOperation> Receive(MpiBuffer* bytes) override {
      const std::lock_guard<std::mutex> lock(all_->mutex_);
      std::deque<Sent>& inbox = all_->inboxes_[rank_];
      if (inbox.empty()) return nullptr;
      bytes->Resize(inbox.front().bytes.size());
      inbox.front().bytes.copy(bytes->data(), bytes->size());
      auto operation = std::make_unique<Operation>(std::move(inbox.front().has_been_received));
      *operation->has_ended = true;
      inbox.pop_front();
      return operation;
    }

   private:
    ThreadsMpi* const all_;
    const size_t rank_;
  };

  std::mutex mutex_;
  std::vector<std::deque<Sent>> inboxes_;  // by rank
};

/// Shared memory; rounds of an all-to-all; MPI; or shared memory within a host and one of the
/// others between hosts, with ranks below (num_ranks + 1) / 2 on one host and the others on
/// another.
enum class TransportKind { kSharedMemory, kAllToAll, kMpi, kByHost, kByHostAndMpi };
constexpr TransportKind kTransportKinds[] = {TransportKind::kSharedMemory, TransportKind::kAllToAll,
                                             TransportKind::kMpi, TransportKind::kByHost,
                                             TransportKind::kByHostAndMpi};

class Transports {
 public:
  Transports(TransportKind kind, int num_ranks, int64_t ring_bytes = 1 << 16,
             int64_t most_bytes = 1 << 18)
      : mpi_(num_ranks),
        by_rank_(static_cast<size_t>(num_ranks)),
        all_to_all_(num_ranks),
        is_dead_(static_cast<size_t>(num_ranks)) {
    const bool is_by_host = kind == TransportKind::kByHost || kind == TransportKind::kByHostAndMpi;
    if (kind == TransportKind::kMpi || kind == TransportKind::kByHostAndMpi) {
      MpiOptions options;
      options.process_ids.resize(by_rank_.size());
      options.most_bytes = static_cast<size_t>(most_bytes);
      options.heartbeat_seconds = 0.02;
      for (options.rank = 0; options.rank < num_ranks; ++options.rank) {
        by_rank_[static_cast<size_t>(options.rank)] =
            std::make_shared<MpiTransport>(options, mpi_.PortOf(options.rank));
      }
    } else if (kind != TransportKind::kSharedMemory) {
      AllToAllOptions options;
      options.num_ranks = num_ranks;
      options.most_bytes = most_bytes;
      options.heartbeat_seconds = 0.02;
      for (options.rank = 0; options.rank < num_ranks; ++options.rank) {
        rounds_.push_back(std::make_shared<AllToAllTransport>(options));
        by_rank_[static_cast<size_t>(options.rank)] = rounds_.back();
      }
    }
    if (kind == TransportKind::kAllToAll || kind == TransportKind::kMpi) return;
    std::vector<int> hosts[2];
    for (int rank = 0; rank < num_ranks; ++rank) {
      hosts[is_by_host && rank >= (num_ranks + 1) / 2].push_back(rank);
    }
    for (const std::vector<int>& ranks : hosts) {
      auto of_host = SharedMemoryOf(ranks, ring_bytes);
      for (size_t place = 0; place < ranks.size(); ++place) {
        std::shared_ptr<Transport>& transport = by_rank_[static_cast<size_t>(ranks[place])];
        std::shared_ptr<Transport> within = std::move(of_host[place]);
        transport =
            is_by_host ? std::make_shared<ByHostTransport>(within, ranks, transport) : within;
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
  ThreadsMpi mpi_;
  std::vector<std::shared_ptr<Transport>> by_rank_;
  std::vector<std::shared_ptr<AllToAllTransport>> rounds_;
  ThreadsAllToAll all_to_all_;
  std::vector<std::atomic<bool>> is_dead_;
  std::vector<std::thread> drivers_;
};

}  // namespace sok::testing
