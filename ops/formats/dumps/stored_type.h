// SPDX-License-Identifier: Apache-2.0
// The dtypes of arrays in files of dumps; little-endian.
#pragma once

#include <cstdint>

namespace sok {

/// The numbers are those of SparseOperationKit 2's headers.
enum class StoredType { kInt32, kInt64, kUint32, kUint64, kFloat16, kFloat32, kFloat64 };

int64_t BytesOf(StoredType type);
const char* DtypeName(StoredType type);
inline bool IsInteger(StoredType type) { return type <= StoredType::kUint64; }

/// Keys, int64, as `type` or back: the low bytes, or the sign of the narrower one extended.
void KeysToStored(StoredType type, int64_t count, const int64_t* keys, char* stored);
void KeysFromStored(StoredType type, int64_t count, const char* stored, int64_t* keys);
/// Floats from `type`, rounded where that is wider.
void FloatsFromStored(StoredType type, int64_t count, const char* stored, float* floats);

}  // namespace sok
