// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/saved_tensors.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "ops/tf/border.h"
#include "ops/tf/dump_note.h"
#include "ops/tf/tf_versions.h"
#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace sok {

namespace tf = tensorflow;

SavedTensors::SavedTensors(const std::string& prefix)
    : prefix_(prefix), reader_(tf::Env::Default(), prefix) {
  if (!reader_.status().ok()) {
    Throw(CodeOf(reader_.status()), "cannot read the checkpoint ", prefix, ": ",
          reader_.status().message());
  }
  tf::BundleHeaderProto header;
  reader_.Seek(tf::kHeaderEntryKey);
  if (!reader_.Valid() || !header.ParseFromString(std::string(reader_.value())))
    Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix), " has no header");
  num_shards_ = header.num_shards();
}

bool SavedTensors::Contains(const std::string& name) { return reader_.Contains(name); }

void SavedTensors::CheckContains(const std::string& name) {
  if (Contains(name)) return;
  Throw(ErrorCode::kNotFound, "the checkpoint ", prefix_, " has no tensor ", name,
        "; tf.train.list_variables says which it has");
}

tf::TensorShape SavedTensors::ShapeOf(const std::string& name, tf::DataType dtype) {
  tf::DataType saved_dtype;
  tf::TensorShape shape;
  CheckContains(name);
  ThrowIfError(reader_.LookupDtypeAndShape(name, &saved_dtype, &shape));
  if (saved_dtype == dtype) return shape;
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_, " is ",
        tf::DataTypeString(saved_dtype), ", expected ", tf::DataTypeString(dtype));
}

tf::Tensor SavedTensors::Read(const std::string& name, tf::DataType dtype) {
  tf::Tensor tensor(dtype, ShapeOf(name, dtype));
  ThrowIfError(reader_.Lookup(name, &tensor));
  return tensor;
}

tf::BundleEntryProto SavedTensors::EntryOf(const std::string& name) {
  tf::BundleEntryProto entry;
  reader_.Seek(name);
  if (!reader_.Valid() || reader_.key() != name ||
      !entry.ParseFromString(std::string(reader_.value())))
    Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_), " says not where ", name, " is");
  return entry;
}

/// Of a tensor that was saved in slices, which must be of its first dimension and leave no gap.
std::vector<SavedTensors::Piece> SavedTensors::PiecesOf(const std::string& name) {
  CheckContains(name);
  const tf::BundleEntryProto entry = EntryOf(name);
  const tf::TensorShape shape(entry.shape());
  const int64_t num_rows = shape.dims() == 0 ? 1 : shape.dim_size(0);
  if (entry.slices().empty()) return {{0, num_rows, entry}};
  std::vector<Piece> pieces;
  for (const tf::TensorSliceProto& proto : entry.slices()) {
    const tf::TensorSlice slice(proto);
    const int64_t first = slice.IsFullAt(0) ? 0 : slice.start(0);
    const int64_t count = slice.IsFullAt(0) ? num_rows : slice.length(0);
    pieces.push_back({first, count, EntryOf(tf::checkpoint::EncodeTensorNameSlice(name, slice))});
    tf::TensorShape part = shape;
    part.set_dim(0, count);
    if (tf::TensorShape(pieces.back().entry.shape()) != part) {
      Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_,
            " was saved in slices of another dimension than its first");
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.first < b.first; });
  int64_t next = 0;
  for (const Piece& piece : pieces) {
    if (piece.first != next) break;
    next += piece.count;
  }
  if (next == num_rows) return pieces;
  Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_), " has no slice of ", name, " for row ",
        next, " of ", num_rows);
}

void SavedTensors::ForEachPart(const std::string& name, int64_t most, const Use& use) {
  for (const Piece& piece : PiecesOf(name)) ReadPiece(name, piece, most, use);
}

void SavedTensors::ReadPiece(const std::string& name, const Piece& piece, int64_t most,
                             const Use& use) {
  const int64_t num_bytes = piece.entry.size();
  const int64_t elements = tf::TensorShape(piece.entry.shape()).num_elements();
  const std::string path = PathOf(piece.entry);
  if (num_bytes != elements * tf::DataTypeSize(piece.entry.dtype()))
    Throw(ErrorCode::kDataLoss, path, " has ", num_bytes, " bytes of ", name, " for ", elements,
          " elements");
  if (num_bytes == 0) return;
  std::unique_ptr<tf::RandomAccessFile> file;
  ThrowOfFile(tf::Env::Default()->NewRandomAccessFile(path, &file), path);
  const int64_t row_bytes = num_bytes / piece.count;
  std::string room;
  uint32_t sum = 0;
  for (int64_t first = 0; first < piece.count; first += most) {
    const int64_t count = std::min(most, piece.count - first);
    const auto part_bytes = static_cast<size_t>(count * row_bytes);
    room.resize(part_bytes);
    absl::string_view read;
    const absl::Status status =
        ReadAt(*file, static_cast<uint64_t>(piece.entry.offset() + first * row_bytes),
               absl::MakeSpan(room), &read);
    if (read.size() < part_bytes && (status.ok() || status.code() == absl::StatusCode::kOutOfRange))
      Throw(ErrorCode::kDataLoss, path, " ends within ", name, ": it is not as it was written");
    ThrowOfFile(status, path);
    sum = tf::crc32c::Extend(sum, read.data(), read.size());
    use(piece.first + first, count, read.data());
  }
  if (tf::crc32c::Mask(sum) == piece.entry.crc32c()) return;
  Throw(ErrorCode::kDataLoss, path, " is not as it was written: the checksum of ", name,
        " is another one; restore an earlier checkpoint");
}

std::string SavedTensors::PathOf(const tf::BundleEntryProto& entry) const {
  return tf::DataFilename(prefix_, entry.shard_id(), num_shards_);
}

std::string SavedTensors::SignatureOf(const std::string& name) {
  std::ostringstream text;
  for (const Piece& piece : PiecesOf(name))
    text << piece.count << " rows with the checksum " << piece.entry.crc32c() << "; ";
  return text.str();
}

}  // namespace sok
