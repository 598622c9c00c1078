// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/shared_memory_link.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kPageBytes = 4096;
// After which a rank that waits looks for the other.
constexpr std::chrono::steady_clock::duration kPatience = std::chrono::milliseconds(50);
constexpr int kLooksBeforeSleep = 200;

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void ThrowSystem(const std::string& what) {
  Throw(ErrorCode::kIo, what, ": ", std::strerror(errno));
}

uint64_t RandomToken() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

/// Returns when the word may have changed, or after some time, below a second. Processes share it.
void SleepWhile(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds time) {
  const timespec limit{0, static_cast<long>(time.count())};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

/// Leaves the core to its other hardware thread for a moment.
void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

void WakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

/// A descriptor that is readable when the process has ended; -1: the kernel is older than 5.3.
int OpenProcess(int64_t process_id) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, process_id, 0));
#else
  static_cast<void>(process_id);
  return -1;
#endif
}

void* MapShared(int descriptor, size_t num_bytes) {
  void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) ThrowSystem("memory of a rank cannot be mapped");
  return memory;
}

}  // namespace

/// What one rank has for another. The words that change have a cache line of their own.
struct SharedMemoryLink::Mailbox {
  alignas(kLineBytes) std::atomic<uint32_t> round;  // the last one whose message is there
  alignas(kLineBytes) size_t num_bytes[2];          // of the messages of two rounds
};

/// At the start of a rank's memory; the mailboxes by destination rank follow, then the messages.
struct SharedMemoryLink::Head {
  uint64_t token;
  std::atomic<uint32_t> is_closed;
  alignas(kLineBytes) char mailboxes[1];
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

SharedMemoryLink::SharedMemoryLink(int place, std::vector<int> ranks, int64_t most_bytes,
                                   bool stays_awake)
    : place_(static_cast<size_t>(place)),
      ranks_(std::move(ranks)),
      message_bytes_(RoundUp(static_cast<size_t>(most_bytes) / ranks_.size(), kPageBytes)),
      num_bytes_(RoundUp(sizeof(Head) + ranks_.size() * sizeof(Mailbox), kPageBytes) +
                 2 * ranks_.size() * message_bytes_),
      token_(RandomToken()),
      stays_awake_(stays_awake),
      peers_(ranks_.size()) {
  descriptor_ = memfd_create("sok_compat exchange", MFD_CLOEXEC);
  if (descriptor_ < 0) ThrowSystem("the system gives no memory that processes share");
  if (ftruncate(descriptor_, static_cast<off_t>(num_bytes_)) != 0) {
    close(descriptor_);
    ThrowSystem("the system gives no memory that processes share");
  }
  Peer& own = peers_[place_];
  own.process_id = getpid();
  try {
    own.head = static_cast<Head*>(MapShared(descriptor_, num_bytes_));
  } catch (...) {
    close(descriptor_);
    throw;
  }
  own.head->token = token_;
}

SharedMemoryLink::~SharedMemoryLink() {
  for (const Peer& peer : peers_) {
    if (peer.head) munmap(peer.head, num_bytes_);
    if (peer.process >= 0) close(peer.process);
  }
  close(descriptor_);
}

SharedMemoryAddress SharedMemoryLink::address() const { return {getpid(), descriptor_, token_}; }

void SharedMemoryLink::Connect(const std::vector<SharedMemoryAddress>& addresses) {
  for (size_t place = 0; place < peers_.size(); ++place) {
    if (place == place_) continue;
    const SharedMemoryAddress& address = addresses[place];
    Peer& peer = peers_[place];
    peer.process_id = address.process_id;
    peer.process = OpenProcess(address.process_id);
    const std::string path =
        "/proc/" + std::to_string(address.process_id) + "/fd/" + std::to_string(address.descriptor);
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
      ThrowSystem("memory of rank " + std::to_string(ranks_[place]) + ", " + path);
    struct stat found{};
    const bool fits = fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) &&
                      found.st_size == static_cast<off_t>(num_bytes_);
    if (fits) {
      try {
        peer.head = static_cast<Head*>(MapShared(descriptor, num_bytes_));
      } catch (...) {
        close(descriptor);
        throw;
      }
    }
    close(descriptor);
    if (!fits || peer.head->token != address.token) {
      Throw(ErrorCode::kIo, path, " is not the memory of rank ", ranks_[place]);
    }
  }
}

SharedMemoryLink::Mailbox& SharedMemoryLink::MailboxOf(Head* head, size_t destination) const {
  return reinterpret_cast<Mailbox*>(head->mailboxes)[destination];
}

/// Of the current round.
char* SharedMemoryLink::MessageOf(Head* head, size_t destination) const {
  const size_t following = 2 * (ranks_.size() - destination) - round_ % 2;
  return reinterpret_cast<char*>(head) + num_bytes_ - following * message_bytes_;
}

bool SharedMemoryLink::HasEnded(size_t place) const {
  const Peer& peer = peers_[place];
  if (peer.process < 0) return kill(static_cast<pid_t>(peer.process_id), 0) != 0 && errno == ESRCH;
  pollfd process{peer.process, POLLIN, 0};
  return poll(&process, 1, 0) > 0;
}

bool SharedMemoryLink::HasCome(uint32_t round) const {
  return static_cast<int32_t>(round - round_) >= 0;  // its sender may be a round ahead
}

/// Whether the message of this round is there, or comes in time.
bool SharedMemoryLink::Await(size_t source, Clock::time_point until, bool stays_awake) const {
  Head* head = peers_[source].head;
  const std::atomic<uint32_t>& word = MailboxOf(head, place_).round;
  for (int looks = 0;; ++looks) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    if (HasCome(seen)) return true;
    if (looks < kLooksBeforeSleep) continue;
    if (is_closed_) Throw(ErrorCode::kAborted, "this rank has ended its exchanges");
    if (head->is_closed.load(std::memory_order_acquire) != 0) {
      Throw(ErrorCode::kAborted, "rank ", ranks_[source], " has ended its exchanges");
    }
    const Clock::duration left = until - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    if (stays_awake) {
      Pause();
      continue;
    }
    if (left > kPatience) {
      const bool has_ended = HasEnded(source);  // before a last look: it may have sent before
      if (HasCome(word.load(std::memory_order_acquire))) return true;
      if (has_ended)
        Throw(ErrorCode::kAborted, "the process of rank ", ranks_[source], " has ended");
    }
    SleepWhile(word, seen, std::min<Clock::duration>(left, kPatience));
  }
}

/// Straight into the place where it is read.
void SharedMemoryLink::SendTo(size_t destination, const Pieces& pieces) {
  Head* own = peers_[place_].head;
  Mailbox& mailbox = MailboxOf(own, destination);
  char* const message = MessageOf(own, destination);
  size_t num_bytes = 0;
  for (const std::string_view piece : pieces) {
    if (piece.size() > message_bytes_ - num_bytes) {
      Throw(ErrorCode::kInvalidArgument, "a message of more than the ", message_bytes_,
            " bytes that one rank may be sent at once");
    }
    std::copy(piece.begin(), piece.end(), message + num_bytes);
    num_bytes += piece.size();
  }
  mailbox.num_bytes[round_ % 2] = num_bytes;
  mailbox.round.store(round_, std::memory_order_release);
  WakeAll(mailbox.round);
}

void SharedMemoryLink::Send(const std::vector<Pieces>& messages) {
  ++round_;
  const Pieces& own = messages[place_];
  own_message_ = own.empty() ? std::string_view() : own.front();
  for (size_t step = 1; step < peers_.size(); ++step) {  // not all ranks to the same one at a time
    const size_t place = (place_ + step) % peers_.size();
    SendTo(place, messages[place]);
  }
}

std::optional<std::vector<std::string_view>> SharedMemoryLink::Receive(
    std::optional<std::chrono::nanoseconds> time_limit) {
  const Clock::time_point until =
      time_limit ? Clock::now() + *time_limit : Clock::time_point::max();
  std::vector<std::string_view> received;
  for (size_t place = 0; place < peers_.size(); ++place) {
    if (place == place_) {
      received.push_back(own_message_);
    } else if (Await(place, until, time_limit && stays_awake_)) {
      received.push_back(MessageFrom(place));
    } else {
      return std::nullopt;
    }
  }
  return received;
}

/// What that rank has sent in this round.
std::string_view SharedMemoryLink::MessageFrom(size_t source) const {
  Head* head = peers_[source].head;
  const size_t num_bytes = MailboxOf(head, place_).num_bytes[round_ % 2];
  if (num_bytes > message_bytes_) {
    Throw(ErrorCode::kIo, "rank ", ranks_[source], " has sent ", num_bytes, " bytes at once");
  }
  return {MessageOf(head, place_), num_bytes};
}

void SharedMemoryLink::Close() {
  is_closed_ = true;
  Head* own = peers_[place_].head;
  own->is_closed.store(1, std::memory_order_release);
  for (size_t place = 0; place < peers_.size(); ++place) WakeAll(MailboxOf(own, place).round);
}

}  // namespace sok
