// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/mpi.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kSpin(50);
constexpr microseconds kSpinOnTheWay(1000);
constexpr microseconds kShortestSleep(10);
constexpr microseconds kMpiSleepWhileWaiting(200);
constexpr milliseconds kMpiSleep(2);
constexpr milliseconds kLongWait(50);        // then the processor is worth more than the time
constexpr milliseconds kBetweenChecks(100);  // of the other processes
constexpr std::chrono::seconds kMpiLongestClose(5);
constexpr size_t kMostSent = 2;  // messages on their way to a rank
constexpr size_t kMostReceived = 8;
constexpr unsigned long kTimerSlackNs = 1000;  // else each sleep takes 50 us longer

/// Before the bytes of a message.
struct Head {
  int32_t source;
  int32_t flags;
};
constexpr int kSaysGoodbye = 1;  // nothing but an answer follows
constexpr int kKnows = 2;        // that the receiver has left; nothing follows

}  // namespace

MpiTransport::MpiTransport(const MpiOptions& options, std::unique_ptr<MpiPort> port)
    : options_(options), port_(std::move(port)) {
  for (size_t rank = 0; rank < options_.process_ids.size(); ++rank) {
    peers_.push_back(static_cast<int>(rank) == options_.rank ? nullptr : std::make_unique<Peer>());
    const int64_t process_id = options_.process_ids[rank];
    if (peers_.back() && process_id != 0) {
      peers_.back()->process = std::make_unique<ProcessWatch>(process_id);
    }
  }
}

MpiTransport::~MpiTransport() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiTransport::Start(Receiver* receiver) {
  receiver_ = receiver;
  moved_ = Clock::now();
  for (const auto& peer : peers_) {
    if (peer) peer->heard = moved_.time_since_epoch().count();
  }
  thread_ = std::thread([this] { Run(); });
}

void MpiTransport::Send(int destination, Pieces message, std::shared_ptr<const void> memory) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    peers_[static_cast<size_t>(destination)]->outbox.emplace_back(std::move(message),
                                                                  std::move(memory));
    has_outgoing_ = true;
  }
  changed_.notify_all();
}

void MpiTransport::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_closing_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kMpiLongestClose, [&] { return has_ended_; });
  is_stopped_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kMpiLongestClose, [&] { return has_ended_; });
}

double MpiTransport::SilentSeconds() const {
  Clock::rep oldest = Clock::now().time_since_epoch().count();
  const Clock::rep now = oldest;
  for (const auto& peer : peers_) {
    if (peer && !peer->has_left) oldest = std::min(oldest, peer->heard.load());
  }
  return std::chrono::duration<double>(Clock::duration(now - oldest)).count();
}

std::vector<int> MpiTransport::RanksSilentFor(double seconds) const {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  std::vector<int> silent;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank] || peers_[rank]->has_left) continue;
    const Clock::duration passed(now - peers_[rank]->heard.load());
    if (std::chrono::duration<double>(passed).count() > seconds) {
      silent.push_back(static_cast<int>(rank));
    }
  }
  return silent;
}

std::string MpiTransport::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void MpiTransport::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  const auto between_beats = std::chrono::duration<double>(options_.heartbeat_seconds);
  Clock::time_point beat = Clock::now();
  Clock::time_point checked = beat;
  std::string failure;
  try {
    while (!HasFinished()) {
      const Clock::time_point now = Clock::now();
      const bool is_heartbeat = now - beat >= between_beats;
      if (is_heartbeat) beat = now;
      const bool has_sent = SendAll(is_heartbeat);
      const bool has_received = ReceiveAll();
      if (now - checked >= kBetweenChecks) {
        CheckProcesses();
        checked = now;
      }
      Rest(has_sent || has_received);
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  failure_ = failure;
  has_ended_ = true;
  changed_.notify_all();
}

/// Whether all ranks that have not left know that this one has, or the transport is destroyed.
bool MpiTransport::HasFinished() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_stopped_) return true;
    if (!is_closing_) return false;
  }
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return !peer || (peer->has_been_told && peer->sent.empty() &&
                     (peer->knows_of_leaving || peer->has_left));
  });
}

/// Returns whether this rank leaves once all frames are sent.
bool MpiTransport::TakeOutboxes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_outgoing_) {
    for (const auto& peer : peers_) {
      if (!peer) continue;
      std::move(peer->outbox.begin(), peer->outbox.end(), std::back_inserter(peer->frames));
      peer->outbox.clear();
    }
    has_outgoing_ = false;
  }
  return is_closing_;
}

/// Returns whether anything was sent, but for heartbeats.
bool MpiTransport::SendAll(bool is_heartbeat) {
  const bool leaves = TakeOutboxes();
  bool has_moved = false;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank]) continue;
    Peer& peer = *peers_[rank];
    while (!peer.sent.empty() && peer.sent.front().operation->HasEnded()) {
      Keep(std::move(peer.sent.front().bytes));
      peer.sent.pop_front();
      has_moved = true;
    }
    if (peer.has_left) peer.frames.clear();
    while (!peer.frames.empty() && peer.sent.size() < kMostSent) {
      SendNext(static_cast<int>(rank), 0);
      has_moved = true;
    }
    if (!peer.frames.empty() || peer.sent.size() >= kMostSent) continue;
    int flags = 0;
    if (leaves && !std::exchange(peer.has_been_told, true) && !peer.has_left) flags |= kSaysGoodbye;
    if (std::exchange(peer.awaits_answer, false)) flags |= kKnows;
    if (flags == 0 && (!is_heartbeat || peer.has_left)) continue;
    SendNext(static_cast<int>(rank), flags);
    has_moved = has_moved || flags != 0;
  }
  return has_moved;
}

/// Sends one message with the next bytes of the frames for a rank.
void MpiTransport::SendNext(int destination, int flags) {
  Peer& peer = *peers_[static_cast<size_t>(destination)];
  size_t num_bytes = 0;
  for (const Frame& frame : peer.frames) num_bytes += frame.num_left();
  num_bytes = std::min(num_bytes, options_.most_bytes);
  Sent next{TakeBuffer(), nullptr};
  next.bytes.Resize(sizeof(Head) + num_bytes);
  const Head head{options_.rank, flags};
  std::memcpy(next.bytes.data(), &head, sizeof(head));
  for (char* to = next.bytes.data() + sizeof(head); num_bytes > 0;) {
    const size_t copied = peer.frames.front().CopyTo(to, num_bytes);
    to += copied;
    num_bytes -= copied;
    if (peer.frames.front().num_left() == 0) peer.frames.pop_front();
  }
  next.operation = port_->Send(destination, next.bytes);
  peer.sent.push_back(std::move(next));
}

bool MpiTransport::ReceiveAll() {
  bool has_moved = false;
  while (received_.size() < kMostReceived) {
    Received next{TakeBuffer(), nullptr};
    next.operation = port_->Receive(&next.bytes);
    if (!next.operation) {
      Keep(std::move(next.bytes));
      break;
    }
    received_.push_back(std::move(next));
    has_moved = true;
  }
  while (!received_.empty() && received_.front().operation->HasEnded()) {
    Deliver(received_.front());
    Keep(std::move(received_.front().bytes));
    received_.pop_front();
    has_moved = true;
  }
  return has_moved;
}

void MpiTransport::Deliver(const Received& received) {
  Head head{-1, 0};
  const std::string_view bytes(received.bytes.data(), received.bytes.size());
  if (bytes.size() >= sizeof(head)) std::memcpy(&head, bytes.data(), sizeof(head));
  const auto source = static_cast<size_t>(head.source);
  if (source >= peers_.size() || !peers_[source]) {
    Throw(ErrorCode::kIo, "a message of ", bytes.size(), " bytes is from no other rank");
  }
  Peer& peer = *peers_[source];
  peer.heard = Clock::now().time_since_epoch().count();
  if (bytes.size() > sizeof(head)) {
    peer.reader.Take(bytes.substr(sizeof(head)), [&](std::string_view message, bool is_cut) {
      receiver_->Receive(head.source, message, is_cut);
    });
  }
  if ((head.flags & kKnows) != 0) peer.knows_of_leaving = true;
  if ((head.flags & kSaysGoodbye) != 0) {
    peer.has_left = true;
    peer.awaits_answer = !peer.has_been_told;  // else it knows
    receiver_->Left(head.source);
  }
}

/// Spins for a moment after something moved; then sleeps, unless there is something to send.
void MpiTransport::Rest(bool has_moved) {
  const Clock::time_point now = Clock::now();
  if (has_moved) moved_ = now;
  const Clock::duration idle = now - moved_;
  const bool is_on_its_way = IsOnItsWay();
  if (idle < (is_on_its_way ? kSpinOnTheWay : kSpin)) {
    std::this_thread::yield();
    return;
  }
  const bool is_waiting = idle < kLongWait && (is_on_its_way || receiver_->IsWaiting());
  const Clock::duration longest = is_waiting ? Clock::duration(kMpiSleepWhileWaiting) : kMpiSleep;
  const auto time = std::clamp<Clock::duration>(idle / 4, kShortestSleep, longest);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, time, [&] { return has_outgoing_ || is_stopped_; });
}

/// Whether a message has begun and not ended: its bytes move while MPI is asked.
bool MpiTransport::IsOnItsWay() const {
  return !received_.empty() || std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer && !peer->sent.empty();
  });
}

/// Throws kAborted if the process of a rank that has not left has ended.
void MpiTransport::CheckProcesses() {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank] || !peers_[rank]->process || peers_[rank]->has_left) continue;
    if (!peers_[rank]->process->HasEnded()) continue;
    while (ReceiveAll()) continue;  // it may have left before it ended
    if (!peers_[rank]->has_left) {
      Throw(ErrorCode::kAborted, "the process of rank ", rank, " has ended");
    }
  }
}

MpiBuffer MpiTransport::TakeBuffer() {
  if (spare_.empty()) return {};
  MpiBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void MpiTransport::Keep(MpiBuffer buffer) {
  if (spare_.size() < kMostReceived) spare_.push_back(std::move(buffer));
}

}  // namespace sok
