// SPDX-License-Identifier: Apache-2.0
// Builds the requests of a rank to the owners of its keys.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ops/exchange/payload/request_format.h"
#include "ops/exchange/payload/sharded_request.h"

namespace sok {
namespace {

constexpr size_t kFewOwners = 8;

/// The part of a batch that one owner serves.
struct Share {
  int64_t num_keys = 0;
  int64_t num_occurrences = 0;
  int64_t num_sums = 0;
  int64_t longest_sum = 0;  // rows
  int64_t open_bag = -1;    // of the current sum
  int64_t open_size = 0;

  int64_t place_bytes() const { return std::max(num_keys - 1, longest_sum) <= UINT16_MAX ? 2 : 4; }
  int64_t places_bytes() const { return place_bytes() * (num_sums + num_occurrences); }
  int64_t sums_bytes(bool has_weights) const {
    return places_bytes() + (has_weights ? kRequestWeightBytes * num_occurrences : 0);
  }
};

/// The write positions in the request for one owner.
struct PartWriter {
  bool requests_sums = false;
  int64_t place_bytes = 2;
  char* next_key = nullptr;
  char* next_place = nullptr;
  char* next_weight = nullptr;
  char* open_size_place = nullptr;  // position of the current sum's number of rows
  int64_t open_bag = -1;
  uint32_t open_size = 0;
  int64_t num_keys = 0;  // written so far
  int64_t next_reply = 0;
};

void WritePlace(uint32_t value, int64_t place_bytes, char* to) {
  if (place_bytes == 4) {
    std::memcpy(to, &value, 4);
  } else {
    std::memcpy(to, &value, 2);  // the low bytes: little-endian
  }
}

class Requester {
 public:
  Requester(const ShardedRequestOptions& options, const Bags& bags, const int64_t* distinct_keys)
      : options_(options),
        bags_(bags),
        keys_(distinct_keys),
        owners_(static_cast<size_t>(bags.num_distinct)),
        places_(static_cast<size_t>(bags.num_distinct)),
        shares_(static_cast<size_t>(options.placement.num_ranks)),
        writers_(static_cast<size_t>(options.placement.num_ranks)) {}

  ShardedRequest Make() {
    FindOwners();
    if (bags_.combiner != Combiner::kNone) CountSums();
    LayOut();
    WriteKeys();
    if (bags_.combiner == Combiner::kNone) {
      ReplyOccurrences();
    } else {
      ReplyBags();
      if (bags_.combiner == Combiner::kMean) FindFactors();
    }
    return std::move(request_);
  }

 private:
  void FindOwners() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      owners_[i] = static_cast<int32_t>(options_.placement.Owner(keys_[i]));
      ++shares_[static_cast<size_t>(owners_[i])].num_keys;
    }
  }

  size_t OwnerOfOccurrence(int64_t i) const {
    return static_cast<size_t>(owners_[static_cast<size_t>(bags_.inverse[i])]);
  }

  void CountSums() {
    if (owners_are_few()) {
      CountSumsOfFew();
      return;
    }
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      for (int64_t i = bags_.row_splits[bag]; i < bags_.row_splits[bag + 1]; ++i) {
        Share& share = shares_[OwnerOfOccurrence(i)];
        if (share.open_bag != bag) {
          share.open_bag = bag;
          share.open_size = 0;
          ++share.num_sums;
        }
        ++share.num_occurrences;
        share.longest_sum = std::max(share.longest_sum, ++share.open_size);
      }
    }
  }

  /// So few that visiting all of them after each bag costs less than an unpredictable branch per
  /// occurrence.
  bool owners_are_few() const { return shares_.size() <= kFewOwners; }

  void CountSumsOfFew() {
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      std::array<int64_t, kFewOwners> sizes{};
      for (int64_t i = bags_.row_splits[bag]; i < bags_.row_splits[bag + 1]; ++i) {
        ++sizes[OwnerOfOccurrence(i)];
      }
      for (size_t owner = 0; owner < shares_.size(); ++owner) {
        Share& share = shares_[owner];
        share.num_sums += sizes[owner] > 0;
        share.num_occurrences += sizes[owner];
        share.longest_sum = std::max(share.longest_sum, sizes[owner]);
      }
    }
  }

  bool HasWeights() const { return bags_.weights != nullptr; }

  bool SumsAreCheaper(const Share& share) const {
    return bags_.combiner != Combiner::kNone && share.num_keys > 0 &&
           options_.sum_bytes * share.num_sums + share.sums_bytes(HasWeights()) <
               options_.row_bytes * share.num_keys;
  }

  void LayOut() {
    size_t data_bytes = 0;
    for (size_t owner = 0; owner < shares_.size(); ++owner) {
      const Share& share = shares_[owner];
      const bool requests_sums = writers_[owner].requests_sums = SumsAreCheaper(share);
      const size_t key_bytes = static_cast<size_t>(share.num_keys) * options_.key_bytes;
      size_t bytes = share.num_keys > 0 ? sizeof(RequestPartHeader) + key_bytes : 0;
      if (requests_sums) bytes += static_cast<size_t>(share.sums_bytes(HasWeights()));
      request_.send_bytes.push_back(static_cast<int64_t>(bytes));
      request_.reply_counts.push_back(requests_sums ? share.num_sums : share.num_keys);
      request_.sum_counts.push_back(requests_sums ? share.num_sums : 0);
      data_bytes += bytes;
    }
    request_.data.resize(data_bytes);
    char* data = request_.data.data();
    int64_t next_reply = 0;
    for (size_t owner = 0; owner < shares_.size(); ++owner) {
      const Share& share = shares_[owner];
      PartWriter& writer = writers_[owner];
      writer.place_bytes = share.place_bytes();
      writer.next_reply = next_reply;
      next_reply += request_.reply_counts[owner];
      if (share.num_keys == 0) continue;
      const RequestPartHeader header{
          static_cast<int32_t>(share.num_keys),
          static_cast<int32_t>(writer.requests_sums ? share.num_sums : 0),
          static_cast<int16_t>(writer.place_bytes),
          static_cast<int16_t>(writer.requests_sums && HasWeights() ? 1 : 0)};
      std::memcpy(data, &header, sizeof(header));
      writer.next_key = data + sizeof(header);
      writer.next_place =
          writer.next_key + static_cast<size_t>(share.num_keys) * options_.key_bytes;
      writer.next_weight = writer.next_place + share.places_bytes();
      data += request_.send_bytes[owner];
    }
  }

  /// Sets places_: the position of a key's row among all replies or, for sums, the key's position
  /// among those of its owner.
  void WriteKeys() {
    if (options_.key_bytes == sizeof(int64_t)) {
      WriteKeysOf<sizeof(int64_t)>();
    } else {
      WriteKeysOf<sizeof(int32_t)>();
    }
  }

  template <size_t kKeyBytes>
  void WriteKeysOf() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      PartWriter& writer = writers_[static_cast<size_t>(owners_[i])];
      places_[i] =
          static_cast<int32_t>(writer.requests_sums ? writer.num_keys++ : writer.next_reply++);
      std::memcpy(writer.next_key, &keys_[i], kKeyBytes);
      writer.next_key += kKeyBytes;
    }
  }

  void ReplyOccurrences() {
    request_.replies.resize(static_cast<size_t>(bags_.num_keys));
    for (size_t i = 0; i < request_.replies.size(); ++i) {
      request_.replies[i] = places_[static_cast<size_t>(bags_.inverse[i])];
    }
  }

  void ReplyBags() {
    const auto asks_rows = [](const PartWriter& writer) { return !writer.requests_sums; };
    const auto requests_sums_of = [&](int64_t place_bytes) {
      return owners_are_few() && !HasWeights() &&
             std::all_of(writers_.begin(), writers_.end(), [&](const PartWriter& writer) {
               return writer.next_key == nullptr ||
                      (writer.requests_sums && writer.place_bytes == place_bytes);
             });
    };
    if (std::all_of(writers_.begin(), writers_.end(), asks_rows)) {
      ReplyRows();
    } else if (requests_sums_of(sizeof(uint16_t))) {
      ReplySums<uint16_t>();
    } else if (requests_sums_of(sizeof(uint32_t))) {
      ReplySums<uint32_t>();
    } else {
      ReplyRowsAndSums();
    }
  }

  /// If all owners are asked for rows.
  void ReplyRows() {
    ReplyOccurrences();
    request_.reply_splits.assign(bags_.row_splits, bags_.row_splits + bags_.num_bags + 1);
    if (HasWeights()) request_.reply_weights.assign(bags_.weights, bags_.weights + bags_.num_keys);
  }

  /// If there are few owners, and all are asked for sums without weights.
  template <typename Place>
  void ReplySums() {
    struct Sums {
      size_t open = 0;  // position of the current sum's size
      size_t next = 0;
      int32_t next_reply = 0;
    };
    char* const data = request_.data.data();
    std::array<Sums, kFewOwners> sums{};
    Sums* const end = sums.data() + writers_.size();
    size_t num_replies = 0;
    for (size_t owner = 0; owner < writers_.size(); ++owner) {
      const PartWriter& writer = writers_[owner];
      if (writer.next_key != nullptr)
        sums[owner].next = static_cast<size_t>(writer.next_place - data);
      sums[owner].next_reply = static_cast<int32_t>(writer.next_reply);
      num_replies += static_cast<size_t>(shares_[owner].num_sums);
    }
    request_.replies.resize(num_replies);
    request_.reply_splits.reserve(static_cast<size_t>(bags_.num_bags) + 1);
    request_.reply_splits.push_back(0);
    int32_t* next_reply = request_.replies.data();
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      for (Sums* of_owner = sums.data(); of_owner != end; ++of_owner) {
        of_owner->open = of_owner->next;
        of_owner->next += sizeof(Place);
      }
      for (int64_t i = bags_.row_splits[bag]; i < bags_.row_splits[bag + 1]; ++i) {
        Sums& of_owner = sums[OwnerOfOccurrence(i)];
        const auto place = static_cast<Place>(places_[static_cast<size_t>(bags_.inverse[i])]);
        std::memcpy(data + of_owner.next, &place, sizeof(Place));
        of_owner.next += sizeof(Place);
      }
      for (Sums* of_owner = sums.data(); of_owner != end; ++of_owner) {
        const auto size = static_cast<Place>((of_owner->next - of_owner->open) / sizeof(Place) - 1);
        if (size == 0) {
          of_owner->next = of_owner->open;
          continue;
        }
        std::memcpy(data + of_owner->open, &size, sizeof(Place));
        *next_reply++ = of_owner->next_reply++;
      }
      request_.reply_splits.push_back(next_reply - request_.replies.data());
    }
  }

  void ReplyRowsAndSums() {
    request_.replies.reserve(static_cast<size_t>(bags_.num_keys));
    if (HasWeights()) request_.reply_weights.reserve(static_cast<size_t>(bags_.num_keys));
    request_.reply_splits.reserve(static_cast<size_t>(bags_.num_bags) + 1);
    request_.reply_splits.push_back(0);
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      for (int64_t i = bags_.row_splits[bag]; i < bags_.row_splits[bag + 1]; ++i) {
        PartWriter& writer = writers_[OwnerOfOccurrence(i)];
        if (writer.requests_sums) {
          AddToSum(bag, i, &writer);
        } else {
          AddReply(places_[static_cast<size_t>(bags_.inverse[i])],
                   HasWeights() ? bags_.weights[i] : 1.0f);
        }
      }
      request_.reply_splits.push_back(static_cast<int64_t>(request_.replies.size()));
    }
  }

  void AddReply(int64_t place, float weight) {
    request_.replies.push_back(static_cast<int32_t>(place));
    if (HasWeights()) request_.reply_weights.push_back(weight);
  }

  void AddToSum(int64_t bag, int64_t occurrence, PartWriter* writer) {
    if (writer->open_bag != bag) {
      writer->open_bag = bag;
      writer->open_size = 0;
      writer->open_size_place = writer->next_place;
      writer->next_place += writer->place_bytes;
      AddReply(writer->next_reply++, 1.0f);
    }
    const int32_t place = places_[static_cast<size_t>(bags_.inverse[occurrence])];
    WritePlace(++writer->open_size, writer->place_bytes, writer->open_size_place);
    WritePlace(static_cast<uint32_t>(place), writer->place_bytes, writer->next_place);
    writer->next_place += writer->place_bytes;
    if (!HasWeights()) return;
    std::memcpy(writer->next_weight, &bags_.weights[occurrence], kRequestWeightBytes);
    writer->next_weight += kRequestWeightBytes;
  }

  /// Factors are per whole bag, as a reply may be a sum of several rows.
  void FindFactors() {
    request_.factors.resize(static_cast<size_t>(bags_.num_bags));
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      float weight_sum = 0.0f;
      for (int64_t i = bags_.row_splits[bag]; HasWeights() && i < bags_.row_splits[bag + 1]; ++i) {
        weight_sum += bags_.weights[i];
      }
      request_.factors[static_cast<size_t>(bag)] = BagFactor(bags_, bag, weight_sum);
    }
  }

  const ShardedRequestOptions& options_;
  const Bags& bags_;
  const int64_t* const keys_;
  UnsetVector<int32_t> owners_;      // [num_distinct]
  UnsetVector<int32_t> places_;      // [num_distinct]
  std::vector<Share> shares_;        // [num_ranks]
  std::vector<PartWriter> writers_;  // [num_ranks]
  ShardedRequest request_;
};

}  // namespace

ShardedRequest MakeRequest(const ShardedRequestOptions& options, const Bags& bags,
                           const int64_t* distinct_keys) {
  return Requester(options, bags, distinct_keys).Make();
}

Outgoing JoinRequests(std::vector<ShardedRequest> group) {
  struct Joined {
    std::vector<std::vector<char>> data;      // of each lookup
    std::vector<std::vector<int64_t>> sizes;  // [owner][lookup]
  };
  const auto joined = std::make_shared<Joined>();
  joined->sizes.resize(group[0].send_bytes.size());
  for (ShardedRequest& request : group) {
    for (size_t owner = 0; owner < joined->sizes.size(); ++owner)
      joined->sizes[owner].push_back(request.send_bytes[owner]);
    joined->data.push_back(std::move(request.data));
  }
  Outgoing outgoing{{}, joined};
  std::vector<size_t> begins(group.size(), 0);  // in the data of each lookup
  for (const std::vector<int64_t>& sizes : joined->sizes) {
    Pieces& message = outgoing.by_rank.emplace_back();
    if (group.size() > 1)
      message.emplace_back(reinterpret_cast<const char*>(sizes.data()),
                           sizes.size() * sizeof(int64_t));
    for (size_t i = 0; i < group.size(); ++i) {
      const auto size = static_cast<size_t>(sizes[i]);
      if (size > 0) message.emplace_back(joined->data[i].data() + begins[i], size);
      begins[i] += size;
    }
  }
  return outgoing;
}

}  // namespace sok
