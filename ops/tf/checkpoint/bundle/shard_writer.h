// SPDX-License-Identifier: Apache-2.0
// Writes one rank's part of a checkpoint in TensorFlow's format as a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/formats/files/synced_file.h"
#include "ops/tf/base/namespace_tf.h"
#include "ops/tf/checkpoint/bundle/async_writer.h"
#include "ops/tf/checkpoint/bundle/bundle_index.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace sok {

/// A tensor as given by tf.train.Saver: `slice` is the part of a larger tensor that it is; "" if it
/// is whole.
struct TensorToSave {
  std::string name;
  std::string slice;
  tf::Tensor value;
};

/// Writes a bundle, <prefix>.index and <prefix>.data-00000-of-00001, to be merged with others.
/// TensorFlow's BundleWriter only takes whole tensors in memory. Errors name the file. For one
/// thread.
class ShardWriter {
 public:
  /// The bundle begins with `tensors`. `most_bytes`: of what waits in memory for the disk.
  ShardWriter(const std::string& prefix, const std::vector<TensorToSave>& tensors,
              size_t most_bytes);
  /// For a part without local files: its bytes go to the sink given to SetSink, and the receiver
  /// writes the index, from `entries`.
  ShardWriter();
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Receives the bytes written from now on, on another thread. Whoever sets a sink must await
  /// them and reset it to nullptr, even after a failure; nothing is written afterwards.
  using Sink = std::function<void(const char* data, size_t num_bytes)>;
  void SetSink(Sink sink);

  /// Begins this rank's part of a tensor: rows [first, first + count) of its first dimension.
  void Begin(const std::string& name, tf::DataType dtype, const tf::TensorShape& shape,
             int64_t first, int64_t count);
  /// Begins a tensor that only this rank has.
  void BeginWhole(const std::string& name, tf::DataType dtype, const tf::TensorShape& shape);
  /// Appends bytes of its elements, as in memory.
  void Append(const void* data, size_t num_bytes);
  /// As Append, in two steps: a buffer for the caller to fill, and its release.
  char* Buffer(size_t num_bytes);
  void AppendBuffer(size_t num_bytes);
  /// Throws if the number of bytes does not match the shape.
  void End();
  /// All calls above return before their bytes are written, and throw what went wrong before.
  void AwaitWritten();

  /// Writes the index. Returns the size of the data, which is on the disk now.
  int64_t Finish();
  /// Valid after AwaitWritten.
  const BundleEntries& entries() const { return entries_; }

 private:
  void Write(const char* data, size_t num_bytes);
  std::string* AddEntry(const std::string& name, const tf::BundleEntryProto& entry);

  const std::string prefix_;
  std::optional<SyncedFile> data_;  // nullopt if there is a sink
  Sink sink_;
  int64_t num_bytes_ = 0;
  BundleEntries entries_;

  // The tensor that the caller appends to.
  std::string name_;
  tf::BundleEntryProto entry_;
  int64_t bytes_to_come_ = 0;

  uint32_t sum_ = 0;          // of the tensor being written
  AsyncWriter async_writer_;  // calls Write; must be destroyed first
};

}  // namespace sok
