// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/checkpoint_series.h"

#include <algorithm>
#include <utility>

#include "ops/tf/base/border.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace sok {

namespace tf = tensorflow;

namespace {

/// The description in a checkpoint; nullopt if it was saved without increments in mind.
std::optional<CheckpointInSeries> Described(const std::string& prefix) {
  SavedTensors saved(prefix);
  if (!saved.Contains(CheckpointInSeries::kTensor)) return std::nullopt;
  const tf::Tensor texts = saved.Read(CheckpointInSeries::kTensor, tf::DT_STRING);
  const auto text = [&](int64_t i) { return std::string(texts.flat<tf::tstring>()(i)); };
  if (texts.NumElements() == 1) return CheckpointInSeries{text(0), std::nullopt};
  if (texts.NumElements() == 3) {
    const CheckpointInSeries::Base base{text(1), text(2)};
    if (base.name.empty() || base.name.find('/') != std::string::npos) {
      Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix), " is an increment of '", base.name,
            "', which is not a name in its folder");
    }
    return CheckpointInSeries{text(0), base};
  }
  Throw(ErrorCode::kDataLoss, tf::MetaFilename(prefix), " has ", texts.NumElements(),
        " strings in ", CheckpointInSeries::kTensor, ", expected 1 or 3");
}

CheckpointInSeries CheckedBase(const std::string& increment, const std::string& prefix,
                               const CheckpointInSeries::Base& base) {
  const std::string file = tf::MetaFilename(prefix);
  if (!tf::Env::Default()->FileExists(file).ok()) {
    Throw(ErrorCode::kNotFound, "the checkpoint ", increment, " holds the changes since ", prefix,
          ", but ", file, " is missing");
  }
  std::optional<CheckpointInSeries> found = Described(prefix);
  if (found && found->id == base.id) return *std::move(found);
  Throw(ErrorCode::kFailedPrecondition, "the checkpoint ", increment, " holds the changes since ",
        prefix, ", but ", file, " has been replaced since: restore a whole checkpoint");
}

}  // namespace

tf::Tensor CheckpointInSeries::ToTensor() const {
  tf::Tensor texts(tf::DT_STRING, tf::TensorShape({base ? 3 : 1}));
  texts.flat<tf::tstring>()(0) = id;
  if (base) {
    texts.flat<tf::tstring>()(1) = base->name;
    texts.flat<tf::tstring>()(2) = base->id;
  }
  return texts;
}

std::optional<CheckpointInSeries::Base> BaseIn(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = text.find('\n');
  if (end != std::string::npos && end > 0 && end + 1 < text.size())
    return CheckpointInSeries::Base{text.substr(0, end), text.substr(end + 1)};
  Throw(ErrorCode::kInvalidArgument, "input `base` must be '<name>\\n<id>' or '', got '", text,
        "'");
}

std::vector<std::string> ChainOf(const std::string& prefix) {
  std::vector<std::string> chain{prefix};
  const std::string folder(tf::io::Dirname(prefix));
  std::optional<CheckpointInSeries> last = Described(prefix);
  while (last && last->base) {
    std::string base = tf::io::JoinPath(folder, last->base->name);
    if (std::find(chain.begin(), chain.end(), base) != chain.end())
      Throw(ErrorCode::kDataLoss, tf::MetaFilename(base), " is an increment of itself");
    last = CheckedBase(chain.back(), base, *last->base);
    chain.push_back(std::move(base));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace sok
