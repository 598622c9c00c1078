// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/shard_writer.h"

#include <algorithm>
#include <utility>

#include "ops/formats/bundle/bundle.h"
#include "ops/formats/files/checkpoint_progress.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/tf_file_system.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace sok {
namespace {

/// Uses TensorFlow's own writer, which supports all dtypes.
void WriteTensors(const std::string& prefix, const std::vector<TensorToSave>& tensors) {
  tf::BundleWriter writer(tf::Env::Default(), prefix);
  ThrowOfFile(writer.status(), prefix);
  for (const TensorToSave& tensor : tensors) {
    if (tensor.slice.empty()) {
      ThrowOfFile(writer.Add(tensor.name, tensor.value), prefix);
      continue;
    }
    tf::TensorShape shape, slice_shape;
    tf::TensorSlice slice;
    ThrowIfError(tf::checkpoint::ParseShapeAndSlice(tensor.slice, &shape, &slice, &slice_shape));
    if (slice_shape != tensor.value.shape()) {
      Throw(ErrorCode::kInvalidArgument, tensor.name, " has the shape ",
            tensor.value.shape().DebugString(), ", but its slice ", tensor.slice, " has the shape ",
            slice_shape.DebugString());
    }
    ThrowOfFile(writer.AddSlice(tensor.name, shape, slice, tensor.value), prefix);
  }
  ThrowOfFile(writer.Finish(), prefix);
}

}  // namespace

ShardWriter::ShardWriter(const std::string& prefix, const std::vector<TensorToSave>& tensors,
                         size_t most_bytes)
    : prefix_(prefix),
      async_writer_([this](const char* bytes, size_t size) { Write(bytes, size); }, most_bytes) {
  WriteTensors(prefix, tensors);
  entries_ = ReadIndex(prefix);
  data_.emplace(TfFileSystem(), DataPath(prefix, 0, 1), /*appends=*/true);
  num_bytes_ = TfFileSystem().Size(data_->path());
}

ShardWriter::ShardWriter()
    : async_writer_([this](const char* bytes, size_t size) { Write(bytes, size); }) {}

ShardWriter::~ShardWriter() = default;

void ShardWriter::SetSink(Sink sink) { sink_ = std::move(sink); }

void ShardWriter::Begin(const std::string& name, tf::DataType dtype, const tf::TensorShape& shape,
                        int64_t first, int64_t count) {
  if (count == shape.dim_size(0)) return BeginWhole(name, dtype, shape);
  tf::TensorSlice slice(shape.dims());
  slice.set_start(0, first);
  slice.set_length(0, count);
  tf::BundleEntryProto full;
  full.set_dtype(dtype);
  shape.AsProto(full.mutable_shape());
  slice.AsProto(full.add_slices());
  AddEntry(name, full);
  tf::TensorShape part = shape;
  part.set_dim(0, count);
  BeginWhole(tf::checkpoint::EncodeTensorNameSlice(name, slice), dtype, part);
}

void ShardWriter::BeginWhole(const std::string& name, tf::DataType dtype,
                             const tf::TensorShape& shape) {
  name_ = name;
  entry_.Clear();
  entry_.set_dtype(dtype);
  shape.AsProto(entry_.mutable_shape());
  entry_.set_offset(num_bytes_);
  entry_.set_size(shape.num_elements() * tf::DataTypeSize(dtype));
  bytes_to_come_ = entry_.size();
}

void ShardWriter::Append(const void* data, size_t num_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  std::copy(bytes, bytes + num_bytes, Buffer(num_bytes));
  AppendBuffer(num_bytes);
}

char* ShardWriter::Buffer(size_t num_bytes) { return async_writer_.Buffer(num_bytes); }

void ShardWriter::AppendBuffer(size_t num_bytes) {
  async_writer_.Put(num_bytes);
  bytes_to_come_ -= static_cast<int64_t>(num_bytes);
  num_bytes_ += static_cast<int64_t>(num_bytes);
}

void ShardWriter::Write(const char* data, size_t num_bytes) {
  if (data_)
    data_->Append(data, num_bytes);
  else
    sink_(data, num_bytes);
  sum_ = tf::crc32c::Extend(sum_, data, num_bytes);
  saved_bytes += static_cast<int64_t>(num_bytes);
}

void ShardWriter::End() {
  if (bytes_to_come_ != 0) {
    Throw(ErrorCode::kIo, name_, " was given ", bytes_to_come_,
          " bytes fewer than its shape needs");
  }
  async_writer_.Then([this, entry = entry_, added = AddEntry(name_, entry_)]() mutable {
    entry.set_crc32c(tf::crc32c::Mask(std::exchange(sum_, 0)));
    *added = entry.SerializeAsString();
  });
}

void ShardWriter::AwaitWritten() { async_writer_.Finish(); }

/// Returns its place.
std::string* ShardWriter::AddEntry(const std::string& name, const tf::BundleEntryProto& entry) {
  const auto [place, is_new] = entries_.emplace(name, entry.SerializeAsString());
  if (is_new) return &place->second;
  Throw(ErrorCode::kInvalidArgument, "two tensors of the checkpoint have the name ", name,
        ": give the saver a dict with distinct names");
}

int64_t ShardWriter::Finish() {
  AwaitWritten();
  if (data_) {
    data_->Finish();
    WriteIndex(prefix_, entries_);
  }
  return num_bytes_;
}

}  // namespace sok
