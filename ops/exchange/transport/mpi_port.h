// SPDX-License-Identifier: Apache-2.0
// The few functions of MPI that messages need, without MPI's headers: any MPI that is in the
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sok {

/// Bytes of one message. Keeps its memory when it shrinks.
class MpiBuffer {
 public:
  /// The former bytes are lost.
  void Resize(size_t size) {
    if (size > capacity_) {
      bytes_.reset(new char[size]);
      capacity_ = size;
    }
    size_ = size;
  }
  char* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

/// A send or a receipt that has begun.
class MpiOperation {
 public:
  virtual ~MpiOperation() = default;
  /// Moves it on. Throws kIo.
  virtual bool HasEnded() = 0;
};

/// Messages of a communicator, for one thread. No call waits. All throw kIo.
class MpiPort {
 public:
  virtual ~MpiPort() = default;
  /// Begins to send bytes, which must not change until it has ended.
  virtual std::unique_ptr<MpiOperation> Send(int destination, const MpiBuffer& bytes) = 0;
  /// Begins to receive the next message of any rank, in the order of each; null if there is none.
  virtual std::unique_ptr<MpiOperation> Receive(MpiBuffer* bytes) = 0;
};

/// Where the MPI in this process is. Python fills it, field by field.
struct MpiLibrary {
  int64_t handle_bytes;      // of a communicator and all other handles: 4 or 8
  const void* communicator;  // the address of one
  const void* byte_type;     // the address of MPI_BYTE
  int64_t any_source;
  void* isend;  // functions
  void* test;
  void* improbe;
  void* imrecv;
  void* get_count;
  void* error_string;
};

/// Throws kIo if handles have another size.
std::unique_ptr<MpiPort> MakeMpiPort(const MpiLibrary& library);

}  // namespace sok
