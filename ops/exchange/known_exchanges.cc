// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/known_exchanges.h"

namespace sok {

void KnownExchanges::Learn(const ExchangeKind& kind, int64_t number) {
  if (const auto index = Find(kind)) {
    known_[*index].number = number;
    return;
  }
  if (known_.size() == kMost) {
    known_.clear();
    indices_.clear();
  }
  indices_.emplace(kind, known_.size());
  known_.push_back({kind, number});
}

std::optional<size_t> KnownExchanges::Find(const ExchangeKind& kind) const {
  const auto found = indices_.find(kind);
  return found == indices_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

const KnownExchanges::Known* KnownExchanges::At(size_t index) const {
  return index < known_.size() ? &known_[index] : nullptr;
}

}  // namespace sok
