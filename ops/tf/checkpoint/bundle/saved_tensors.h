// SPDX-License-Identifier: Apache-2.0
// A checkpoint in TensorFlow's format, with TensorFlow's types.
#pragma once

#include <optional>
#include <string>

#include "ops/engine/rounding.h"
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
  /// Reads a whole tensor of numbers.
  tf::Tensor Read(const std::string& name, tf::DataType dtype);

  /// The numbers of a table's seed, int64: a scalar, or of rows of two bytes, two; nullopt if
  /// absent, as in checkpoints of other programs.
  std::optional<SavedStream> StreamIn(const std::string& name);

  /// Reads the saved parts of a tensor that overlap the slice, and throws if they are corrupt.
  void VerifySlice(const std::string& name, const tf::TensorSlice& slice);
};

}  // namespace sok
