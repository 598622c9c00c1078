// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/early_parts.h"

#include <algorithm>
#include <new>

namespace sok {

std::optional<Part> EarlyParts::Find(const ExchangePlace& place, int source) const {
  const auto found = kept_.find({place, source});
  if (found == kept_.end()) return std::nullopt;
  const Kept& kept = found->second;
  return Part{source, {kept.bytes.get(), kept.num_bytes}, kept.is_cut};
}

void EarlyParts::Keep(const ExchangePlace& place, const Part& part, EarlyParts* before) {
  if (auto moved = before->kept_.extract({place, part.source})) {
    kept_.insert(std::move(moved));
    return;
  }
  Kept kept;
  kept.is_cut = part.is_cut;
  if (!part.bytes.empty()) {
    kept.bytes.reset(new (std::nothrow) char[part.bytes.size()]);
    if (kept.bytes) {
      kept.num_bytes = part.bytes.size();
      std::copy(part.bytes.begin(), part.bytes.end(), kept.bytes.get());
    } else {
      kept.is_cut = true;
    }
  }
  kept_.emplace(std::make_pair(place, part.source), std::move(kept));
}

}  // namespace sok
