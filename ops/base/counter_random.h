// SPDX-License-Identifier: Apache-2.0
// Random numbers as a pure function of (stream, counter), the same bits on every device.
//
// Uses only integer operations and + - * / sqrt on doubles, which IEEE 754 rounds in one way, and
// no libm function. The build must not fuse multiplies and adds (-ffp-contract=off, nvcc
// -fmad=false).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/base/host_device.h"

namespace sok {

struct RandomWords {
  uint32_t word[4];
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
SOK_HOST_DEVICE inline RandomWords Philox(RandomWords counter, uint64_t stream) {
  uint32_t key0 = static_cast<uint32_t>(stream);
  uint32_t key1 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// In [0, 1), a multiple of 2^-24: every value is a float.
SOK_HOST_DEVICE inline float UnitFloat(uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

/// In (0, 1), symmetric around 1/2.
SOK_HOST_DEVICE inline double OpenUnitDouble(uint32_t word) {
  return (static_cast<double>(word) + 0.5) * (1.0 / 4294967296.0);
}

/// Natural logarithm of a positive normal number, relative error below 1e-12.
SOK_HOST_DEVICE inline double PortableLog(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  double mantissa;  // in [1, 2), then in [sqrt(1/2), sqrt(2))
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...) with |s| < 0.172
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double z = s * s;
  double sum = 1.0 / 15.0;
  for (int n = 13; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return exponent * 0.6931471805599453 + 2.0 * s * sum;
}

/// The quantile of the standard normal distribution at p in (0, 1): routine PPND7 of Wichura's
/// algorithm AS 241 (1988), relative error 1e-7, about that of a float.
SOK_HOST_DEVICE inline double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  const double tail = q < 0.0 ? p : 1.0 - p;
  double r = std::sqrt(-PortableLog(tail));
  double value;
  if (r <= 5.0) {
    r -= 1.6;
    value = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
            ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  } else {
    r -= 5.0;
    value = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
            ((0.012258202635 * r + 0.24197894225) * r + 1.0);
  }
  return q < 0.0 ? -value : value;
}

/// In [low, high) if low < high; `low` if they are equal.
SOK_HOST_DEVICE inline float UniformFloat(uint32_t word, float low, float high) {
  const float value = low + (high - low) * UnitFloat(word);
  return low < high && value >= high ? low : value;  // the sum can round up to `high`
}

SOK_HOST_DEVICE inline double StandardNormal(uint32_t word) {
  return NormalQuantile(OpenUnitDouble(word));
}

/// A standard normal variable conditioned on lying in [-2, 2].
SOK_HOST_DEVICE inline double TruncatedNormal(uint32_t word) {
  constexpr double kBelowMinusTwo = 0.022750131948179209;  // P(n < -2)
  const double n =
      NormalQuantile(kBelowMinusTwo + (1.0 - 2.0 * kBelowMinusTwo) * OpenUnitDouble(word));
  return n < -2.0 ? -2.0 : (n > 2.0 ? 2.0 : n);  // the quantile is accurate to 1e-7 only
}

}  // namespace sok
