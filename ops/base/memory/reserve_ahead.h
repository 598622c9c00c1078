// SPDX-License-Identifier: Apache-2.0
// Requests more memory than is needed now, and settles for less if that is refused.
#pragma once

#include <cstdint>

#include "ops/base/error.h"

namespace sok {

/// Calls reserve(); returns false if it threw kOutOfMemory or kNoSpace.
template <typename Call>
bool IsGranted(const Call& reserve) {
  try {
    reserve();
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory && error.code() != ErrorCode::kNoSpace) throw;
    return false;
  }
}

/// Calls reserve(n) with n going down from `wanted` until it throws neither of these. The last
/// call is reserve(needed), whose exceptions pass through.
template <typename Call>
void ReserveAhead(int64_t needed, int64_t wanted, const Call& reserve) {
  // A surplus below this share is not worth another request.
  for (int64_t ahead = wanted - needed; ahead > needed / 64; ahead /= 4) {
    if (IsGranted([&] { reserve(needed + ahead); })) return;
  }
  reserve(needed);
}

}  // namespace sok
