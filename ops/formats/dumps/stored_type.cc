// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/stored_type.h"

#include <cstring>

#include "ops/base/halves.h"

namespace sok {
namespace {

template <typename From, typename To, typename Convert>
void ConvertAll(int64_t count, const char* from, char* to, const Convert& convert) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const To converted = convert(value);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &converted, sizeof(To));
  }
}

template <typename From, typename To>
void CastAll(int64_t count, const void* from, void* to) {
  ConvertAll<From, To>(count, static_cast<const char*>(from), static_cast<char*>(to),
                       [](From value) { return static_cast<To>(value); });
}

}  // namespace

int64_t BytesOf(StoredType type) {
  switch (type) {
    case StoredType::kFloat16:
      return 2;
    case StoredType::kInt32:
    case StoredType::kUint32:
    case StoredType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

const char* DtypeName(StoredType type) {
  static constexpr const char* kNames[] = {"int32",   "int64",   "uint32", "uint64",
                                           "float16", "float32", "float64"};
  return kNames[static_cast<size_t>(type)];
}

void KeysToStored(StoredType type, int64_t count, const int64_t* keys, char* stored) {
  if (BytesOf(type) == sizeof(int32_t)) return CastAll<int64_t, int32_t>(count, keys, stored);
  std::memcpy(stored, keys, static_cast<size_t>(count) * sizeof(int64_t));
}

void KeysFromStored(StoredType type, int64_t count, const char* stored, int64_t* keys) {
  if (type == StoredType::kInt32) return CastAll<int32_t, int64_t>(count, stored, keys);
  if (type == StoredType::kUint32) return CastAll<uint32_t, int64_t>(count, stored, keys);
  std::memcpy(keys, stored, static_cast<size_t>(count) * sizeof(int64_t));
}

void FloatsFromStored(StoredType type, int64_t count, const char* stored, float* floats) {
  if (type == StoredType::kFloat64) return CastAll<double, float>(count, stored, floats);
  if (type == StoredType::kFloat16) {
    return ConvertAll<Float16, float>(count, stored, reinterpret_cast<char*>(floats),
                                      [](Float16 half) { return Widened(half); });
  }
  std::memcpy(floats, stored, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace sok
