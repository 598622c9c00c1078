// SPDX-License-Identifier: Apache-2.0
// The entries of a checkpoint's index: TensorFlow's messages, and its names of slices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sok {

/// A type of TensorFlow's elements; its number is that of DataType.
struct BundleDtype {
  static const BundleDtype& Of(int number);

  const char* name;
  int64_t num_bytes;  // of an element; 0 if that varies
};

/// [start, start + length) of a dimension.
struct Extent {
  static constexpr int64_t kWhole = -1;  // as a length: the whole dimension

  int64_t start = 0, length = kWhole;
};
using Extents = std::vector<Extent>;  // by dimension

/// Where a tensor, or one slice of it, is stored. A tensor in slices has no bytes of its own.
struct BundleEntry {
  /// Parses a BundleEntryProto. Throws kDataLoss for a damaged one, and for impossible sizes.
  explicit BundleEntry(std::string_view message);

  const BundleDtype& type() const { return BundleDtype::Of(dtype); }
  int64_t num_elements() const;

  int dtype = 0;
  std::vector<int64_t> shape;
  int64_t shard = 0, offset = 0, num_bytes = 0;
  uint32_t sum = 0;  // CRC-32C
  std::vector<Extents> slices;
};

/// The number of data files in a BundleHeaderProto. Throws kDataLoss, and kInvalidArgument for
/// numbers that are big-endian.
int64_t NumShardsIn(std::string_view header);

/// The name of a slice's own entry.
std::string SliceName(const std::string& tensor, const Extents& slice);

}  // namespace sok
