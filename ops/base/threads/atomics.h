// SPDX-License-Identifier: Apache-2.0
// Relaxed atomic operations for kernels, on the GPU and, in tests of kernel logic, on the CPU.
//
// None of them orders other memory accesses: a kernel publishes its writes by ending.
#pragma once

#include <cstdint>

#include "ops/base/host_device.h"

namespace sok {

/// A load that sees writes of other threads of the same kernel to `address`, now or later.
SOK_HOST_DEVICE inline uint32_t AtomicLoad(const uint32_t* address) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile uint32_t*>(address);
#else
  return __atomic_load_n(address, __ATOMIC_RELAXED);
#endif
}

/// Stores `desired` if the value is `expected`. Returns the value before: `expected` on success.
SOK_HOST_DEVICE inline uint32_t AtomicCompareExchange(uint32_t* address, uint32_t expected,
                                                      uint32_t desired) {
#ifdef __CUDA_ARCH__
  return atomicCAS(address, expected, desired);
#else
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return expected;
#endif
}

/// Adds modulo 2^32; AtomicAdd(address, -1u) subtracts one.
SOK_HOST_DEVICE inline void AtomicAdd(uint32_t* address, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicAdd(address, value);
#else
  __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
#endif
}

SOK_HOST_DEVICE inline void AtomicMin(uint32_t* address, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicMin(address, value);
#else
  uint32_t current = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value < current && !__atomic_compare_exchange_n(address, &current, value, true,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

/// Number of bits set.
SOK_HOST_DEVICE inline int32_t CountBits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

}  // namespace sok
