// SPDX-License-Identifier: Apache-2.0
// Exchanges that all ranks have done, by numbers that are the same on all of them, so that a rank
// names in a byte or two what it offers again.
#ifndef SOK_OPS_EXCHANGE_KNOWN_EXCHANGES_H_
#define SOK_OPS_EXCHANGE_KNOWN_EXCHANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace sok {

/// One of the exchanges of a lookup, in any step.
struct ExchangeKind {
  uint64_t lookup_hash = 0;
  uint64_t exchange_hash = 0;
  uint64_t description_hash = 0;

  bool operator<(const ExchangeKind& other) const {
    return std::tie(lookup_hash, exchange_hash, description_hash) <
           std::tie(other.lookup_hash, other.exchange_hash, other.description_hash);
  }
};

class KnownExchanges {
 public:
  static constexpr size_t kMost = size_t{1} << 16;  // beyond which all are forgotten

  struct Known {
    ExchangeKind kind;
    int64_t number = 0;  // of the lookup that exchanged last
  };

  /// All ranks do, in the same order, for what all of them have exchanged in a round.
  void Learn(const ExchangeKind& kind, int64_t number);

  /// None: it is not known.
  std::optional<size_t> Find(const ExchangeKind& kind) const;
  /// Null: no exchange has that number.
  const Known* At(size_t index) const;

 private:
  std::vector<Known> known_;
  std::map<ExchangeKind, size_t> indices_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_KNOWN_EXCHANGES_H_
