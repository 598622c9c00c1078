// SPDX-License-Identifier: Apache-2.0
// Rates of the core on the CPU, beside what the memory of the same machine gives in the same run.
//
// make core-bench builds and runs it.
// usage: engine_benchmark [threads = 1] [largest number of keys in Mi = 16]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ops/base/hash.h"
#include "ops/base/memory/reserved_memory.h"
#include "ops/base/threads/executor.h"
#include "ops/cpu/cpu_engine.h"

namespace sok {
namespace {

constexpr int kRuns = 5;
constexpr int64_t kBatch = 1 << 20;        // keys in a lookup
constexpr int64_t kInsertBatch = 1 << 17;  // new keys that come at a time
constexpr int64_t kLineFloats = 16;        // 64 bytes

volatile float g_sink;  // keeps results alive

/// Median seconds of `run(r)`, r = 0, 1, ...
double MedianSeconds(int runs, const std::function<void(int)>& run) {
  std::vector<double> seconds;
  for (int r = 0; r < runs; ++r) {
    const auto begin = std::chrono::steady_clock::now();
    run(r);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

int64_t KeyNumber(int64_t i) { return static_cast<int64_t>(MixBits(static_cast<uint64_t>(i))); }

/// Batches of keys that are held, each in an order that memory cannot guess.
std::vector<int64_t> HitBatch(int64_t num_keys, int run) {
  std::vector<int64_t> keys(kBatch);
  for (int64_t i = 0; i < kBatch; ++i) {
    const uint64_t word = MixBits(static_cast<uint64_t>(run * kBatch + i) ^ 0x5bd1e995u);
    keys[static_cast<size_t>(i)] =
        KeyNumber(static_cast<int64_t>(word % static_cast<uint64_t>(num_keys)));
  }
  return keys;
}

struct Lines {
  Lines(int64_t num_rows, int64_t row_dim)
      : dim(row_dim),
        memory(static_cast<size_t>(num_rows * row_dim) * sizeof(float), PageSize::kHuge) {}
  float* data() const { return static_cast<float*>(memory.data()); }
  int64_t dim;
  ReservedMemory memory;
};

class Benchmark {
 public:
  Benchmark(int num_threads, int64_t num_keys)
      : executor_(MakeThreadExecutor(num_threads)),
        call_(CpuEngine().MakeCall(*executor_, nullptr)),
        num_keys_(num_keys) {}

  void Run() {
    std::printf("%lld Mi keys, %d thread(s)\n", static_cast<long long>(num_keys_ >> 20),
                executor_->num_threads());
    MeasureFloors();
    MeasureInsert();
    MeasureFind();
    for (const int64_t dim : {8, 32}) MeasureGather(dim);
    std::printf("\n");
  }

 private:
  /// Random reads of one line each, from as many lines as the index has at a load of 0.8.
  void MeasureFloors() {
    const int64_t num_lines = num_keys_ / 4;
    const Lines lines(num_lines, kLineFloats);
    std::fill_n(lines.data(), num_lines * kLineFloats, 1.0f);
    line_seconds_ =
        MedianSeconds(kRuns,
                      [&](int run) {
                        // The next places are made as they are needed, as a hash makes them.
                        executor_->ParallelFor(kBatch, 20, [&](int64_t begin, int64_t end) {
                          float sum = 0;
                          for (int64_t i = begin; i < end; ++i) {
                            const uint64_t word = MixBits(static_cast<uint64_t>(run * kBatch + i));
                            const auto line =
                                static_cast<int64_t>((static_cast<unsigned __int128>(word) *
                                                      static_cast<uint64_t>(num_lines)) >>
                                                     64);
                            sum += lines.data()[line * kLineFloats];
                          }
                          g_sink = sum;
                        });
                      }) /
        static_cast<double>(kBatch);
    std::vector<float> copy(static_cast<size_t>(num_lines * kLineFloats));
    const double copy_seconds = MedianSeconds(kRuns, [&](int) {
      executor_->ParallelFor(num_lines, 10, [&](int64_t begin, int64_t end) {
        std::copy(lines.data() + begin * kLineFloats, lines.data() + end * kLineFloats,
                  copy.begin() + begin * kLineFloats);
      });
    });
    stream_bytes_per_second_ = 2.0 * 64.0 * static_cast<double>(num_lines) / copy_seconds;
    std::printf("  memory: %.1f M random 64-byte reads/s, %.1f GB/s copy (read + write)\n",
                1e-6 / line_seconds_, 1e-9 * stream_bytes_per_second_);
  }

  void MeasureInsert() {
    std::vector<int64_t> keys(static_cast<size_t>(num_keys_));
    for (int64_t i = 0; i < num_keys_; ++i) keys[static_cast<size_t>(i)] = KeyNumber(i);
    std::vector<int64_t> row_ids(keys.size());
    TableOptions options;
    options.name = "benchmark";
    options.capacity = num_keys_;
    const double seconds = MedianSeconds(3, [&](int) {
      table_ = CpuEngine().MakeTable(options);
      for (int64_t begin = 0; begin < num_keys_; begin += kInsertBatch) {
        table_->FindOrInsert(*call_,
                             {std::min(kInsertBatch, num_keys_ - begin), keys.data() + begin, true},
                             {}, row_ids.data() + begin);
      }
    });
    Print("insert, all new (no planes)", seconds / static_cast<double>(num_keys_), line_seconds_);
    std::printf("  index: %.1f bytes a key\n",
                static_cast<double>(table_->index_bytes()) / static_cast<double>(num_keys_));
  }

  void MeasureFind() {
    std::vector<int64_t> row_ids(kBatch);
    std::vector<std::vector<int64_t>> batches;
    for (int run = 0; run < kRuns; ++run) batches.push_back(HitBatch(num_keys_, run));
    const auto find = [&](int run) {
      table_->Find(*call_, kBatch, batches[static_cast<size_t>(run)].data(), row_ids.data());
    };
    Print("find, all held", MedianSeconds(kRuns, find) / kBatch, line_seconds_);
    const auto find_or_insert = [&](int run) {
      table_->FindOrInsert(*call_, {kBatch, batches[static_cast<size_t>(run)].data()}, {},
                           row_ids.data());
    };
    Print("find or insert, all held", MedianSeconds(kRuns, find_or_insert) / kBatch, line_seconds_);
    for (auto& batch : batches) {
      for (int64_t& key : batch) key = KeyNumber(num_keys_ + (key & 0xffffffffffff));
    }
    Print("find, none held", MedianSeconds(kRuns, find) / kBatch, line_seconds_);
  }

  void MeasureGather(int64_t dim) {
    const Lines plane(num_keys_, dim);
    std::fill_n(plane.data(), num_keys_ * dim, 1.0f);
    std::vector<std::vector<int64_t>> batches;
    for (int run = 0; run < kRuns; ++run) batches.push_back(HitBatch(num_keys_, run));
    std::vector<int64_t> row_ids(kBatch);
    std::vector<float> out(static_cast<size_t>(kBatch * dim));
    const double seconds =
        MedianSeconds(kRuns,
                      [&](int run) {
                        table_->Find(*call_, kBatch, batches[static_cast<size_t>(run)].data(),
                                     row_ids.data());
                        CpuEngine().GatherRows(*call_, kBatch, row_ids.data(),
                                               FloatRows(plane.data(), dim), out.data());
                      }) /
        kBatch;
    const auto row_bytes = static_cast<double>(dim * 4);
    const double lines = 1.0 + std::ceil(row_bytes / 64.0);
    const double floor = lines * line_seconds_ + row_bytes / stream_bytes_per_second_;
    Print("find + gather rows of " + std::to_string(dim), seconds, floor);
  }

  void Print(const std::string& what, double seconds_per_key, double floor_seconds) {
    std::printf("  %-32s %7.1f M keys/s   %5.2f x the memory floor\n", what.c_str(),
                1e-6 / seconds_per_key, seconds_per_key / floor_seconds);
  }

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Call> call_;
  int64_t num_keys_;
  std::shared_ptr<Table> table_;
  double line_seconds_ = 0.0;
  double stream_bytes_per_second_ = 0.0;
};

/// Zipf(1.05) over `num_values`, by the inverse of its distribution.
std::vector<int64_t> ZipfKeys(int64_t count, int64_t num_values) {
  std::vector<double> cumulative(static_cast<size_t>(num_values));
  double sum = 0.0;
  for (size_t i = 0; i < cumulative.size(); ++i) {
    sum += std::pow(static_cast<double>(i + 1), -1.05);
    cumulative[i] = sum;
  }
  std::vector<int64_t> keys(static_cast<size_t>(count));
  for (size_t i = 0; i < keys.size(); ++i) {
    const double u = static_cast<double>(MixBits(i) >> 11) * 0x1p-53 * sum;
    keys[i] =
        KeyNumber(std::lower_bound(cumulative.begin(), cumulative.end(), u) - cumulative.begin());
  }
  return keys;
}

void MeasureDistinct(int num_threads) {
  const auto executor = MakeThreadExecutor(num_threads);
  const auto call = CpuEngine().MakeCall(*executor, nullptr);
  const std::vector<int64_t> keys = ZipfKeys(106'496, 2'000'000);
  std::vector<int64_t> distinct_keys(keys.size());
  std::vector<int32_t> inverse(keys.size());
  int64_t num_distinct = 0;
  const double seconds = MedianSeconds(21, [&](int) {
    num_distinct = CpuEngine().DistinctKeys(*call, static_cast<int64_t>(keys.size()), keys.data(),
                                            distinct_keys.data(), inverse.data());
  });
  std::printf("distinct: %zu Zipf(1.05) keys, %lld distinct: %.3f ms, %.1f M keys/s\n", keys.size(),
              static_cast<long long>(num_distinct), 1e3 * seconds,
              1e-6 * static_cast<double>(keys.size()) / seconds);
}

}  // namespace
}  // namespace sok

int main(int argc, char** argv) {
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int64_t max_mi_keys = argc > 2 ? std::atoi(argv[2]) : 16;
  sok::MeasureDistinct(num_threads);
  for (const int64_t mi_keys : {int64_t{1}, max_mi_keys}) {
    sok::Benchmark(num_threads, mi_keys << 20).Run();
  }
}
