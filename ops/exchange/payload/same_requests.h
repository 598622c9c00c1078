// SPDX-License-Identifier: Apache-2.0
// Detects ranks that train on the same batches, by the requests of a lookup's first steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace sok {

using RankBits = uint64_t;  // a bit for each of the first 64 ranks

/// The requests of one lookup.
class SameRequests {
 public:
  static constexpr int kMostSteps = 16;          // that are looked at
  static constexpr size_t kLeastBytes = 1 << 8;  // of a request: fewer keys are alike by chance

  /// Rank 0 and the ranks with the same request in a step; 0 if the step says nothing: it has few
  /// keys, or those of the step before, which a script does not read.
  RankBits AlikeIn(const std::vector<std::string_view>& requests);

 private:
  std::atomic<int> num_steps_{0};
  std::mutex mutex_;
  size_t last_ = 0;  // hash of rank 0's request in the step before
};

/// The gradients of one lookup.
class TrainedAlike {
 public:
  static constexpr int kSteps = 4;  // that must be alike

  /// Notes AlikeIn of a step that trains. Returns ranks that were alike in all of the first kSteps,
  /// once; else 0.
  RankBits Note(RankBits alike);

 private:
  std::mutex mutex_;
  int num_steps_ = 0;
  RankBits alike_ = ~RankBits{0};
};

}  // namespace sok
