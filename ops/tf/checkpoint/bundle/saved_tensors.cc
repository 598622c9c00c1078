// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/saved_tensors.h"

#include "ops/formats/files/checkpoint_progress.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/exported.h"
#include "ops/tf/base/tf_file_system.h"

namespace sok {

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

void SavedTensors::VerifySlice(const std::string& name, const tf::TensorSlice& slice) {
  for (const Piece& piece : StoredOf(name)) {
    tf::TensorSlice part(static_cast<int>(piece.extents.size()));
    for (int d = 0; d < part.dims(); ++d) {
      part.set_start(d, piece.extents[static_cast<size_t>(d)].start);
      part.set_length(d, piece.extents[static_cast<size_t>(d)].length);
    }
    if (part.Overlaps(slice)) Verify(piece);
  }
}

}  // namespace sok

SOK_EXPORT int64_t sok_saved_bytes() { return sok::saved_bytes; }
SOK_EXPORT int64_t sok_restored_bytes() { return sok::restored_bytes; }
