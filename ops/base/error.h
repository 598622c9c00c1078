// SPDX-License-Identifier: Apache-2.0
// The core's one error type; the borders (TensorFlow, Python) translate its code. No framework.
#ifndef SOK_OPS_BASE_ERROR_H_
#define SOK_OPS_BASE_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace sok {

enum class ErrorCode {
  kInvalidArgument,     // the caller passed something that can never work
  kFailedPrecondition,  // calls in the wrong order
  kOutOfCapacity,       // a table reached the capacity that was declared for it
  kOutOfMemory,         // the machine refused memory
  kNotFound,            // a file is not there
  kPermissionDenied,    // a file may not be read or written
  kNoSpace,             // the disk is full
  kDataLoss,            // a file is not as it was written
  kIo,                  // a file, or what another rank sent, could not be read or written
  kAborted,             // another rank failed
  kCancelled,           // the framework ended the step, which another part of it made fail
  kDeadlineExceeded,    // what is waited for did not come in time
  kCuda,                // the CUDA driver or a kernel failed, or there is no GPU
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Throws an Error whose message is all `parts` streamed one after the other.
template <typename... Parts>
[[noreturn]] void Throw(ErrorCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(code, message.str());
}

}  // namespace sok

#endif  // SOK_OPS_BASE_ERROR_H_
