// SPDX-License-Identifier: Apache-2.0
// Loops for the processor at hand: the binary runs on any x86-64 and still uses AVX2.
#ifndef SOK_OPS_BASE_WIDE_VECTORS_H_
#define SOK_OPS_BASE_WIDE_VECTORS_H_

/// Before a function of an unnamed namespace, a template too: compiles it, with what is inlined
/// into it, for AVX2 as well; the loader takes that one where the processor has it. The results are
/// the same bits: each column sees the same operations in the same order, and AVX2 alone brings no
/// fused multiply-add. Not under the address and thread sanitizers, which the choice at load time
/// comes too early for.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SOK_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define SOK_WIDE_VECTORS
#endif

/// Before a loop over a row's columns: GCC unrolls one of 4 or 8 before it looks for vectors, and
/// then finds none where a rule works on several planes.
#if defined(__GNUC__) && !defined(__clang__)
#define SOK_FOR_COLUMNS _Pragma("GCC unroll 1")
#else
#define SOK_FOR_COLUMNS
#endif

/// Before a function that has to be inlined into such a one.
#define SOK_INLINE inline __attribute__((always_inline))

#endif  // SOK_OPS_BASE_WIDE_VECTORS_H_
