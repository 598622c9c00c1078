// SPDX-License-Identifier: Apache-2.0
// The messages that ranks send each other, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base/collective_id.h"
#include "ops/exchange/protocol/descriptions.h"
#include "ops/exchange/protocol/lookup_name.h"

namespace sok {

enum class MessageKind : int64_t { kRequest, kFailure, kStatus, kLastError };

/// The kind of a message. Throws kIo if it is none.
MessageKind KindOf(std::string_view message);

/// Header of a request; the bytes of the request follow.
struct RequestHeader {
  CollectiveId collective;
  LookupName lookup;
  uint64_t exchange = 0;  // hash of the exchange's name within the lookup
  std::shared_ptr<const Description> description;
};

/// A lookup that failed on the sending rank.
struct LookupFailure {
  CollectiveId collective;
  std::string message;  // continues "rank 3 "

  std::string Serialize() const;
  static LookupFailure Parse(std::string_view message);
};

/// The state of a rank, for error messages of ranks that wait for it.
struct RankStatus {
  int64_t num_steps = 0;  // steps begun so far
  std::string waits_for;  // for a long time; empty: nothing

  std::string Serialize() const;
  static RankStatus Parse(std::string_view message);
  bool operator==(const RankStatus& other) const {
    return num_steps == other.num_steps && waits_for == other.waits_for;
  }
};

/// The last error of a rank that is about to leave.
struct LastError {
  std::string message;

  std::string Serialize() const;
  static LastError Parse(std::string_view message);
};

/// Numbers exchanges that are requested repeatedly, so that a header takes a few bytes.
class HeaderWriter {
 public:
  /// An encoded header, and the number that it teaches other ranks, if they do not know it yet.
  struct Header {
    std::string bytes;
    size_t learned = 0;  // the number plus one; 0: none
  };
  Header Write(const RequestHeader& header);

  /// Call after `header` was sent to all other ranks: later headers use its number.
  void MarkSent(const Header& header);

 private:
  struct Known {
    size_t number;
    bool is_sent;
  };
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, Known> known_;
  std::vector<Known*> by_number_;
};

/// Parses the headers written by one rank.
class HeaderReader {
 public:
  /// Removes the header from the message. Throws kIo if it is malformed.
  RequestHeader Read(std::string_view* message);

 private:
  std::map<size_t, RequestHeader> known_;
};

}  // namespace sok
