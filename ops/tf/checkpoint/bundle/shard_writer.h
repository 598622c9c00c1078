// SPDX-License-Identifier: Apache-2.0
// One rank's part of a checkpoint in TensorFlow's format, written as a stream.
#ifndef SOK_OPS_TF_CHECKPOINT_BUNDLE_SHARD_WRITER_H_
#define SOK_OPS_TF_CHECKPOINT_BUNDLE_SHARD_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/checkpoint/bundle/async_writer.h"
#include "ops/tf/checkpoint/bundle/bundle_index.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace sok {

/// A tensor as tf.train.Saver has it: `slice` says what part of a larger one it is; "": it is
/// whole.
struct TensorToSave {
  std::string name;
  std::string slice;
  tensorflow::Tensor value;
};

/// Writes a bundle of its own, <prefix>.index and <prefix>.data-00000-of-00001, which others like
/// it are merged with. TensorFlow's BundleWriter takes whole tensors only, in memory. Errors name
/// the file. For one thread.
class ShardWriter {
 public:
  /// `tensors` are in it first.
  ShardWriter(tensorflow::Env* env, const std::string& prefix,
              const std::vector<TensorToSave>& tensors);
  /// Of a part that has no files here: what SetSink is given takes its bytes, and who has these
  /// writes the index, of `entries`.
  ShardWriter();
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Takes what is written from now on. Whoever gives one ends with nullptr, also when something
  /// fails: then nothing is written any more.
  using Sink = std::function<void(const char* data, size_t num_bytes)>;
  void SetSink(Sink sink);

  /// Begins what this rank has of a tensor: [first, first + count) of its first dimension.
  void Begin(const std::string& name, tensorflow::DataType dtype,
             const tensorflow::TensorShape& shape, int64_t first, int64_t count);
  /// Begins a tensor that this rank alone has.
  void BeginWhole(const std::string& name, tensorflow::DataType dtype,
                  const tensorflow::TensorShape& shape);
  /// Bytes of its elements, as they stand in memory.
  void Append(const void* data, size_t num_bytes);
  /// As Append, in two steps: where the caller puts the bytes, and that they are there. They are
  /// written while the caller goes on.
  char* Buffer(size_t num_bytes);
  void AppendBuffer(size_t num_bytes);
  /// Throws where not as many bytes have come as the shape asks for.
  void End();

  /// Writes the index. Returns the bytes of the data, which are on the disk now.
  int64_t Finish();
  const BundleEntries& entries() const { return entries_; }

 private:
  void Write(const char* data, size_t num_bytes);
  void AddEntry(const std::string& name, const tensorflow::BundleEntryProto& entry);

  tensorflow::Env* const env_ = nullptr;
  const std::string prefix_, data_path_;
  std::unique_ptr<tensorflow::WritableFile> data_;  // nullptr: there is a sink
  Sink sink_;
  int64_t num_bytes_ = 0, bytes_not_synced_ = 0;
  BundleEntries entries_;

  // What is being written.
  std::string name_;
  tensorflow::BundleEntryProto entry_;
  int64_t bytes_to_come_ = 0;
  uint32_t sum_ = 0;

  std::unique_ptr<AsyncWriter> async_writer_;  // calls Write; ends before the rest
};

/// The files of a part that another rank's ShardWriter, which has none, makes.
class ReceivedPart {
 public:
  ReceivedPart(tensorflow::Env* env, const std::string& prefix);

  void Append(const char* data, size_t num_bytes);
  /// Writes the index. The data is on the disk then.
  void Finish(const BundleEntries& entries);

 private:
  tensorflow::Env* const env_;
  const std::string prefix_, data_path_;
  std::unique_ptr<tensorflow::WritableFile> data_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_CHECKPOINT_BUNDLE_SHARD_WRITER_H_
