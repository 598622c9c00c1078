// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/series.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

CheckpointInSeries CheckedBase(const FileSystem& files, const std::string& increment,
                               const std::string& prefix, const CheckpointInSeries::Base& base) {
  const std::string file = IndexPath(prefix);
  if (!files.Exists(file)) {
    Throw(ErrorCode::kNotFound, "the checkpoint ", increment, " holds the changes since ", prefix,
          ", but ", file, " is missing");
  }
  Bundle saved(files, prefix);
  std::optional<CheckpointInSeries> found = CheckpointInSeries::In(saved);
  if (found && found->id == base.id) return *std::move(found);
  Throw(ErrorCode::kFailedPrecondition, "the checkpoint ", increment, " holds the changes since ",
        prefix, ", but ", file, " has been replaced since: restore a whole checkpoint");
}

}  // namespace

std::optional<CheckpointInSeries::Base> CheckpointInSeries::Base::In(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = text.find('\n');
  if (end != std::string::npos && end > 0 && end + 1 < text.size())
    return Base{text.substr(0, end), text.substr(end + 1)};
  Throw(ErrorCode::kInvalidArgument, "input `base` must be '<name>\\n<id>' or '', got '", text,
        "'");
}

std::optional<CheckpointInSeries> CheckpointInSeries::In(Bundle& saved) {
  if (!saved.Contains(kTensor)) return std::nullopt;
  const std::string path = IndexPath(saved.prefix());
  const std::string type = saved.EntryOf(kTensor).type().name;
  if (type != "string") Throw(ErrorCode::kInvalidArgument, path, " has ", type, " in ", kTensor);
  const std::vector<std::string> texts = saved.StringsOf(kTensor);
  if (texts.size() == 1) return CheckpointInSeries{texts[0], std::nullopt};
  if (texts.size() != 3)
    Throw(ErrorCode::kDataLoss, path, " has ", texts.size(), " strings in ", kTensor,
          ", expected 1 or 3");
  if (texts[1].empty() || texts[1].find('/') != std::string::npos)
    Throw(ErrorCode::kDataLoss, path, " is an increment of '", texts[1],
          "', which is not a name in its folder");
  return CheckpointInSeries{texts[0], Base{texts[1], texts[2]}};
}

std::vector<std::string> CheckpointInSeries::Texts() const {
  if (!base) return {id};
  return {id, base->name, base->id};
}

std::vector<std::string> ChainOf(const FileSystem& files, const std::string& prefix) {
  std::vector<std::string> chain{prefix};
  const size_t end_of_folder = prefix.rfind('/') + 1;
  Bundle saved(files, prefix);
  std::optional<CheckpointInSeries> last = CheckpointInSeries::In(saved);
  while (last && last->base) {
    std::string base = prefix.substr(0, end_of_folder) + last->base->name;
    if (std::find(chain.begin(), chain.end(), base) != chain.end())
      Throw(ErrorCode::kDataLoss, IndexPath(base), " is an increment of itself");
    last = CheckedBase(files, chain.back(), base, *last->base);
    chain.push_back(std::move(base));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace sok
