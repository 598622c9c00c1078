// SPDX-License-Identifier: Apache-2.0
// What a rank tells another in a round, as bytes; what it sends for the requests follows.
#ifndef SOK_OPS_EXCHANGE_MESSAGE_H_
#define SOK_OPS_EXCHANGE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sok {

/// A request that waits on a rank.
struct Offer {
  int64_t step = 0;
  uint64_t name_hash = 0;
  int64_t size_bytes = 0;  // of what follows for it
};

/// A step that failed on the rank that tells it.
struct StepFailure {
  int64_t step = 0;
  std::string message;
};

struct Message {
  bool is_leaving = false;
  int64_t next_step = 0;  // steps begun so far
  std::vector<Offer> offers;
  std::vector<StepFailure> failures;

  std::string Serialize() const;
  /// Reads a message at the start of [data, data + size_bytes); *message_bytes: how long it is.
  static Message Parse(const char* data, size_t size_bytes, size_t* message_bytes);
};

/// The same on every rank.
uint64_t NameHash(const std::string& name);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_MESSAGE_H_
