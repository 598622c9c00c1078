// SPDX-License-Identifier: Apache-2.0
// The transport between processes of one host: byte rings in shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/exchange/transport/frames.h"
#include "ops/exchange/transport/process_watch.h"
#include "ops/exchange/transport/transport.h"

namespace sok {

/// Where other ranks find the memory of a rank. The token proves that it is this rank's.
struct SharedMemoryAddress {
  int64_t process_id = 0;
  int64_t descriptor = -1;  // in that process
  uint64_t token = 0;
};

/// Each rank owns a ring for every other rank. The memory has no name and ends with the processes
/// that map it. A sender copies a message directly into the ring; one thread of the receiver
/// delivers it from there. Data that does not fit waits in the sender's backlog, which the sender's
/// own thread writes as the receiver reads.
class SharedMemoryTransport : public Transport {
 public:
  /// ranks: those of this host, in the same order on all of them; place: this rank's position among
  /// them. ring_bytes: per ring, rounded up to pages. Throws kIo.
  SharedMemoryTransport(int place, std::vector<int> ranks, int64_t ring_bytes);
  ~SharedMemoryTransport() override;
  SharedMemoryTransport(const SharedMemoryTransport&) = delete;
  SharedMemoryTransport& operator=(const SharedMemoryTransport&) = delete;

  SharedMemoryAddress address() const;
  const std::vector<int>& ranks() const { return ranks_; }

  /// Maps the memory of all ranks; by place, including this one. Throws kIo if a process is not on
  /// this host, not of this user, or gone.
  void Connect(const std::vector<SharedMemoryAddress>& addresses);

  void Start(Receiver* receiver) override;
  void Send(int destination, Pieces message, std::shared_ptr<const void> memory) override;
  void Close() override;
  double SilentSeconds() const override;
  std::string failure() const override;

 private:
  struct RingHead;
  struct Head;
  struct Ring {
    RingHead* head = nullptr;
    char* bytes = nullptr;  // mapped twice in a row, so that wrapped data is contiguous
  };
  struct Peer {
    explicit Peer(int64_t process_id) : process(process_id) {}

    Head* head = nullptr;
    Ring out;
    Ring in;
    std::mutex sending;
    std::deque<Frame> backlog;
    FrameReader reader;
    ProcessWatch process;
    bool has_left = false;
    uint64_t beat = 0;
    int64_t last_beat_ns = 0;
  };

  size_t PlaceOf(int rank) const;
  Ring MapRing(int descriptor, Head* head, size_t destination) const;
  void MapPeer(size_t place, const SharedMemoryAddress& address);
  bool WriteBacklog(Peer& peer);
  bool Deliver(size_t place);
  void Run();
  bool Progress();
  void Sleep(uint32_t seen);
  void CheckPeers();
  bool IsBacklogEmpty();

  const size_t place_;
  const std::vector<int> ranks_;
  const size_t ring_bytes_;
  const size_t head_bytes_;  // at the start of a rank's memory, before the rings
  const uint64_t token_;
  int descriptor_ = -1;
  Head* own_ = nullptr;
  std::vector<std::unique_ptr<Peer>> peers_;  // by place; null at place_
  Receiver* receiver_ = nullptr;
  std::thread thread_;
  std::atomic<bool> is_stopped_{false};
  std::atomic<int64_t> oldest_beat_ns_{0};
  mutable std::mutex mutex_;  // guards failure_
  std::string failure_;
};

}  // namespace sok
