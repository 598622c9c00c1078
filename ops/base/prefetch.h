// SPDX-License-Identifier: Apache-2.0
// Prefetches a cache line. No effect on results.
#pragma once

namespace sok {

inline void PrefetchForRead(const void* address) { __builtin_prefetch(address, 0); }
inline void PrefetchForWrite(const void* address) { __builtin_prefetch(address, 1); }

}  // namespace sok
