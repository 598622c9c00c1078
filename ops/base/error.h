// SPDX-License-Identifier: Apache-2.0
// The core's one error type; the borders (TensorFlow, Python) translate its code. No framework.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace sok {

enum class ErrorCode {
  kInvalidArgument,     // the caller passed something that can never work
  kFailedPrecondition,  // calls came in the wrong order
  kOutOfCapacity,       // a table reached its declared capacity
  kOutOfMemory,         // the machine refused memory
  kNotFound,            // a file does not exist
  kPermissionDenied,    // a file may not be read or written
  kNoSpace,             // the disk is full
  kDataLoss,            // a file is corrupt
  kIo,                  // a file or another rank's message could not be read or written
  kAborted,             // another rank failed
  kCancelled,           // the framework cancelled the step after a failure elsewhere in it
  kDeadlineExceeded,    // a wait timed out
  kCuda,                // the CUDA driver or a kernel failed, or there is no GPU
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Throws an Error with all `parts`, streamed one after the other, as its message.
template <typename... Parts>
[[noreturn]] void Throw(ErrorCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(code, message.str());
}

}  // namespace sok
