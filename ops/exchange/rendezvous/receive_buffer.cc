// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/rendezvous/receive_buffer.h"

#include <cstring>
#include <new>

namespace sok {

void ReceiveBuffer::Part::Keep() {
  kept.reset(new (std::nothrow) char[bytes.size()]);
  is_cut = is_cut || !kept;
  if (is_cut) {
    kept = nullptr;
    bytes = {};
    return;
  }
  std::memcpy(kept.get(), bytes.data(), bytes.size());
  bytes = {kept.get(), bytes.size()};
}

ReceiveBuffer::Entry& ReceiveBuffer::At(const ExchangePlace& place, const LookupName& lookup) {
  const auto [found, is_new] = entries_.try_emplace(place);
  Entry& entry = found->second;
  if (is_new) {
    entry.place = place;
    entry.lookup = lookup;
    entry.since = Clock::now();
    entry.parts.resize(num_ranks_);
    entry.num_missing = num_ranks_ - 1;
  }
  return entry;
}

std::optional<ReceiveBuffer::Entry> ReceiveBuffer::Sent(const ExchangePlace& place) {
  const auto found = entries_.find(place);
  if (found == entries_.end()) return std::nullopt;  // the request has failed meanwhile
  found->second.is_sent = true;
  if (!found->second.is_complete()) return std::nullopt;
  return Take(place);
}

ReceiveBuffer::Entry ReceiveBuffer::Take(const ExchangePlace& place) {
  return std::move(entries_.extract(place).mapped());
}

std::vector<ReceiveBuffer::Entry> ReceiveBuffer::TakeFailed(const CollectiveId& collective,
                                                            int failed) {
  std::vector<Entry> taken;
  auto next = entries_.lower_bound({collective, 0});
  while (next != entries_.end() && next->first.first == collective) {
    const Entry& entry = next->second;
    if (failed >= 0 && entry.request && entry.parts[static_cast<size_t>(failed)].description) {
      ++next;
    } else {
      taken.push_back(std::move(next->second));
      next = entries_.erase(next);
    }
  }
  return taken;
}

bool ReceiveBuffer::HasRequest(const ExchangePlace& place) const {
  const auto found = entries_.find(place);
  return found != entries_.end() && found->second.request;
}

bool ReceiveBuffer::HasAny(const CollectiveId& collective) const {
  const auto next = entries_.lower_bound({collective, 0});
  return next != entries_.end() && next->first.first == collective;
}

}  // namespace sok
