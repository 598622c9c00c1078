// SPDX-License-Identifier: Apache-2.0
// A checkpoint in TensorFlow's format, with TensorFlow's types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/engine/rounding.h"
#include "ops/engine/rows_view.h"
#include "ops/formats/bundle/bundle.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_slice.h"

namespace sok {

/// On any of TensorFlow's file systems.
class SavedTensors : public Bundle {
 public:
  explicit SavedTensors(const std::string& prefix);

  /// The dtype of a tensor. Throws kNotFound.
  tf::DataType DtypeOf(const std::string& name);
  tf::TensorShape ShapeOf(const std::string& name);
  /// Throws kInvalidArgument if the dtype differs, and kNotFound.
  tf::TensorShape ShapeOf(const std::string& name, tf::DataType dtype);
  /// The type of the numbers of rows. Throws kInvalidArgument if rows cannot have it, and
  /// kNotFound.
  Element ElementOf(const std::string& name);
  /// Reads a whole tensor of numbers.
  tf::Tensor Read(const std::string& name, tf::DataType dtype);

  /// The numbers of a table's seed, int64: a scalar, or of rows of two bytes, two; nullopt if
  /// absent, as in checkpoints of other programs.
  std::optional<SavedStream> StreamIn(const std::string& name);

  /// Reads the saved parts of a tensor that overlap the slice, and throws if they are corrupt.
  void VerifySlice(const std::string& name, const tf::TensorSlice& slice);
  /// Reads a slice of a matrix of rows as floats, and verifies it. Its saved parts may be any.
  /// TensorFlow's readers take no parts of float16.
  void ReadSlice(const std::string& name, const tf::TensorSlice& slice, float* to);

 private:
  /// The saved parts that overlap the slice.
  std::vector<Piece> PiecesIn(const std::string& name, const tf::TensorSlice& slice);
};

}  // namespace sok
