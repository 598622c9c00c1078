// SPDX-License-Identifier: Apache-2.0
// Prefetches a cache line. No effect on results.
#ifndef SOK_OPS_BASE_PREFETCH_H_
#define SOK_OPS_BASE_PREFETCH_H_

namespace sok {

inline void PrefetchForRead(const void* address) { __builtin_prefetch(address, 0); }
inline void PrefetchForWrite(const void* address) { __builtin_prefetch(address, 1); }

}  // namespace sok

#endif  // SOK_OPS_BASE_PREFETCH_H_
