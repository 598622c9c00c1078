// SPDX-License-Identifier: Apache-2.0
// Keys made on the GPU: uniform without repeats, and by Zipf's law.
#ifndef SOK_BENCHMARKS_GPU_WORKLOAD_CUH_
#define SOK_BENCHMARKS_GPU_WORKLOAD_CUH_

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/base/hash.h"
#include "ops/cuda/cuda_queue.cuh"
#include "ops/device/kernels/bucket_index.h"
#include "ops/device/memory/scratch.h"

namespace sok::benchmark {

/// Key number i: scattered over all int64, no two alike.
SOK_HOST_DEVICE inline int64_t KeyNumber(int64_t i) {
  return static_cast<int64_t>(MixBits(static_cast<uint64_t>(i) + 0x1234567u));
}

/// A permutation of [0, num_keys), num_keys a power of two: multiplication by an odd number.
SOK_HOST_DEVICE inline int64_t Shuffled(int64_t i, int64_t num_keys) {
  const uint64_t mixed = (static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u);
  const auto mask = static_cast<uint64_t>(num_keys) - 1;
  // Two rounds of a bijection on the low bits, so that neighbours are far apart.
  uint64_t low = mixed & mask;
  low = (low ^ (low >> 11)) * 0xd6e8feb86659fd93u & mask;
  return static_cast<int64_t>((low ^ (low >> 13)) & mask);
}

struct ConsecutiveKeys {
  int64_t begin;
  int64_t* keys;

  SOK_HOST_DEVICE void operator()(int64_t i) const { keys[i] = KeyNumber(begin + i); }
};

/// Held keys without repeats, in random order.
struct ShuffledKeys {
  int64_t begin;
  int64_t num_keys;
  int64_t* keys;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    keys[i] = KeyNumber(Shuffled((begin + i) % num_keys, num_keys));
  }
};

/// Held keys by Zipf's law with exponent 1.05, from the cumulated weights.
struct ZipfKeys {
  uint64_t seed;
  int64_t num_keys;
  const double* cumulated;  // [num_keys]
  int64_t* keys;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    const uint64_t word = MixBits(static_cast<uint64_t>(i) ^ MixBits(seed));
    const double draw =
        static_cast<double>(word >> 11) * (1.0 / 9007199254740992.0) * cumulated[num_keys - 1];
    int64_t low = 0;
    int64_t high = num_keys - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (cumulated[middle] < draw) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    keys[i] = KeyNumber(Shuffled(low, num_keys));
  }
};

/// The addresses that a search would compute: where it starts, and which row it finds.
struct KnownPlaces {
  DeviceIndex index;
  const int64_t* keys;
  int64_t* places;
  uint32_t* rows;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    places[i] = index.Home(keys[i]);
    rows[i] = static_cast<uint32_t>(index.Find(keys[i]));
  }
};

struct FillFloats {
  float* values;

  SOK_HOST_DEVICE void operator()(int64_t i) const {
    values[i] = static_cast<float>(MixBits(static_cast<uint64_t>(i)) >> 40) * 1e-8f - 0.08f;
  }
};

/// [num_keys], the sums of 1 / (rank + 1)^1.05, on the GPU.
inline DeviceBuffer<CudaQueue> CumulatedZipf(CudaQueue& queue, int64_t num_keys) {
  std::vector<double> cumulated(static_cast<size_t>(num_keys));
  double sum = 0.0;
  for (int64_t i = 0; i < num_keys; ++i) {
    cumulated[static_cast<size_t>(i)] = sum += std::pow(static_cast<double>(i + 1), -1.05);
  }
  DeviceBuffer<CudaQueue> buffer(queue, num_keys * 8);
  const QueueCall<CudaQueue> call(queue, nullptr);
  queue.CopyFromHost(buffer.as<double>(), cumulated.data(), num_keys * 8);
  return buffer;
}

}  // namespace sok::benchmark

#endif  // SOK_BENCHMARKS_GPU_WORKLOAD_CUH_
