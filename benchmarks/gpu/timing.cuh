// SPDX-License-Identifier: Apache-2.0
// Medians of CUDA event times, and a table of rates beside their ceilings.
#ifndef SOK_BENCHMARKS_GPU_TIMING_CUH_
#define SOK_BENCHMARKS_GPU_TIMING_CUH_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ops/cuda/cuda_error.h"

namespace sok::benchmark {

struct Timing {
  double median_ms;
  double least_ms;
};

constexpr int kWarmUps = 2;

/// Times run(0), run(1), ... on `stream`, `repeats` of them after two that are not counted.
template <typename Run>
Timing Time(cudaStream_t stream, int repeats, const Run& run) {
  cudaEvent_t begin;
  cudaEvent_t end;
  SOK_CUDA_TRY(cudaEventCreate(&begin));
  SOK_CUDA_TRY(cudaEventCreate(&end));
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + repeats; ++i) {
    SOK_CUDA_TRY(cudaEventRecord(begin, stream));
    run(i);
    SOK_CUDA_TRY(cudaEventRecord(end, stream));
    SOK_CUDA_TRY(cudaEventSynchronize(end));
    float milliseconds = 0.0f;
    SOK_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= kWarmUps) times.push_back(milliseconds);
  }
  SOK_CUDA_TRY(cudaEventDestroy(begin));
  SOK_CUDA_TRY(cudaEventDestroy(end));
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

struct Case {
  int64_t dim;
  int load_percent;
  int64_t batch;
  const char* keys;
};

inline void PrintHeader() {
  std::printf(
      "| what | dim | load | batch | keys | median ms | least ms | G keys/s | ceiling ms | of it "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
}

/// One line; the ceiling is the same bytes moved without a hash table, in this same run.
inline void Print(const char* what, const Case& setting, Timing time, double ceiling_ms) {
  std::printf("| %s | %lld | %.2f | %.0f Mi | %s | %.4f | %.4f | %.2f |", what,
              static_cast<long long>(setting.dim), setting.load_percent / 100.0,
              static_cast<double>(setting.batch) / (1 << 20), setting.keys, time.median_ms,
              time.least_ms, static_cast<double>(setting.batch) / time.median_ms / 1e6);
  if (ceiling_ms > 0.0) {
    std::printf(" %.4f | %.0f %% |\n", ceiling_ms, 100.0 * ceiling_ms / time.median_ms);
  } else {
    std::printf(" | |\n");
  }
  std::fflush(stdout);
}

}  // namespace sok::benchmark

#endif  // SOK_BENCHMARKS_GPU_TIMING_CUH_
