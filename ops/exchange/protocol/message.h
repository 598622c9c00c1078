// SPDX-License-Identifier: Apache-2.0
// The messages that ranks send each other, as bytes.
#ifndef SOK_OPS_EXCHANGE_PROTOCOL_MESSAGE_H_
#define SOK_OPS_EXCHANGE_PROTOCOL_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ops/exchange/protocol/descriptions.h"

namespace sok {

/// A lookup of all ranks: its `number`-th time, or what it is in the number-th call.
struct CollectiveId {
  uint64_t lookup_hash = 0;
  int64_t number = 0;

  bool operator<(const CollectiveId& other) const {
    return std::tie(number, lookup_hash) < std::tie(other.number, other.lookup_hash);
  }
  bool operator==(const CollectiveId& other) const {
    return std::tie(number, lookup_hash) == std::tie(other.number, other.lookup_hash);
  }
};

/// The same on every rank.
uint64_t NameHash(const std::string& name);

enum class MessageKind : int64_t { kRequest, kFailure, kStatus };

/// Reads which kind of message it is. Throws kIo for none.
MessageKind KindOf(std::string_view message);

/// What leads a request; the bytes of the request follow.
struct RequestHeader {
  CollectiveId collective;
  std::string lookup;     // for messages; its label
  uint64_t exchange = 0;  // the hash of which exchange of the lookup
  std::shared_ptr<const Description> description;
};

/// A lookup that failed on the rank that tells it.
struct LookupFailure {
  CollectiveId collective;
  std::string message;  // goes on after "rank 3 "

  std::string Serialize() const;
  static LookupFailure Parse(std::string_view message);
};

/// What a rank does, for the messages of those that wait for it.
struct RankStatus {
  int64_t num_steps = 0;  // begun so far
  std::string waits_for;  // for long; empty: nothing

  std::string Serialize() const;
  static RankStatus Parse(std::string_view message);
  bool operator==(const RankStatus& other) const {
    return num_steps == other.num_steps && waits_for == other.waits_for;
  }
};

/// Numbers the exchanges that a rank requests again and again, so that a header takes some bytes.
class HeaderWriter {
 public:
  /// How a header looks, and the number that the other ranks learn from it; none: they knew it.
  struct Header {
    std::string bytes;
    size_t learned = 0;  // one more than the number
  };
  Header Write(const RequestHeader& header);

  /// A header from which all other ranks learn the number has been sent.
  void Told(const Header& header);

 private:
  struct Known {
    size_t number;
    bool is_told;
  };
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, Known> known_;
  std::vector<Known*> by_number_;
};

/// Reads the headers that one rank has written.
class HeaderReader {
 public:
  /// Takes the header off the message. Throws kIo where it is none.
  RequestHeader Read(std::string_view* message);

 private:
  std::map<size_t, RequestHeader> known_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PROTOCOL_MESSAGE_H_
