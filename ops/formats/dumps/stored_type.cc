// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/stored_type.h"

#include <cmath>
#include <cstring>
#include <limits>

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

float FloatOfHalf(uint16_t half) {
  constexpr int kMantissaBits = 10, kExponentBias = 15, kLargestExponent = 31;
  const int exponent = half >> kMantissaBits & kLargestExponent;
  const auto mantissa = static_cast<float>(half & ((1 << kMantissaBits) - 1));
  float value = 0;
  if (exponent == kLargestExponent) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - kExponentBias - kMantissaBits);
  } else {
    value = std::ldexp(mantissa + (1 << kMantissaBits), exponent - kExponentBias - kMantissaBits);
  }
  return half >> 15 ? -value : value;
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
    return ConvertAll<uint16_t, float>(count, stored, reinterpret_cast<char*>(floats), FloatOfHalf);
  }
  std::memcpy(floats, stored, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace sok
