// SPDX-License-Identifier: Apache-2.0
// A call on a queue and its memory: growing buffers, and scratch memory cut from one of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sok {

/// While it lives, work runs on `stream`, after all earlier calls on the queue.
template <typename Queue>
class QueueCall {
 public:
  QueueCall(Queue& queue, typename Queue::Stream stream) : queue_(queue) {
    queue.BeginCall(stream);
  }
  ~QueueCall() { queue_.EndCall(); }
  QueueCall(const QueueCall&) = delete;
  QueueCall& operator=(const QueueCall&) = delete;

 private:
  Queue& queue_;
};

/// One allocation on a queue. Movable, not copyable.
template <typename Queue>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(Queue& queue) : queue_(&queue) {}
  DeviceBuffer(Queue& queue, int64_t bytes) : DeviceBuffer(queue) { Reserve(bytes); }
  ~DeviceBuffer() {
    if (data_ != nullptr) queue_->Free(data_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : queue_(other.queue_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// Grows to at least `bytes`; growing loses the contents.
  void Reserve(int64_t bytes) {
    if (bytes <= bytes_) return;
    void* data = queue_->Allocate(bytes);
    if (data_ != nullptr) queue_->Free(data_);
    data_ = data;
    bytes_ = bytes;
  }

  template <typename Value>
  Value* as() const {
    return static_cast<Value*>(data_);
  }
  int64_t size_bytes() const { return bytes_; }

 private:
  Queue* queue_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// The scratch memory of a call: taken in pieces, allocated at once, and kept for the next call.
/// After the largest batch, calls no longer allocate.
template <typename Queue>
class Scratch {
 public:
  explicit Scratch(Queue& queue) : queue_(queue) {}

  /// `count` uninitialized values, valid until the current Frame ends.
  template <typename Value>
  Value* Take(int64_t count) {
    const int64_t bytes =
        (count * static_cast<int64_t>(sizeof(Value)) + kAlignment) / kAlignment * kAlignment;
    if (used_ + bytes <= buffer_bytes()) {
      used_ += bytes;
      return reinterpret_cast<Value*>(blocks_.front().template as<char>() + used_ - bytes);
    }
    // Does not fit this time: a separate block now, one larger block from the next call on.
    blocks_.emplace_back(queue_, bytes);
    used_ += bytes;  // after allocating: later calls must not repeat a refused request
    return blocks_.back().template as<Value>();
  }

  /// Returns a call's pieces when it ends. Frames nest.
  class Frame {
   public:
    explicit Frame(Scratch& scratch) : scratch_(scratch), used_before_(scratch.used_) {
      if (used_before_ == 0) scratch_.Join();
    }
    ~Frame() {
      scratch_.most_used_ =
          scratch_.used_ > scratch_.most_used_ ? scratch_.used_ : scratch_.most_used_;
      scratch_.used_ = used_before_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Scratch& scratch_;
    const int64_t used_before_;
  };

  int64_t size_bytes() const { return most_used_; }

 private:
  static constexpr int64_t kAlignment = 256;

  int64_t buffer_bytes() const { return blocks_.empty() ? 0 : blocks_.front().size_bytes(); }

  /// Grows the first block to the most that a call has used, and drops the others.
  void Join() {
    if (blocks_.size() <= 1 && buffer_bytes() >= most_used_) return;
    blocks_.clear();
    const int64_t bytes = std::exchange(most_used_, 0);  // if refused, calls start small again
    blocks_.emplace_back(queue_, bytes);
    most_used_ = bytes;
  }

  Queue& queue_;
  std::vector<DeviceBuffer<Queue>> blocks_;
  int64_t used_ = 0;
  int64_t most_used_ = 0;
};

}  // namespace sok
