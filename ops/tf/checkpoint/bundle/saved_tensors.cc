// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/saved_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/formats/files/checkpoint_progress.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/exported.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/tables/resource/plane_variable.h"

namespace sok {

namespace {

/// Copies what a piece has of a slice, both matrices, to the slice as floats. Returns how many.
int64_t CopyOverlap(const PieceReader& reader, const Bundle::Piece& piece, Element element,
                    const tf::TensorSlice& slice, float* to) {
  constexpr int64_t kBlockBytes = 4 << 20;
  const Extent rows = piece.extents[0], columns = piece.extents[1];
  const int64_t first = std::max(rows.start, slice.start(0));
  const int64_t end = std::min(rows.start + rows.length, slice.end(0));
  const int64_t left = std::max(columns.start, slice.start(1));
  const int64_t right = std::min(columns.start + columns.length, slice.end(1));
  const int64_t at_once = std::max<int64_t>(kBlockBytes / reader.row_bytes(), 1);
  std::vector<char> block;
  for (int64_t begin = first; begin < end; begin += at_once) {
    const int64_t count = std::min(at_once, end - begin);
    block.resize(static_cast<size_t>(count * reader.row_bytes()));
    reader.Read(begin - rows.start, count, block.data());
    const RowsView read{block.data(), element, columns.length};
    for (int64_t i = 0; i < count; ++i) {
      float* row = to + (begin + i - slice.start(0)) * slice.length(1) + left - slice.start(1);
      WithElement(read.From(i).FromColumn(left - columns.start), [&](const auto* numbers) {
        std::transform(numbers, numbers + (right - left), row,
                       [](auto number) { return Widened(number); });
      });
    }
  }
  return (end - first) * (right - left);
}

}  // namespace

SavedTensors::SavedTensors(const std::string& prefix) : Bundle(TfFileSystem(), prefix) {}

tf::DataType SavedTensors::DtypeOf(const std::string& name) {
  return static_cast<tf::DataType>(EntryOf(name).dtype);
}

tf::TensorShape SavedTensors::ShapeOf(const std::string& name) {
  return tf::TensorShape(EntryOf(name).shape);
}

tf::TensorShape SavedTensors::ShapeOf(const std::string& name, tf::DataType dtype) {
  const BundleEntry entry = EntryOf(name);
  if (entry.dtype == dtype) return tf::TensorShape(entry.shape);
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " is ",
        entry.type().name, ", expected ", BundleDtype::Of(dtype).name);
}

Element SavedTensors::ElementOf(const std::string& name) {
  const tf::DataType dtype = DtypeOf(name);
  for (const auto& each : kElements) {
    if (DataTypeOf(each.value) == dtype) return each.value;
  }
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " is ",
        BundleDtype::Of(dtype).name, ", expected float32, bfloat16 or float16");
}

tf::Tensor SavedTensors::Read(const std::string& name, tf::DataType dtype) {
  const tf::TensorShape shape = ShapeOf(name, dtype);
  const std::vector<Piece> pieces = PiecesOf(name);  // checks that files are large enough
  tf::Tensor tensor(dtype, shape);
  auto* to = static_cast<char*>(tensor.data());
  for (const Piece& piece : pieces) {
    PieceReader(*this, piece).Read(0, piece.count, to);
    PieceSum(*this, piece).Add(0, piece.count, to);
    to += piece.entry.num_bytes;
  }
  return tensor;
}

std::optional<SavedStream> SavedTensors::StreamIn(const std::string& name) {
  if (!Contains(name)) return std::nullopt;
  const tf::Tensor stream = Read(name, tf::DT_INT64);
  const int64_t count = stream.NumElements();
  const auto* numbers = Data<int64_t>(stream);
  if (count == 1 || count == 2)
    return SavedStream{static_cast<uint64_t>(numbers[0]), count == 2 ? numbers[1] : 0};
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " has the shape ",
        stream.shape().DebugString(), "; a seed must be a scalar, or two numbers");
}

std::vector<Bundle::Piece> SavedTensors::PiecesIn(const std::string& name,
                                                  const tf::TensorSlice& slice) {
  std::vector<Piece> found;
  for (Piece& piece : StoredOf(name)) {
    tf::TensorSlice part(static_cast<int>(piece.extents.size()));
    for (int d = 0; d < part.dims(); ++d) {
      part.set_start(d, piece.extents[static_cast<size_t>(d)].start);
      part.set_length(d, piece.extents[static_cast<size_t>(d)].length);
    }
    if (part.Overlaps(slice)) found.push_back(std::move(piece));
  }
  return found;
}

void SavedTensors::VerifySlice(const std::string& name, const tf::TensorSlice& slice) {
  for (const Piece& piece : PiecesIn(name, slice)) Verify(piece);
}

void SavedTensors::ReadSlice(const std::string& name, const tf::TensorSlice& slice, float* to) {
  const Element element = ElementOf(name);
  int64_t num_missing = slice.length(0) * slice.length(1);
  for (const Piece& piece : PiecesIn(name, slice)) {
    Verify(piece);
    num_missing -= CopyOverlap(PieceReader(*this, piece), piece, element, slice, to);
  }
  if (num_missing == 0) return;
  Throw(ErrorCode::kDataLoss, IndexPath(prefix()), " lacks parts of ", name,
        "; restore an earlier checkpoint");
}

}  // namespace sok

SOK_EXPORT int64_t sok_saved_bytes() { return sok::saved_bytes; }
SOK_EXPORT int64_t sok_restored_bytes() { return sok::restored_bytes; }
