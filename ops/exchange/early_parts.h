// SPDX-License-Identifier: Apache-2.0
// What ranks sent for exchanges before all of them had come there, so that it is sent once.
#ifndef SOK_OPS_EXCHANGE_EARLY_PARTS_H_
#define SOK_OPS_EXCHANGE_EARLY_PARTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/exchange/message.h"

namespace sok {

/// A lookup and the hash of which exchange of it.
using ExchangePlace = std::pair<Meeting, uint64_t>;

/// What a rank sent for one exchange.
struct Part {
  int source = 0;          // the rank
  std::string_view bytes;  // empty where it is cut
  bool is_cut = false;     // there was no memory for it
};

class EarlyParts {
 public:
  /// None: nothing that this rank sent is kept. Valid as long as it is.
  std::optional<Part> Find(const ExchangePlace& place, int source) const;

  /// Keeps a copy, cut where there is no memory; or what `before` has of it, without one.
  void Keep(const ExchangePlace& place, const Part& part, EarlyParts* before);

 private:
  struct Kept {
    std::string bytes;
    bool is_cut = false;
  };
  std::map<std::pair<ExchangePlace, int>, Kept> kept_;  // by place and source
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_EARLY_PARTS_H_
