// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a checkpoint in TensorFlow's format as streams, whichever ranks wrote them.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_TENSORS_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_TENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/bundle_index.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace sok {

/// Reads one checkpoint, for one thread. Errors name the tensor and the file. Verifies checksums,
/// and checks the index before following it: shapes, and sizes of files.
class SavedTensors {
 public:
  /// Throws kNotFound and kDataLoss.
  explicit SavedTensors(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  /// The names of all tensors, ascending.
  std::vector<std::string> Names();
  bool Contains(const std::string& name);
  /// Throws kNotFound.
  void CheckContains(const std::string& name);
  /// The dtype of a tensor. Throws kNotFound.
  tensorflow::DataType DtypeOf(const std::string& name) { return EntryOf(name).dtype(); }
  tensorflow::TensorShape ShapeOf(const std::string& name);
  /// Throws kInvalidArgument if the dtype differs, and kNotFound.
  tensorflow::TensorShape ShapeOf(const std::string& name, tensorflow::DataType dtype);
  /// Reads a whole tensor of numbers or strings.
  tensorflow::Tensor Read(const std::string& name, tensorflow::DataType dtype);

  /// The stream of first values of later keys (FirstValue::stream), a scalar int64; nullopt if
  /// absent, as in checkpoints of other programs.
  std::optional<uint64_t> StreamIn(const std::string& name);

  /// Calls use(first, count, data) for rows [first, first + count) of a numeric tensor, ascending,
  /// at most `most` at a time.
  using Use = std::function<void(int64_t first, int64_t count, const char* data)>;
  void ForEachPart(const std::string& name, int64_t most, const Use& use);

  /// Reads the saved parts of a tensor that overlap the slice, and throws if they are corrupt.
  /// Variants have no checksums.
  void Verify(const std::string& name, const tensorflow::TensorSlice& slice);

  /// A part of a tensor that was saved as a unit: the whole tensor, or a slice of its first
  /// dimension.
  struct Piece {
    int64_t first, count;  // rows
    std::string name;      // of the tensor
    tensorflow::BundleEntryProto entry;
  };
  /// The pieces, ascending, which cover all rows. Throws kInvalidArgument for slices of another
  /// dimension.
  std::vector<Piece> PiecesOf(const std::string& name);
  static int64_t RowBytesOf(const std::vector<Piece>& pieces);

  /// The data file of a piece.
  std::string PathOf(const Piece& piece) const;

  /// Identifies a tensor's contents by its shape and checksums.
  std::string SignatureOf(const std::string& name);

 protected:
  BundleIndex& index() { return index_; }

 private:
  /// A contiguous part of a file.
  struct Stored {
    tensorflow::TensorSlice slice;  // the part of the tensor
    tensorflow::BundleEntryProto entry;
  };

  tensorflow::BundleEntryProto EntryOf(const std::string& name);
  std::vector<Stored> StoredOf(const std::string& name);
  void CheckEntry(const std::string& name, const tensorflow::BundleEntryProto& entry);
  int64_t FileBytes(int shard, const std::string& path);
  std::vector<tensorflow::tstring> StringsIn(const Piece& piece) const;
  void ForEachPartOf(const Piece& piece, int64_t most, const Use& use) const;

  const std::string prefix_;
  BundleIndex index_;
  std::map<int, int64_t> file_bytes_;  // by shard
};

/// Reads one piece, from any thread. Throws kDataLoss, naming the file, if it ends too early.
class PieceReader {
 public:
  PieceReader(const SavedTensors& saved, const SavedTensors::Piece& piece);

  /// Reads its rows [first, first + count).
  void Read(int64_t first, int64_t count, char* to) const;
  int64_t row_bytes() const { return row_bytes_; }

 private:
  const SavedTensors::Piece& piece_;
  const std::string path_;
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  int64_t row_bytes_ = 0;
};

/// The checksum of a piece. With the last row, throws kDataLoss, naming the file, if it differs
/// from the stored one.
class PieceSum {
 public:
  PieceSum(const SavedTensors& saved, const SavedTensors::Piece& piece)
      : saved_(saved), piece_(piece) {}

  /// Adds rows [first, first + count), which must follow those of the last call.
  void Add(int64_t first, int64_t count, const char* data);
  /// Throws the checksum error.
  [[noreturn]] void Fail() const;

 private:
  const SavedTensors& saved_;
  const SavedTensors::Piece& piece_;
  uint32_t sum_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_TENSORS_H_
