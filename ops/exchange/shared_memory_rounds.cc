// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/shared_memory_rounds.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace sok {
namespace {

// A thread that works on a step waits no longer: about what it costs to wake others, or, where it
// stays awake meanwhile, by how much ranks begin a step apart.
constexpr std::chrono::microseconds kMoment{300};
constexpr std::chrono::microseconds kMomentAwake{1000};
constexpr int kMostLeft = 32;

}  // namespace

/// While it lives, and is_taken(), no other thread drives.
class SharedMemoryRounds::Turn {
 public:
  enum class Wait { kNo, kYes };

  Turn(SharedMemoryRounds& rounds, Wait wait) : rounds_(rounds) {
    std::unique_lock<std::mutex> lock(rounds.mutex_);
    if (wait == Wait::kYes) rounds.turn_ended_.wait(lock, [&] { return !rounds.is_driven_; });
    is_taken_ = !std::exchange(rounds.is_driven_, true);
  }
  ~Turn() {
    if (!is_taken_) return;
    {
      std::lock_guard<std::mutex> lock(rounds_.mutex_);
      rounds_.is_driven_ = false;
    }
    rounds_.turn_ended_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool is_taken() const { return is_taken_; }

 private:
  SharedMemoryRounds& rounds_;
  bool is_taken_ = false;
};

SharedMemoryRounds::SharedMemoryRounds(std::shared_ptr<Coordinator> coordinator,
                                       std::shared_ptr<SharedMemoryLink> link)
    : coordinator_(std::move(coordinator)), link_(std::move(link)) {}

double SharedMemoryRounds::PartSeconds() const {
  const Clock::rep began = part_began_;
  if (began == 0) return 0.0;
  const Clock::duration passed = Clock::now().time_since_epoch() - Clock::duration(began);
  return std::chrono::duration<double>(passed).count();
}

void SharedMemoryRounds::SendPart() {
  part_began_ = Clock::now().time_since_epoch().count();
  link_->Send(parts_->pieces());
}

/// Goes on with the round, or begins one, to its end. False: other ranks have not come in time.
bool SharedMemoryRounds::Drive(std::optional<Clock::duration> time_limit) {
  if (!parts_) {
    parts_ = std::make_unique<MessageParts>(coordinator_->ProposeNow(Coordinator::Layout::kPieces));
    SendPart();
  }
  for (;;) {
    const auto received = link_->Receive(time_limit);
    if (!received) return false;
    part_began_ = 0;
    if (parts_->Take(*received)) break;
    SendPart();
  }
  const std::unique_ptr<MessageParts> parts = std::move(parts_);
  coordinator_->Complete(parts->received());
  return true;
}

void SharedMemoryRounds::Run() {
  while (!coordinator_->is_closed()) {
    coordinator_->AwaitReason();
    const Turn turn(*this, Turn::Wait::kYes);
    if (error_) std::rethrow_exception(error_);
    if (parts_ || (coordinator_->IsDue() && !coordinator_->is_closed())) Drive(std::nullopt);
  }
}

void SharedMemoryRounds::DriveHere() {
  if (error_ || parts_ || !coordinator_->IsDue() || coordinator_->is_closed()) return;
  try {
    if (Drive(link_->stays_awake() ? kMomentAwake : kMoment)) {
      next_left_ = 1;
      return;
    }
    num_left_ = next_left_;
    next_left_ = std::min(2 * next_left_, kMostLeft);
  } catch (...) {
    error_ = std::current_exception();
  }
  coordinator_->Wake();
}

void SharedMemoryRounds::RunOneHere() {
  if (num_left_ > 0) {
    --num_left_;
    coordinator_->Recheck();
    return;
  }
  {
    const Turn turn(*this, Turn::Wait::kNo);
    if (!turn.is_taken()) return;  // whoever drives looks again
    DriveHere();
  }
  if (coordinator_->IsDue()) coordinator_->Recheck();
}

}  // namespace sok
