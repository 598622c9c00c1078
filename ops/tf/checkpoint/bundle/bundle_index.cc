// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/bundle_index.h"

#include <memory>
#include <new>
#include <sstream>
#include <utility>

#include "ops/base/error.h"
#include "ops/tf/base/file_errors.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/versions.pb.h"
#include "tensorflow/core/lib/io/table_builder.h"
#include "tensorflow/core/lib/io/table_options.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"
#include "tensorflow/core/util/tensor_bundle/tensor_bundle.h"

namespace sok {

namespace tf = tensorflow;

BundleIndex::BundleIndex(tf::Env* env, const std::string& prefix)
    : path_(tf::MetaFilename(prefix)) {
  uint64_t num_bytes = 0;
  ThrowOfFile(env->GetFileSize(path_, &num_bytes), path_);
  ThrowOfFile(env->NewRandomAccessFile(path_, &file_), path_);
  Checked([&] {
    tf::table::Table* table = nullptr;
    const absl::Status status =
        tf::table::Table::Open(tf::table::Options(), file_.get(), num_bytes, &table);
    table_.reset(table);
    if (!status.ok()) ThrowDamaged(std::string(status.message()));
    at_.reset(table_->NewIterator());
  });
  ReadHeader();
}

void BundleIndex::ReadHeader() {
  const std::optional<std::string> text = Find(tf::kHeaderEntryKey);
  tf::BundleHeaderProto header;
  if (!text || !header.ParseFromString(*text)) ThrowDamaged("it has no header");
  if (header.endianness() != tf::BundleHeaderProto::LITTLE)
    Throw(ErrorCode::kInvalidArgument, path_, " was written on a big-endian machine");
  num_shards_ = header.num_shards();
  if (num_shards_ < 0) ThrowDamaged("it has " + std::to_string(num_shards_) + " data files");
}

std::optional<std::string> BundleIndex::Find(const std::string& name) {
  std::optional<std::string> found;
  Checked([&] {
    at_->Seek(name);
    if (at_->Valid() && at_->key() == name) found = std::string(at_->value());
  });
  return found;
}

void BundleIndex::ForEach(const std::string& begin, const Use& use) {
  Checked([&] { at_->Seek(begin); });
  while (at_->Valid()) {
    const std::string name(at_->key());
    if (name.compare(0, begin.size(), begin) != 0) return;
    if (name != tf::kHeaderEntryKey) use(name, std::string(at_->value()));
    Checked([&] { at_->Next(); });
  }
}

/// A corrupt block size would request more memory than there is.
template <typename Body>
void BundleIndex::Checked(const Body& body) const {
  try {
    body();
  } catch (const std::bad_alloc&) {
    ThrowDamaged("a block does not fit into memory");
  }
  if (at_ != nullptr && !at_->status().ok()) ThrowDamaged(std::string(at_->status().message()));
}

void BundleIndex::ThrowDamaged(const std::string& how) const {
  Throw(ErrorCode::kDataLoss, path_, " is not as it was written: ", how,
        "; restore an earlier checkpoint");
}

BundleEntries ReadIndex(tf::Env* env, const std::string& prefix) {
  BundleEntries entries;
  BundleIndex(env, prefix).ForEach("", [&](const std::string& name, const std::string& entry) {
    entries.emplace(name, entry);
  });
  return entries;
}

void WriteIndex(tf::Env* env, const std::string& prefix, const BundleEntries& entries,
                int num_shards) {
  const std::string path = tf::MetaFilename(prefix);
  std::unique_ptr<tf::WritableFile> file;
  ThrowOfFile(env->NewWritableFile(path, &file), path);
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

std::string TextOf(const BundleEntries& entries) {
  std::ostringstream text;
  for (const auto& [name, entry] : entries)
    text << name.size() << ' ' << entry.size() << ' ' << name << entry;
  return text.str();
}

BundleEntries EntriesIn(const std::string& text) {
  BundleEntries entries;
  std::istringstream stream(text);
  for (size_t name_size = 0, entry_size = 0; stream >> name_size >> entry_size;) {
    std::string name(name_size, ' '), entry(entry_size, ' ');
    stream.get();
    stream.read(name.data(), static_cast<std::streamsize>(name_size));
    stream.read(entry.data(), static_cast<std::streamsize>(entry_size));
    if (!stream) Throw(ErrorCode::kIo, "the index of another rank's part is truncated");
    entries.emplace(std::move(name), std::move(entry));
  }
  return entries;
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
