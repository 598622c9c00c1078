// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/base/local_files.h"

namespace sok {
namespace {

constexpr size_t kBufferBytes = 4 << 20;
constexpr int64_t kBlockBytes = 4096;  // direct writes begin at multiples of this, and end there

/// Does nothing where that is refused.
void SetDirect(int file, bool is_direct) { fcntl(file, F_SETFL, is_direct ? O_DIRECT : 0); }
bool IsDirect(int file) { return (fcntl(file, F_GETFL) & O_DIRECT) != 0; }

}  // namespace

DirectFile::DirectFile(std::string path, bool appends)
    : path_(std::move(path)),
      buffer_(kBufferBytes, PageSize::kSmall),
      descriptor_(
          open(path_.c_str(), O_RDWR | O_CLOEXEC | (appends ? 0 : O_CREAT | O_TRUNC), 0666)) {
  if (descriptor_ < 0) ThrowOfSystem(path_, errno);
  if (appends) {
    const off_t end = lseek(descriptor_, 0, SEEK_END);
    offset_ = end / kBlockBytes * kBlockBytes;  // its last block is written again, with more
    const ssize_t count = pread(descriptor_, buffer_.data(), kBlockBytes, offset_);
    if (count != end - offset_) {
      const int error = count < 0 ? errno : EIO;
      close(descriptor_);
      ThrowOfSystem(path_, error);
    }
    num_filled_ = static_cast<size_t>(count);
  }
  SetDirect(descriptor_, true);
}

DirectFile::~DirectFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void DirectFile::Append(const char* data, size_t num_bytes) {
  while (num_bytes > 0) {
    const size_t count = std::min(num_bytes, buffer_.size_bytes() - num_filled_);
    std::memcpy(static_cast<char*>(buffer_.data()) + num_filled_, data, count);
    data += count;
    num_bytes -= count;
    num_filled_ += count;
    if (num_filled_ == buffer_.size_bytes()) WriteBuffer();
  }
}

void DirectFile::WriteBuffer() {
  for (size_t done = 0; done < num_filled_;) {
    const ssize_t count = pwrite(descriptor_, static_cast<const char*>(buffer_.data()) + done,
                                 num_filled_ - done, offset_ + static_cast<int64_t>(done));
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count < 0 && errno == EINVAL && IsDirect(descriptor_)) {
      SetDirect(descriptor_, false);  // the disk has other blocks, or some were written in part
    } else if (count < 0 && errno != EINTR) {
      ThrowOfSystem(path_, errno);
    }
  }
  offset_ += static_cast<int64_t>(std::exchange(num_filled_, 0));
}

void DirectFile::Close() {
  SetDirect(descriptor_, false);  // what is left need not end with a block
  WriteBuffer();
  if (close(std::exchange(descriptor_, -1)) != 0) ThrowOfSystem(path_, errno);
}

}  // namespace sok
