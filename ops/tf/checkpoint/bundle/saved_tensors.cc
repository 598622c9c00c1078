// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/saved_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "ops/tf/base/border.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/tf_versions.h"
#include "ops/tf/checkpoint/bundle/checkpoint_progress.h"
#include "tensorflow/core/lib/core/coding.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace sok {

namespace tf = tensorflow;

namespace {

constexpr int64_t kVerifiedBytes = 4 << 20;  // read at a time

}  // namespace

SavedTensors::SavedTensors(const std::string& prefix)
    : prefix_(prefix), index_(tf::Env::Default(), prefix) {}

std::vector<std::string> SavedTensors::Names() {
  std::vector<std::string> names;
  index_.ForEach("", [&](const std::string& name, const std::string&) {
    if (name.front() != '\0') names.push_back(name);  // otherwise it names a slice
  });
  return names;
}

bool SavedTensors::Contains(const std::string& name) { return index_.Find(name).has_value(); }

void SavedTensors::CheckContains(const std::string& name) {
  if (Contains(name)) return;
  Throw(ErrorCode::kNotFound, "the checkpoint ", prefix_, " has no tensor ", name,
        "; tf.train.list_variables lists its tensors");
}

tf::TensorShape SavedTensors::ShapeOf(const std::string& name) {
  return tf::TensorShape(EntryOf(name).shape());
}

tf::TensorShape SavedTensors::ShapeOf(const std::string& name, tf::DataType dtype) {
  const tf::BundleEntryProto entry = EntryOf(name);
  if (entry.dtype() == dtype) return tf::TensorShape(entry.shape());
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_, " is ",
        tf::DataTypeString(entry.dtype()), ", expected ", tf::DataTypeString(dtype));
}

tf::Tensor SavedTensors::Read(const std::string& name, tf::DataType dtype) {
  const tf::TensorShape shape = ShapeOf(name, dtype);
  const std::vector<Piece> pieces = PiecesOf(name);  // checks that files are large enough
  tf::Tensor tensor(dtype, shape);
  const bool has_strings = dtype == tf::DT_STRING;  // of an empty tensor, data() is null
  auto* strings = has_strings ? tensor.flat<tf::tstring>().data() : nullptr;
  auto* to = static_cast<char*>(tensor.data());
  for (const Piece& piece : pieces) {
    if (has_strings) {
      for (tf::tstring& each : StringsIn(piece)) *strings++ = std::move(each);
      continue;
    }
    const PieceReader reader(*this, piece);
    reader.Read(0, piece.count, to);
    PieceSum(*this, piece).Add(0, piece.count, to);
    to += piece.entry.size();
  }
  return tensor;
}

tf::BundleEntryProto SavedTensors::EntryOf(const std::string& name) {
  CheckContains(name);
  tf::BundleEntryProto entry;
  if (!entry.ParseFromString(*index_.Find(name)))
    Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_), " has a damaged entry of ", name);
  CheckEntry(name, entry);
  return entry;
}

/// Call before the entry is followed or memory allocated for it.
void SavedTensors::CheckEntry(const std::string& name, const tf::BundleEntryProto& entry) {
  const auto fail = [&](const auto&... how) {
    Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_), " is not as it was written: ", name, " ",
          how..., "; restore an earlier checkpoint");
  };
  if (!tf::DataType_IsValid(entry.dtype()) || entry.dtype() == tf::DT_INVALID)
    fail("has the dtype ", static_cast<int>(entry.dtype()));
  if (!tf::TensorShape::IsValidShape(entry.shape()).ok())
    fail("has the shape ", entry.shape().ShortDebugString());
  if (!entry.slices().empty()) return;  // its data is in the slices
  const int64_t elements = tf::TensorShape(entry.shape()).num_elements();
  const int64_t element_bytes = tf::DataTypeSize(entry.dtype());  // 0: variable
  const bool fits = element_bytes > 0 ? elements <= INT64_MAX / element_bytes &&
                                            entry.size() == elements * element_bytes
                                      : entry.size() >= elements;
  if (!fits) fail("has ", entry.size(), " bytes for ", elements, " elements");
  if (entry.size() == 0) return;
  if (entry.shard_id() < 0 || entry.shard_id() >= index_.num_shards())
    fail("is in data file ", entry.shard_id(), " of ", index_.num_shards());
  const std::string path = tf::DataFilename(prefix_, entry.shard_id(), index_.num_shards());
  const int64_t num_bytes = FileBytes(entry.shard_id(), path);
  if (entry.offset() < 0 || entry.size() > num_bytes || entry.offset() > num_bytes - entry.size()) {
    Throw(ErrorCode::kDataLoss, path, " ends within ", name, ": it is not as it was written");
  }
}

int64_t SavedTensors::FileBytes(int shard, const std::string& path) {
  const auto [known, is_new] = file_bytes_.emplace(shard, 0);
  if (!is_new) return known->second;
  uint64_t num_bytes = 0;
  ThrowOfFile(tf::Env::Default()->GetFileSize(path, &num_bytes), path);
  return known->second = static_cast<int64_t>(num_bytes);
}

std::vector<SavedTensors::Stored> SavedTensors::StoredOf(const std::string& name) {
  const tf::BundleEntryProto entry = EntryOf(name);
  const tf::TensorShape shape(entry.shape());
  if (entry.slices().empty()) return {{tf::TensorSlice(shape.dims()), entry}};
  std::vector<Stored> found;
  for (const tf::TensorSliceProto& proto : entry.slices()) {
    bool fits = proto.extent_size() == shape.dims() && shape.dims() > 0;
    tf::TensorShape part = shape;
    for (int d = 0; fits && d < shape.dims(); ++d) {
      const tf::TensorSliceProto::Extent& extent = proto.extent(d);
      const bool is_whole = !tf::TensorSlice::HasExtentLength(extent);
      const int64_t size = shape.dim_size(d);
      const int64_t length = is_whole ? size : extent.length();
      fits =
          extent.start() >= 0 && length >= 0 && length <= size && extent.start() <= size - length;
      if (fits) part.set_dim(d, length);
    }
    if (!fits) {
      Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_), " is not as it was written: ", name,
            ", ", shape.DebugString(), ", has the slice ", proto.ShortDebugString());
    }
    const tf::TensorSlice slice(proto);
    found.push_back({slice, EntryOf(tf::checkpoint::EncodeTensorNameSlice(name, slice))});
    const tf::BundleEntryProto& own = found.back().entry;
    if (!own.slices().empty() || own.dtype() != entry.dtype() ||
        tf::TensorShape(own.shape()) != part) {
      Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix_),
            " is not as it was written: the slice ", slice.DebugString(), " of ", name,
            " has another dtype or shape");
    }
  }
  return found;
}

/// The pieces of a tensor saved in slices, which must be along its first dimension, without gaps.
std::vector<SavedTensors::Piece> SavedTensors::PiecesOf(const std::string& name) {
  const tf::TensorShape shape = ShapeOf(name);
  const int64_t num_rows = shape.dims() == 0 ? 1 : shape.dim_size(0);
  std::vector<Piece> pieces;
  for (Stored& stored : StoredOf(name)) {
    const tf::TensorSlice& slice = stored.slice;
    const bool is_whole = slice.dims() == 0 || slice.IsFullAt(0);
    pieces.push_back({is_whole ? 0 : slice.start(0), is_whole ? num_rows : slice.length(0), name,
                      std::move(stored.entry)});
    for (int d = 1; d < slice.dims(); ++d) {
      if (slice.IsFullAt(d) || slice.length(d) == shape.dim_size(d)) continue;
      Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_,
            " was saved in slices along a dimension other than its first");
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

void SavedTensors::Verify(const std::string& name, const tf::TensorSlice& slice) {
  for (const Stored& stored : StoredOf(name)) {
    if (!stored.slice.Overlaps(slice)) continue;
    // Treats it as rows of one byte each.
    const Piece piece{0, stored.entry.size(), name, stored.entry};
    if (stored.entry.dtype() == tf::DT_STRING) {
      StringsIn(piece);
    } else if (tf::DataTypeSize(stored.entry.dtype()) > 0) {
      ForEachPartOf(piece, kVerifiedBytes, [](int64_t, int64_t, const char*) {});
    }
  }
}

/// In the file: the strings' lengths, a checksum of these, and the bytes. The tensor's checksum
/// covers lengths as 4 bytes, or as 8 if they need it.
std::vector<tf::tstring> SavedTensors::StringsIn(const Piece& piece) const {
  Piece bytes = piece;
  bytes.count = bytes.entry.size();
  std::string data(static_cast<size_t>(bytes.count), ' ');
  PieceReader(*this, bytes).Read(0, bytes.count, data.data());
  const auto fail = [&] { PieceSum(*this, bytes).Fail(); };
  absl::string_view rest(data);
  std::vector<uint64_t> lengths(
      static_cast<size_t>(tf::TensorShape(piece.entry.shape()).num_elements()));
  uint32_t sum = 0;
  uint64_t num_chars = 0;
  for (uint64_t& length : lengths) {
    if (!tf::core::GetVarint64(&rest, &length) || length > data.size()) fail();
    num_chars += length;
    sum = tf::crc32c::Extend(sum, reinterpret_cast<const char*>(&length), length >> 32 ? 8 : 4);
  }
  if (lengths.empty()) return {};
  constexpr size_t kSumBytes = 4;
  if (rest.size() != kSumBytes + num_chars) fail();
  sum = tf::crc32c::Extend(sum, rest.data(), rest.size());
  if (tf::crc32c::Mask(sum) != piece.entry.crc32c()) fail();
  rest.remove_prefix(kSumBytes);
  std::vector<tf::tstring> strings;
  for (const uint64_t length : lengths) {
    strings.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return strings;
}

std::optional<uint64_t> SavedTensors::StreamIn(const std::string& name) {
  if (!Contains(name)) return std::nullopt;
  const tf::Tensor stream = Read(name, tf::DT_INT64);
  if (stream.NumElements() == 1) return static_cast<uint64_t>(*Data<int64_t>(stream));
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix_, " has the shape ",
        stream.shape().DebugString(), "; a seed must be a scalar");
}

int64_t SavedTensors::RowBytesOf(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.count > 0) return piece.entry.size() / piece.count;
  }
  return 0;
}

void SavedTensors::ForEachPart(const std::string& name, int64_t most, const Use& use) {
  for (const Piece& piece : PiecesOf(name)) ForEachPartOf(piece, most, use);
}

void SavedTensors::ForEachPartOf(const Piece& piece, int64_t most, const Use& use) const {
  const PieceReader reader(*this, piece);
  PieceSum sum(*this, piece);
  std::string data(static_cast<size_t>(std::min(most, piece.count) * reader.row_bytes()), ' ');
  for (int64_t first = 0; first < piece.count; first += most) {
    const int64_t count = std::min(most, piece.count - first);
    reader.Read(first, count, data.data());
    sum.Add(first, count, data.data());
    use(piece.first + first, count, data.data());
  }
}

PieceReader::PieceReader(const SavedTensors& saved, const SavedTensors::Piece& piece)
    : piece_(piece), path_(saved.PathOf(piece)) {
  const int64_t num_bytes = piece.entry.size();
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
  Fail();
}

void PieceSum::Fail() const {
  Throw(ErrorCode::kDataLoss, saved_.PathOf(piece_), " is not as it was written: the checksum of ",
        piece_.name, " differs; restore an earlier checkpoint");
}

std::string SavedTensors::PathOf(const Piece& piece) const {
  return tf::DataFilename(prefix_, piece.entry.shard_id(), index_.num_shards());
}

std::string SavedTensors::SignatureOf(const std::string& name) {
  std::ostringstream text;
  for (const Piece& piece : PiecesOf(name))
    text << piece.count << " rows with the checksum " << piece.entry.crc32c() << "; ";
  return text.str();
}

}  // namespace sok
