// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/async_writer.h"

#include <utility>

namespace sok {

AsyncWriter::AsyncWriter(Write write) : write_(std::move(write)), thread_([this] { Run(); }) {}

AsyncWriter::~AsyncWriter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

char* AsyncWriter::Buffer(size_t num_bytes) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    Wait(lock, kNumBuffers - 1);
  }
  std::vector<char>& buffer = buffers_[next_buffer_];
  if (buffer.size() < num_bytes) buffer.resize(num_bytes);
  return buffer.data();
}

void AsyncWriter::Put(size_t num_bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    num_bytes_[next_buffer_] = num_bytes;
    next_buffer_ = (next_buffer_ + 1) % kNumBuffers;
    ++num_waiting_;
  }
  changed_.notify_all();
}

void AsyncWriter::Finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  Wait(lock, 0);
}

void AsyncWriter::Wait(std::unique_lock<std::mutex>& lock, size_t most_waiting) {
  changed_.wait(lock, [&] { return error_ != nullptr || num_waiting_ <= most_waiting; });
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void AsyncWriter::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (size_t buffer = 0;; buffer = (buffer + 1) % kNumBuffers) {
    changed_.wait(lock, [&] { return is_ending_ || num_waiting_ > 0; });
    if (is_ending_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      write_(buffers_[buffer].data(), num_bytes_[buffer]);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    --num_waiting_;
    changed_.notify_all();
    if (error_ != nullptr) return;
  }
}

}  // namespace sok
