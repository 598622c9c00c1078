// SPDX-License-Identifier: Apache-2.0
// The name of a lookup, the same on all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "ops/exchange/protocol/message_bytes.h"

namespace sok {

/// The same on every rank.
uint64_t NameHash(const std::string& name);

struct LookupName {
  std::string name;     // in its graph
  int64_t graph = -1;   // its number; -1: ordered code, or a collective of no graph
  int64_t session = 0;  // its number among the sessions of the graph
  int64_t start = -1;   // of the thread that prefetches; -1: none

  /// Different names have different ones.
  uint64_t Hash() const;
  /// For messages.
  std::string Text() const;

  void Write(MessageWriter* writer) const;
  static LookupName Read(MessageReader* reader);
};

}  // namespace sok
