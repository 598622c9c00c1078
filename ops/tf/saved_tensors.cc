// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/saved_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>

#include "ops/tf/border.h"
#include "ops/tf/checkpoint_progress.h"
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
  if (entry.slices().empty()) return {{0, num_rows, name, entry}};
  std::vector<Piece> pieces;
  for (const tf::TensorSliceProto& proto : entry.slices()) {
    const tf::TensorSlice slice(proto);
    const int64_t first = slice.IsFullAt(0) ? 0 : slice.start(0);
    const int64_t count = slice.IsFullAt(0) ? num_rows : slice.length(0);
    pieces.push_back(
        {first, count, name, EntryOf(tf::checkpoint::EncodeTensorNameSlice(name, slice))});
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

std::optional<uint64_t> SavedTensors::StreamIn(const std::string& name) {
  if (!Contains(name)) return std::nullopt;
  const tf::Tensor stream = Read(name, tf::DT_INT64);
  if (stream.NumElements() == 1) return static_cast<uint64_t>(*Data<int64_t>(stream));
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_, " has the shape ",
        stream.shape().DebugString(), "; a seed is a scalar");
}

int64_t SavedTensors::RowBytesOf(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.count > 0) return piece.entry.size() / piece.count;
  }
  return 0;
}

void SavedTensors::ForEachPart(const std::string& name, int64_t most, const Use& use) {
  std::string data;
  for (const Piece& piece : PiecesOf(name)) {
    const PieceReader reader(*this, piece);
    PieceSum sum(*this, piece);
    data.resize(static_cast<size_t>(std::min(most, piece.count) * reader.row_bytes()));
    for (int64_t first = 0; first < piece.count; first += most) {
      const int64_t count = std::min(most, piece.count - first);
      reader.Read(first, count, data.data());
      sum.Add(first, count, data.data());
      use(piece.first + first, count, data.data());
    }
  }
}

PieceReader::PieceReader(const SavedTensors& saved, const SavedTensors::Piece& piece)
    : piece_(piece), path_(saved.PathOf(piece)) {
  const int64_t num_bytes = piece.entry.size();
  const int64_t elements = tf::TensorShape(piece.entry.shape()).num_elements();
  if (num_bytes != elements * tf::DataTypeSize(piece.entry.dtype()))
    Throw(ErrorCode::kDataLoss, path_, " has ", num_bytes, " bytes of ", piece.name, " for ",
          elements, " elements");
  if (num_bytes == 0) return;
  ThrowOfFile(tf::Env::Default()->NewRandomAccessFile(path_, &file_), path_);
  row_bytes_ = num_bytes / piece.count;
}

void PieceReader::Read(int64_t first, int64_t count, char* to) const {
  const auto num_bytes = static_cast<size_t>(count * row_bytes_);
  if (num_bytes == 0) return;
  absl::string_view read;
  const absl::Status status =
      ReadAt(*file_, static_cast<uint64_t>(piece_.entry.offset() + first * row_bytes_),
             absl::MakeSpan(to, num_bytes), &read);
  if (read.size() < num_bytes && (status.ok() || status.code() == absl::StatusCode::kOutOfRange))
    Throw(ErrorCode::kDataLoss, path_, " ends within ", piece_.name,
          ": it is not as it was written");
  ThrowOfFile(status, path_);
  if (read.data() != to) std::memcpy(to, read.data(), num_bytes);
  NoteCheckpointBytes(static_cast<int64_t>(num_bytes));
}

void PieceSum::Add(int64_t first, int64_t count, const char* data) {
  if (piece_.entry.size() == 0) return;
  const int64_t row_bytes = piece_.entry.size() / piece_.count;
  sum_ = tf::crc32c::Extend(sum_, data, static_cast<size_t>(count * row_bytes));
  if (first + count < piece_.count || tf::crc32c::Mask(sum_) == piece_.entry.crc32c()) return;
  Throw(ErrorCode::kDataLoss, saved_.PathOf(piece_), " is not as it was written: the checksum of ",
        piece_.name, " is another one; restore an earlier checkpoint");
}

std::string SavedTensors::PathOf(const Piece& piece) const {
  return tf::DataFilename(prefix_, piece.entry.shard_id(), num_shards_);
}

std::string SavedTensors::SignatureOf(const std::string& name) {
  std::ostringstream text;
  for (const Piece& piece : PiecesOf(name))
    text << piece.count << " rows with the checksum " << piece.entry.crc32c() << "; ";
  return text.str();
}

}  // namespace sok
