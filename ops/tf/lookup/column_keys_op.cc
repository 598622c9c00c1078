// SPDX-License-Identifier: Apache-2.0
// Dense features of feature columns to keys in bags: what TensorFlow does with eight ops a column.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "ops/engine/bags.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "tensorflow/core/platform/fingerprint.h"

namespace sok {
namespace {

REGISTER_OP("SokColumnKeys")
    .Input("features: Tfeatures")
    .Input("masks: N * int32")
    .Attr("N: int >= 1")
    .Attr("Tfeatures: list({string, int32, int64}) >= 1")
    .Attr("num_buckets: list(int)")
    .Attr("taken: list(int)")
    .Output("keys: N * int64")
    .Output("row_splits: N * int64")
    .SetShapeFn(AllVectors)
    .Doc(
        "The keys of features [batch] or [batch, values], and row splits [batch + 1]. '' and -1 "
        "are no value. With num_buckets, a key is the bucket of the text of a value, as of "
        "tf.strings.to_hash_bucket_fast; with 0, it is the value, and values below 0 are left "
        "out. If `taken` is 0 or 1, only values with this entry in their mask become keys, "
        "with 1 none below 0. A mask has an entry for each value, or else for each row. If it is "
        "-1, the mask is ignored.");

/// The key of a string or of an integer's text.
struct KeyOfText {
  uint64_t num_buckets;

  int64_t operator()(absl::string_view text) const {
    return static_cast<int64_t>(tf::Fingerprint64(text) % num_buckets);
  }

  int64_t operator()(const tf::tstring& text) const {
    return (*this)(absl::string_view(text.data(), text.size()));
  }

  int64_t operator()(int64_t value) const {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return (*this)(absl::string_view(digits, static_cast<size_t>(end - digits)));
  }
};

class ColumnKeys {
 public:
  explicit ColumnKeys(tf::OpKernelConstruction* ctx) {
    nums_buckets_ = ItemAttributes<int64_t>(ctx, "num_buckets");
    taken_ = ItemAttributes<int64_t>(ctx, "taken");
    const auto types = ItemAttributes<tf::DataType>(ctx, "Tfeatures");
    for (size_t i = 0; i < types.size(); ++i) {
      const int64_t least = types[i] == tf::DT_STRING ? 1 : 0;
      if (nums_buckets_[i] >= least) continue;
      Throw(ErrorCode::kInvalidArgument, ctx->def().name(), ": num_buckets of feature ", i,
            " must be at least ", least, ", got ", nums_buckets_[i]);
    }
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItemAtOnce(ctx, "features", [&](OpCall&, int i) {
      const tf::Tensor& feature = group.Input("features", i);
      const KeyOfText hash{static_cast<uint64_t>(nums_buckets_[static_cast<size_t>(i)])};
      if (feature.dtype() == tf::DT_STRING) {
        const auto is_value = [](const tf::tstring& text) { return !text.empty(); };
        Convert(group, i, Values<tf::tstring>(group, feature), is_value, is_value, hash);
      } else if (feature.dtype() == tf::DT_INT32) {
        ConvertIntegers(group, i, Values<int32_t>(group, feature), hash);
      } else {
        ConvertIntegers(group, i, Values<int64_t>(group, feature), hash);
      }
    });
  }

 private:
  /// A feature as a matrix of `num_rows` rows.
  template <typename Value>
  struct Matrix {
    const Value* values;
    int64_t num_rows;
    int64_t num_columns;
  };

  template <typename Value>
  static Matrix<Value> Values(const Group& group, const tf::Tensor& feature) {
    if (feature.dims() < 1 || feature.dims() > 2 || feature.NumElements() > kMaxBatchKeys) {
      Throw(ErrorCode::kInvalidArgument, group.name(),
            ": a feature must be [batch] or [batch, values], with at most ", kMaxBatchKeys,
            " values, got the shape ", feature.shape().DebugString());
    }
    return {feature.flat<Value>().data(), feature.dim_size(0),
            feature.dims() == 2 ? feature.dim_size(1) : 1};
  }

  template <typename Value>
  void ConvertIntegers(const Group& group, int item, const Matrix<Value>& feature,
                       const KeyOfText& hash) const {
    const auto is_value = [](Value value) { return value != -1; };
    const auto is_key = [](Value value) { return value >= 0; };
    if (hash.num_buckets == 0) {
      const auto key_of = [](Value value) { return int64_t{value}; };
      Convert(group, item, feature, is_value, is_key, key_of);
    } else if (taken_[static_cast<size_t>(item)] == 1) {
      Convert(group, item, feature, is_value, is_key, hash);
    } else {
      Convert(group, item, feature, is_value, is_value, hash);
    }
  }

  template <typename Value, typename IsValue, typename IsKey, typename KeyOf>
  void Convert(const Group& group, int item, const Matrix<Value>& feature, const IsValue& is_value,
               const IsKey& is_key, const KeyOf& key_of) const {
    const std::vector<char> kept = Kept(group, item, feature, is_value);
    const int64_t size = feature.num_rows * feature.num_columns;
    const auto becomes_key = [&](int64_t i) {
      return is_key(feature.values[i]) && (kept.empty() || kept[static_cast<size_t>(i)] != 0);
    };
    int64_t num_keys = 0;
    for (int64_t i = 0; i < size; ++i) num_keys += becomes_key(i) ? 1 : 0;
    int64_t* key = Data<int64_t>(group.Output("keys", item, {num_keys}));
    const int64_t* const first = key;
    int64_t* splits = Data<int64_t>(group.Output("row_splits", item, {feature.num_rows + 1}));
    for (int64_t row = 0, i = 0; row < feature.num_rows; ++row) {
      splits[row] = key - first;
      for (const int64_t end = i + feature.num_columns; i < end; ++i) {
        if (becomes_key(i)) *key++ = key_of(feature.values[i]);
      }
    }
    splits[feature.num_rows] = num_keys;
  }

  /// Which places of a feature its mask keeps; empty: all.
  template <typename Value, typename IsValue>
  std::vector<char> Kept(const Group& group, int item, const Matrix<Value>& feature,
                         const IsValue& is_value) const {
    const int64_t taken = taken_[static_cast<size_t>(item)];
    if (taken < 0) return {};
    const tf::Tensor& mask = group.Input("masks", item);
    const int64_t size = feature.num_rows * feature.num_columns;
    const int64_t num_values = std::count_if(feature.values, feature.values + size, is_value);
    const bool is_of_values = mask.NumElements() == num_values;
    if (!is_of_values && mask.NumElements() != feature.num_rows) {
      Throw(ErrorCode::kInvalidArgument, group.name(),
            ": an adaptive mask must have one entry for each id, or for each sample; it has ",
            mask.NumElements(), " entries for ", num_values, " ids of ", feature.num_rows,
            " samples");
    }
    const int32_t* const entries = mask.flat<int32_t>().data();
    std::vector<char> kept(static_cast<size_t>(size));
    for (int64_t i = 0, value = 0; i < size; ++i) {
      if (!is_value(feature.values[i])) continue;
      const int32_t entry = entries[is_of_values ? value++ : i / feature.num_columns];
      if (entry != 0 && entry != 1) {
        Throw(ErrorCode::kInvalidArgument, group.name(),
              ": an adaptive mask must have entries 0 and 1, got ", entry);
      }
      kept[static_cast<size_t>(i)] = entry == taken ? 1 : 0;
    }
    return kept;
  }

  std::vector<int64_t> nums_buckets_;
  std::vector<int64_t> taken_;
};

const RegisteredKernel kColumnKeysKernels[] = {
    {"SokColumnKeys", Make<StepKernelOf<ColumnKeys>>, {}, RegisteredKernel::Devices::kCpu},
};

}  // namespace
}  // namespace sok
