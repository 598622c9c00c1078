// SPDX-License-Identifier: Apache-2.0
// The messages are those of TensorFlow's tensor_bundle.proto, tensor_shape.proto and
// tensor_slice.proto.
#include "ops/formats/bundle/bundle_entry.h"

#include <algorithm>
#include <iterator>

#include "ops/formats/bundle/wire.h"
#include "ops/formats/files/crc32c.h"

namespace sok {
namespace {

constexpr size_t kMostDimensions = 254;  // of TensorFlow's shapes

constexpr BundleDtype kDtypes[] = {
    {nullptr, 0},
    {"float32", 4},
    {"float64", 8},
    {"int32", 4},
    {"uint8", 1},
    {"int16", 2},
    {"int8", 1},
    {"string", 0},
    {"complex64", 8},
    {"int64", 8},
    {"bool", 1},
    {"qint8", 1},
    {"quint8", 1},
    {"qint32", 4},
    {"bfloat16", 2},
    {"qint16", 2},
    {"quint16", 2},
    {"uint16", 2},
    {"complex128", 16},
    {"float16", 2},
    {"resource", 0},
    {"variant", 0},
    {"uint32", 4},
    {"uint64", 8},
    {"float8_e5m2", 1},
    {"float8_e4m3fn", 1},
    {"float8_e4m3fnuz", 1},
    {"float8_e4m3b11fnuz", 1},
    {"float8_e5m2fnuz", 1},
    {"int4", 1},
    {"uint4", 1},
    {"int2", 1},
    {"uint2", 1},
    {"float4_e2m1fn", 1},
};

int64_t SizeOf(std::string_view dimension) {
  int64_t size = 0;
  ForEachField(dimension, [&](uint64_t id, const WireField& field) {
    if (id == 1) size = static_cast<int64_t>(field.number);
  });
  return size;
}

std::vector<int64_t> ShapeIn(std::string_view message) {
  std::vector<int64_t> shape;
  ForEachField(message, [&](uint64_t id, const WireField& field) {
    if (id == 2) shape.push_back(SizeOf(field.bytes));
    if (id == 3 && field.number != 0) Throw(ErrorCode::kDataLoss, "its shape is unknown");
  });
  return shape;
}

Extents SliceIn(std::string_view message) {
  Extents slice;
  ForEachField(message, [&](uint64_t id, const WireField& field) {
    if (id != 1) return;
    Extent& extent = slice.emplace_back();
    ForEachField(field.bytes, [&](uint64_t part, const WireField& value) {
      if (part == 1) extent.start = static_cast<int64_t>(value.number);
      if (part == 2) extent.length = static_cast<int64_t>(value.number);
    });
  });
  return slice;
}

/// TensorFlow's OrderedCode of a number that is not negative: how many bytes, and these.
std::string OrderedCode(uint64_t number) {
  std::string digits;
  for (; number > 0; number >>= 8) digits.insert(digits.begin(), static_cast<char>(number & 0xff));
  return static_cast<char>(digits.size()) + digits;
}

/// Of a signed one: as many leading ones as bytes, of which each has 7 bits of the number.
std::string SignedOrderedCode(int64_t number) {
  const uint64_t magnitude = number < 0 ? ~static_cast<uint64_t>(number) : number;
  unsigned num_bytes = 1;
  while (7 * num_bytes - 1 < 64 && magnitude >> (7 * num_bytes - 1) != 0) ++num_bytes;
  std::string code(num_bytes, '\0');
  for (unsigned i = 0; i < num_bytes; ++i) {
    const unsigned at = num_bytes - 1 - i;  // from the end
    const int64_t byte = at < 8 ? number >> (8 * at) : number >> 63;
    const unsigned ones = std::min(8u, num_bytes - std::min(num_bytes, 8 * i));
    code[i] = static_cast<char>((byte ^ (0xff00 >> ones)) & 0xff);
  }
  return code;
}

}  // namespace

BundleEntry::BundleEntry(std::string_view message) {
  ForEachField(message, [&](uint64_t id, const WireField& field) {
    const auto number = static_cast<int64_t>(field.number);
    if (id == 1) dtype = static_cast<int>(number);
    if (id == 2) shape = ShapeIn(field.bytes);
    if (id == 3) shard = number;
    if (id == 4) offset = number;
    if (id == 5) num_bytes = number;
    if (id == 6) sum = UnmaskedCrc32c(static_cast<uint32_t>(number));
    if (id == 7) slices.push_back(SliceIn(field.bytes));
  });
  if (dtype <= 0 || dtype >= static_cast<int>(std::size(kDtypes)))
    Throw(ErrorCode::kDataLoss, "has the dtype ", dtype);
  if (shape.size() > kMostDimensions)
    Throw(ErrorCode::kDataLoss, "has ", shape.size(), " dimensions");
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && elements > INT64_MAX / size))
      Throw(ErrorCode::kDataLoss, "has a dimension of ", size);
    elements *= size;
  }
  if (!slices.empty()) return;  // its data is in the slices
  const int64_t element_bytes = type().num_bytes;
  const bool fits = element_bytes > 0 ? elements <= INT64_MAX / element_bytes &&
                                            num_bytes == elements * element_bytes
                                      : num_bytes >= elements;
  if (!fits) Throw(ErrorCode::kDataLoss, "has ", num_bytes, " bytes for ", elements, " elements");
}

const BundleDtype& BundleDtype::Of(int number) { return kDtypes[number]; }

int64_t BundleEntry::num_elements() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

int64_t NumShardsIn(std::string_view header) {
  int64_t num_shards = 0;
  bool is_big_endian = false;
  ForEachField(header, [&](uint64_t id, const WireField& field) {
    if (id == 1) num_shards = static_cast<int64_t>(field.number);
    if (id == 2) is_big_endian = field.number != 0;
  });
  if (is_big_endian) Throw(ErrorCode::kInvalidArgument, "was written on a big-endian machine");
  if (num_shards < 0) Throw(ErrorCode::kDataLoss, "has ", num_shards, " data files");
  return num_shards;
}

std::string SliceName(const std::string& tensor, const Extents& slice) {
  std::string name(1, '\0');
  for (const char byte : tensor) {
    name += byte;
    if (byte == '\0') name += '\xff';
    if (byte == '\xff') name += '\0';
  }
  name += std::string("\0\1", 2) + OrderedCode(slice.size());
  for (const Extent& extent : slice)
    name += SignedOrderedCode(extent.start) + SignedOrderedCode(extent.length);
  return name;
}

}  // namespace sok
