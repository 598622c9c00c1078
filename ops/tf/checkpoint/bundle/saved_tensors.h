// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint in TensorFlow's format, read as streams, whichever ranks wrote them.
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

/// Reads one checkpoint, for one thread. Errors name the tensor and the file; sums are checked, and
/// what the index says of a tensor before it is followed: shapes, and that files have so many
/// bytes.
class SavedTensors {
 public:
  /// Throws kNotFound and kDataLoss.
  explicit SavedTensors(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  /// Of all tensors, ascending.
  std::vector<std::string> Names();
  bool Contains(const std::string& name);
  /// Throws kNotFound.
  void CheckContains(const std::string& name);
  /// Its dtype and shape. Throws kNotFound.
  tensorflow::DataType DtypeOf(const std::string& name) { return EntryOf(name).dtype(); }
  tensorflow::TensorShape ShapeOf(const std::string& name);
  /// Throws kInvalidArgument for another dtype, too.
  tensorflow::TensorShape ShapeOf(const std::string& name, tensorflow::DataType dtype);
  /// All of it, be it numbers or strings.
  tensorflow::Tensor Read(const std::string& name, tensorflow::DataType dtype);

  /// What keys of a table start by that come later, FirstValue::stream: a scalar int64; none where
  /// it is not there, as in what another program has written.
  std::optional<uint64_t> StreamIn(const std::string& name);

  /// Calls use(first, count, data) for at most `most` rows of a tensor of numbers at a time, of
  /// [first, first + count) of its first dimension, ascending.
  using Use = std::function<void(int64_t first, int64_t count, const char* data)>;
  void ForEachPart(const std::string& name, int64_t most, const Use& use);

  /// Reads what has been saved of a tensor, as far as it has elements of the slice, and says with
  /// an error where it is not as it was written. Nothing has sums of variants.
  void Verify(const std::string& name, const tensorflow::TensorSlice& slice);

  /// What was saved of a tensor in one go: all of it, or a slice of its first dimension.
  struct Piece {
    int64_t first, count;  // rows
    std::string name;      // of the tensor
    tensorflow::BundleEntryProto entry;
  };
  /// Ascending, and all rows are in one. Throws kInvalidArgument for slices of another dimension.
  std::vector<Piece> PiecesOf(const std::string& name);
  static int64_t RowBytesOf(const std::vector<Piece>& pieces);

  /// The file that has it.
  std::string PathOf(const Piece& piece) const;

  /// What tells this tensor from one of another checkpoint: its shape and its sums.
  std::string SignatureOf(const std::string& name);

 protected:
  BundleIndex& index() { return index_; }

 private:
  /// What stands in one place of a file.
  struct Stored {
    tensorflow::TensorSlice slice;  // of the tensor
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

/// Reads one piece, on any threads. Throws kDataLoss, naming the file, where it ends too early.
class PieceReader {
 public:
  PieceReader(const SavedTensors& saved, const SavedTensors::Piece& piece);

  /// Its rows [first, first + count).
  void Read(int64_t first, int64_t count, char* to) const;
  int64_t row_bytes() const { return row_bytes_; }

 private:
  const SavedTensors::Piece& piece_;
  const std::string path_;
  std::unique_ptr<tensorflow::RandomAccessFile> file_;
  int64_t row_bytes_ = 0;
};

/// The sum of a piece. Throws kDataLoss, naming the file, with its last row, where it is another
/// one than that which was written.
class PieceSum {
 public:
  PieceSum(const SavedTensors& saved, const SavedTensors::Piece& piece)
      : saved_(saved), piece_(piece) {}

  /// The rows [first, first + count), from where the last call has ended.
  void Add(int64_t first, int64_t count, const char* data);
  /// What it throws then.
  [[noreturn]] void Fail() const;

 private:
  const SavedTensors& saved_;
  const SavedTensors::Piece& piece_;
  uint32_t sum_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_SAVED_TENSORS_H_
