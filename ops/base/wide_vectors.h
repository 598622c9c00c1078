// SPDX-License-Identifier: Apache-2.0
// Loops for the processor at hand: the binary runs on any x86-64 and uses AVX2 if present.
#pragma once

/// Before a function or template of an unnamed namespace: compiles it, with everything inlined into
/// it, for AVX2 as well; the loader picks that version on processors that have AVX2. Results are
/// the same bits: each column sees the same operations in the same order, and AVX2 alone does not
/// bring fused multiply-add. Disabled under the address and thread sanitizers, which start after
/// the loader's choice.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SOK_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define SOK_WIDE_VECTORS
#endif

/// Before a loop over the columns of a row: GCC would unroll a loop of 4 or 8 before vectorizing
/// it, and then fail to vectorize rules that work on several planes.
#if defined(__GNUC__) && !defined(__clang__)
#define SOK_FOR_COLUMNS _Pragma("GCC unroll 1")
#else
#define SOK_FOR_COLUMNS
#endif

/// Before a function that must be inlined into such a function.
#define SOK_ALWAYS_INLINE __attribute__((always_inline))  // of a lambda
#define SOK_INLINE inline SOK_ALWAYS_INLINE
