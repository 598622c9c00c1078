// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/bundle_index.h"

#include <memory>

#include "ops/base/error.h"
#include "ops/formats/bundle/sorted_table.h"
#include "ops/tf/base/file_errors.h"
#include "ops/tf/base/namespace_tf.h"
#include "ops/tf/base/tf_file_system.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/versions.pb.h"
#include "tensorflow/core/lib/io/table_builder.h"
#include "tensorflow/core/lib/io/table_options.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace sok {

BundleEntries ReadIndex(const std::string& prefix) {
  BundleEntries entries = ReadSortedTable(TfFileSystem(), tf::MetaFilename(prefix));
  entries.erase(tf::kHeaderEntryKey);
  return entries;
}

void WriteIndex(const std::string& prefix, const BundleEntries& entries, int num_shards) {
  const std::string path = tf::MetaFilename(prefix);
  std::unique_ptr<tf::WritableFile> file;
  ThrowOfFile(tf::Env::Default()->NewWritableFile(path, &file), path);
  tf::table::Options options;
  options.compression = tf::table::kNoCompression;
  tf::table::TableBuilder builder(options, file.get());
  tf::BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(tf::kTensorBundleVersion);
  builder.Add(tf::kHeaderEntryKey, header.SerializeAsString());
  for (const auto& [name, entry] : entries) builder.Add(name, entry);
  ThrowOfFile(builder.Finish(), path);
  ThrowOfFile(file->Close(), path);
}

void MergeEntries(const BundleEntries& part, int shard, BundleEntries* merged) {
  for (const auto& [name, text] : part) {
    tf::BundleEntryProto entry, other;
    if (!entry.ParseFromString(text))
      Throw(ErrorCode::kDataLoss, "the entry of ", name, " is damaged");
    if (entry.slices().empty()) entry.set_shard_id(shard);
    const auto [place, is_first] = merged->emplace(name, entry.SerializeAsString());
    if (is_first) continue;
    const bool fits = other.ParseFromString(place->second) && !other.slices().empty() &&
                      !entry.slices().empty() && other.dtype() == entry.dtype() &&
                      other.shape().SerializeAsString() == entry.shape().SerializeAsString();
    if (!fits)
      Throw(ErrorCode::kInvalidArgument, "two ranks save different tensors as ", name,
            ": all ranks must build the same graph");
    for (const auto& slice : entry.slices()) *other.add_slices() = slice;
    place->second = other.SerializeAsString();
  }
}

}  // namespace sok
