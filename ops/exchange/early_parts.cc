// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/early_parts.h"

#include <new>

namespace sok {

std::optional<Part> EarlyParts::Find(const ExchangePlace& place, int source) const {
  const auto found = kept_.find({place, source});
  if (found == kept_.end()) return std::nullopt;
  const Kept& kept = found->second;
  return Part{source, kept.bytes, kept.is_cut};
}

void EarlyParts::Keep(const ExchangePlace& place, const Part& part, EarlyParts* before) {
  if (auto moved = before->kept_.extract({place, part.source})) {
    kept_.insert(std::move(moved));
    return;
  }
  Kept& kept = kept_[{place, part.source}];
  kept.is_cut = part.is_cut;
  try {
    kept.bytes = part.bytes;
  } catch (const std::bad_alloc&) {
    kept.is_cut = true;
  }
}

}  // namespace sok
