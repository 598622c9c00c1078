// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint in TensorFlow's format, read as streams, whichever ranks wrote them.
#ifndef SOK_OPS_TF_SAVED_TENSORS_H_
#define SOK_OPS_TF_SAVED_TENSORS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace sok {

/// Reads one checkpoint, for one thread. Errors name the tensor and the file; sums are checked.
class SavedTensors {
 public:
  /// Throws kNotFound.
  explicit SavedTensors(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  bool Contains(const std::string& name);
  /// Throws kNotFound.
  void CheckContains(const std::string& name);
  /// Its shape. Throws kNotFound, and kInvalidArgument for another dtype.
  tensorflow::TensorShape ShapeOf(const std::string& name, tensorflow::DataType dtype);
  /// All of it.
  tensorflow::Tensor Read(const std::string& name, tensorflow::DataType dtype);

  /// Calls use(first, count, data) for at most `most` rows of a tensor of numbers at a time, of
  /// [first, first + count) of its first dimension, ascending.
  using Use = std::function<void(int64_t first, int64_t count, const char* data)>;
  void ForEachPart(const std::string& name, int64_t most, const Use& use);

  /// What tells this tensor from one of another checkpoint: its shape and its sums.
  std::string SignatureOf(const std::string& name);

 protected:
  tensorflow::BundleReader& reader() { return reader_; }
  tensorflow::BundleEntryProto EntryOf(const std::string& name);

 private:
  struct Piece {
    int64_t first, count;  // rows
    tensorflow::BundleEntryProto entry;
  };
  std::vector<Piece> PiecesOf(const std::string& name);
  void ReadPiece(const std::string& name, const Piece& piece, int64_t most, const Use& use);
  std::string PathOf(const tensorflow::BundleEntryProto& entry) const;

  const std::string prefix_;
  tensorflow::BundleReader reader_;
  int num_shards_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_SAVED_TENSORS_H_
