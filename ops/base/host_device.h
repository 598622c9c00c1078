// SPDX-License-Identifier: Apache-2.0
// Marks functions that nvcc compiles for the device as well. Nothing else.
#pragma once

#ifdef __CUDACC__
#define SOK_HOST_DEVICE __host__ __device__
#else
#define SOK_HOST_DEVICE
#endif

/// Before a loop that must be unrolled, so that the arrays it indexes stay in registers.
#ifdef __CUDA_ARCH__
#define SOK_UNROLL _Pragma("unroll")
#else
#define SOK_UNROLL
#endif

/// Before a loop that would spill registers if it were unrolled.
#ifdef __CUDA_ARCH__
#define SOK_NOT_UNROLLED _Pragma("unroll 1")
#else
#define SOK_NOT_UNROLLED
#endif
