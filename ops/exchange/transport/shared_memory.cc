// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "ops/base/error.h"
#include "ops/base/memory/file_memory.h"

namespace sok {
namespace {

constexpr size_t kLineBytes = 64;
constexpr std::chrono::milliseconds kLongestSleep(100);  // then checks the other processes
constexpr std::chrono::seconds kLongestClose(5);

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void ThrowSystem(const std::string& what) {
  Throw(ErrorCode::kIo, what, ": ", std::strerror(errno));
}

uint64_t RandomToken() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

int64_t Now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns when the word may have changed, or after kLongestSleep. The word is shared by processes.
void SleepWhile(const std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit{0, std::chrono::nanoseconds(kLongestSleep).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void* Map(void* where, int descriptor, size_t begin, size_t num_bytes) {
  void* memory =
      mmap(where, num_bytes, PROT_READ | PROT_WRITE,
           MAP_SHARED | (where != nullptr ? MAP_FIXED : 0), descriptor, static_cast<off_t>(begin));
  if (memory == MAP_FAILED) ThrowSystem("cannot map memory shared by ranks");
  return memory;
}

}  // namespace

/// Byte counters since the start. Sender and receiver each have a cache line.
struct SharedMemoryTransport::RingHead {
  alignas(kLineBytes) std::atomic<uint64_t> written;
  std::atomic<uint64_t> start;  // where the sender restarted; all bytes before have been read
  alignas(kLineBytes) std::atomic<uint64_t> read;
  std::atomic<uint32_t> wants_room;  // the sender has a backlog
};

/// At the start of a rank's memory; the rings for other ranks follow on separate pages.
struct SharedMemoryTransport::Head {
  uint64_t token;
  std::atomic<uint32_t> is_closed;  // nothing more will be sent
  alignas(kLineBytes) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> is_asleep;  // this rank's thread waits on the bell
  std::atomic<uint64_t> beat;       // increases while that thread lives
  alignas(kLineBytes) RingHead rings[1];

  void Ring() {
    bell.fetch_add(1);
    if (is_asleep.load() != 0) {
      syscall(SYS_futex, &bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    }
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

SharedMemoryTransport::SharedMemoryTransport(int place, std::vector<int> ranks, int64_t ring_bytes)
    : place_(static_cast<size_t>(place)),
      ranks_(std::move(ranks)),
      ring_bytes_(RoundUp(static_cast<size_t>(ring_bytes), PageBytes())),
      head_bytes_(RoundUp(sizeof(Head) + ranks_.size() * sizeof(RingHead), PageBytes())),
      token_(RandomToken()),
      peers_(ranks_.size()) {
  const std::string refused = "cannot make memory shared by ranks";
  descriptor_ = memfd_create("sok_compat exchange", MFD_CLOEXEC);
  if (descriptor_ < 0) ThrowSystem(refused);
  const size_t num_bytes = head_bytes_ + ranks_.size() * ring_bytes_;
  try {
    if (ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0) ThrowSystem(refused);
    own_ = static_cast<Head*>(Map(nullptr, descriptor_, 0, head_bytes_));
  } catch (...) {
    close(descriptor_);
    throw;
  }
  own_->token = token_;
}

SharedMemoryTransport::~SharedMemoryTransport() {
  is_stopped_ = true;
  own_->Ring();
  if (thread_.joinable()) thread_.join();
  for (const auto& peer : peers_) {
    if (!peer) continue;
    for (const Ring& ring : {peer->out, peer->in}) {
      if (ring.bytes) munmap(ring.bytes, 2 * ring_bytes_);
    }
    if (peer->head) munmap(peer->head, head_bytes_);
  }
  munmap(own_, head_bytes_);
  close(descriptor_);
}

SharedMemoryAddress SharedMemoryTransport::address() const {
  return {getpid(), descriptor_, token_};
}

SharedMemoryTransport::Ring SharedMemoryTransport::MapRing(int descriptor, Head* head,
                                                           size_t destination) const {
  void* const reserved =
      mmap(nullptr, 2 * ring_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED)
    ThrowSystem("cannot reserve address space for memory shared by ranks");
  const Ring ring{&head->rings[destination], static_cast<char*>(reserved)};
  try {
    const size_t begin = head_bytes_ + destination * ring_bytes_;
    Map(ring.bytes, descriptor, begin, ring_bytes_);
    Map(ring.bytes + ring_bytes_, descriptor, begin, ring_bytes_);
  } catch (...) {
    munmap(reserved, 2 * ring_bytes_);
    throw;
  }
  return ring;
}

void SharedMemoryTransport::MapPeer(size_t place, const SharedMemoryAddress& address) {
  auto peer = std::make_unique<Peer>(address.process_id);
  const std::string path =
      "/proc/" + std::to_string(address.process_id) + "/fd/" + std::to_string(address.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    ThrowSystem("cannot open the memory of rank " + std::to_string(ranks_[place]) + ", " + path);
  const std::shared_ptr<void> closed(nullptr, [descriptor](void*) { close(descriptor); });
  struct stat found{};
  const size_t num_bytes = head_bytes_ + ranks_.size() * ring_bytes_;
  const bool fits = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
                    found.st_size == static_cast<off_t>(num_bytes);
  peers_[place] = std::move(peer);  // its destructor unmaps, even if something throws
  Peer& mapped = *peers_[place];
  if (fits) mapped.head = static_cast<Head*>(Map(nullptr, descriptor, 0, head_bytes_));
  if (!fits || mapped.head->token != address.token) {
    Throw(ErrorCode::kIo, path, " is not the memory of rank ", ranks_[place]);
  }
  mapped.out = MapRing(descriptor_, own_, place);
  mapped.in = MapRing(descriptor, mapped.head, place_);
}

void SharedMemoryTransport::Connect(const std::vector<SharedMemoryAddress>& addresses) {
  for (size_t place = 0; place < peers_.size(); ++place) {
    if (place != place_) MapPeer(place, addresses[place]);
  }
}

void SharedMemoryTransport::Start(Receiver* receiver) {
  receiver_ = receiver;
  oldest_beat_ns_ = Now();
  for (const auto& peer : peers_) {
    if (peer) peer->last_beat_ns = Now();
  }
  thread_ = std::thread([this] { Run(); });
}

size_t SharedMemoryTransport::PlaceOf(int rank) const {
  return static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

void SharedMemoryTransport::Send(int destination, Pieces message,
                                 std::shared_ptr<const void> memory) {
  Peer& peer = *peers_[PlaceOf(destination)];
  const std::lock_guard<std::mutex> lock(peer.sending);
  peer.backlog.emplace_back(std::move(message), std::move(memory));
  if (WriteBacklog(peer)) peer.head->Ring();
}

/// Writes as much as fits; needs peer.sending. A message that fits into the ring is written whole,
/// so that its receiver reads it in one piece. An empty ring is written from its first byte on,
/// which stays in the caches. Returns whether anything was written.
bool SharedMemoryTransport::WriteBacklog(Peer& peer) {
  RingHead& head = *peer.out.head;
  const uint64_t first = head.written.load(std::memory_order_relaxed);
  uint64_t start = head.start.load(std::memory_order_relaxed);
  uint64_t written = first;
  while (!peer.backlog.empty()) {
    Frame& frame = peer.backlog.front();
    const uint64_t read = std::max(head.read.load(), start);
    if (read == written && written % ring_bytes_ != 0) {
      start = written = RoundUp(written, ring_bytes_);
      head.start.store(start, std::memory_order_relaxed);  // published by the next `written`
      continue;
    }
    const auto room = static_cast<size_t>(read + ring_bytes_ - written);
    const bool must_be_whole = frame.num_bytes() <= ring_bytes_;
    if (room == 0 || (must_be_whole && room < frame.num_left())) {
      if (head.wants_room.exchange(1) == 0) continue;  // check again, now that the receiver knows
      break;
    }
    written += frame.CopyTo(peer.out.bytes + written % ring_bytes_, room);
    head.written.store(written, std::memory_order_release);
    if (frame.num_left() == 0) peer.backlog.pop_front();
  }
  return head.written.load(std::memory_order_relaxed) != first;
}

/// Delivers data from a rank. Returns false if there is none.
bool SharedMemoryTransport::Deliver(size_t place) {
  Peer& peer = *peers_[place];
  RingHead& head = *peer.in.head;
  // Read first: everything sent before the rank closed is then visible.
  const bool is_closed = peer.head->is_closed.load(std::memory_order_acquire) != 0;
  const uint64_t written = head.written.load(std::memory_order_acquire);
  const uint64_t read =
      std::min(written, std::max(head.read.load(std::memory_order_relaxed), head.start.load()));
  if (written - read > ring_bytes_) {
    Throw(ErrorCode::kIo, "rank ", ranks_[place], " has overrun its ring of shared memory");
  }
  if (written != read) {
    peer.reader.Take({peer.in.bytes + read % ring_bytes_, static_cast<size_t>(written - read)},
                     [&](std::string_view message, bool is_cut) {
                       receiver_->Receive(ranks_[place], message, is_cut);
                     });
    head.read.store(written);
    if (head.wants_room.exchange(0) != 0) peer.head->Ring();
  } else if (is_closed && !peer.has_left) {
    peer.has_left = true;
    receiver_->Left(ranks_[place]);
  } else {
    return false;
  }
  return true;
}

bool SharedMemoryTransport::Progress() {
  bool has_moved = false;
  for (size_t place = 0; place < peers_.size(); ++place) {
    if (place == place_) continue;
    has_moved = Deliver(place) || has_moved;
    Peer& peer = *peers_[place];
    const std::lock_guard<std::mutex> lock(peer.sending);
    if (!peer.backlog.empty() && WriteBacklog(peer)) {
      peer.head->Ring();
      has_moved = true;
    }
  }
  return has_moved;
}

/// Returns when the bell has rung since `seen`, or after a while. Messages, room and an end are
/// there before the bell rings: a thread that reads it before it looks for them misses none.
void SharedMemoryTransport::Sleep(uint32_t seen) {
  own_->is_asleep.store(1);
  SleepWhile(own_->bell, seen);
  own_->is_asleep.store(0);
}

void SharedMemoryTransport::Run() {
  try {
    int64_t checked = Now();
    while (!is_stopped_) {
      own_->beat.fetch_add(1, std::memory_order_relaxed);
      const uint32_t seen = own_->bell.load();
      if (!Progress()) Sleep(seen);
      if (Now() - checked < std::chrono::nanoseconds(kLongestSleep).count()) continue;
      CheckPeers();
      checked = Now();
    }
  } catch (const std::exception& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = error.what();
  }
}

/// Records which ranks are alive. Throws kAborted if a process has ended without closing.
void SharedMemoryTransport::CheckPeers() {
  int64_t oldest = Now();
  for (size_t place = 0; place < peers_.size(); ++place) {
    if (place == place_ || peers_[place]->has_left) continue;
    Peer& peer = *peers_[place];
    const uint64_t beat = peer.head->beat.load(std::memory_order_relaxed);
    if (std::exchange(peer.beat, beat) != beat) peer.last_beat_ns = Now();
    oldest = std::min(oldest, peer.last_beat_ns);
    if (!peer.process.HasEnded()) continue;
    while (Deliver(place)) continue;  // it may have closed before it ended
    if (!peer.has_left) {
      Throw(ErrorCode::kAborted, "the process of rank ", ranks_[place], " has ended");
    }
  }
  oldest_beat_ns_ = oldest;
}

bool SharedMemoryTransport::IsBacklogEmpty() {
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    if (!peer) return true;
    const std::lock_guard<std::mutex> lock(peer->sending);
    return peer->backlog.empty();
  });
}

void SharedMemoryTransport::Close() {
  const auto until = std::chrono::steady_clock::now() + kLongestClose;
  while (!IsBacklogEmpty() && std::chrono::steady_clock::now() < until && failure().empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  own_->is_closed.store(1);
  for (const auto& peer : peers_) {
    if (peer) peer->head->Ring();
  }
}

double SharedMemoryTransport::SilentSeconds() const {
  return static_cast<double>(Now() - oldest_beat_ns_) * 1e-9;
}

std::string SharedMemoryTransport::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

}  // namespace sok
