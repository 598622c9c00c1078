// SPDX-License-Identifier: Apache-2.0
// Tells when another process of this host has ended.
#pragma once

#include <cstdint>

namespace sok {

class ProcessWatch {
 public:
  explicit ProcessWatch(int64_t process_id);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// Also true for a zombie, where the kernel can tell (Linux 5.3).
  bool HasEnded() const;

 private:
  const int64_t process_id_;
  const int descriptor_;  // becomes readable when the process ends; -1: not supported
};

}  // namespace sok
