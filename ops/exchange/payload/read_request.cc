// SPDX-License-Identifier: Apache-2.0
// Parses the requests of other ranks.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/error.h"
#include "ops/base/first_appearance.h"
#include "ops/exchange/payload/request_format.h"
#include "ops/exchange/payload/sharded_request.h"

namespace sok {
namespace {

template <typename Place>
Place ReadPlace(const char* from) {
  Place place;
  std::memcpy(&place, from, sizeof(Place));
  return place;
}

[[noreturn]] void ThrowUnreadable() {
  Throw(ErrorCode::kIo,
        "a rank's request is malformed; do all ranks run the same version of sok_compat?");
}

[[noreturn]] void ThrowTooMany() {
  Throw(ErrorCode::kInvalidArgument, "the ranks together request more than ", kMaxBatchKeys,
        " rows of one table from one rank in a step; reduce the batch size");
}

class RequestReader {
 public:
  explicit RequestReader(size_t key_bytes) : key_bytes_(key_bytes) {}

  RequestedSums Read(const std::vector<std::string_view>& of_ranks) {
    for (const std::string_view bytes : of_ranks) {
      Open(bytes);
      requests_sums_ = requests_sums_ || (!bytes.empty() && ReadHeader().num_sums > 0);
    }
    if (requests_sums_) requested_.row_splits = {0};
    for (const std::string_view bytes : of_ranks) ReadRank(bytes);
    if (requests_sums_) {
      NumberKeys();
    } else {
      NumberRows();
    }
    if (!requested_.weights.empty()) requested_.weights.resize(requested_.key_places.size(), 1.0f);
    return std::move(requested_);
  }

 private:
  void Open(std::string_view bytes) {
    next_ = bytes.data();
    end_ = bytes.data() + bytes.size();
  }

  /// Parses the request of one rank.
  void ReadRank(std::string_view bytes) {
    Open(bytes);
    requested_.counts.push_back(0);
    requested_.sum_counts.push_back(0);
    if (!bytes.empty()) {
      const RequestPartHeader header = ReadHeader();
      requested_.counts.back() = header.num_sums > 0 ? header.num_sums : header.num_keys;
      requested_.sum_counts.back() = header.num_sums;
      if (requests_sums_) {
        ReadSums(header);
      } else {
        ReadKeys(static_cast<size_t>(header.num_keys));
      }
    }
    if (next_ != end_) ThrowUnreadable();
  }

  RequestPartHeader ReadHeader() {
    RequestPartHeader header;
    std::memcpy(&header, Advance(1, sizeof(header)), sizeof(header));
    const bool is_valid =
        header.num_keys > 0 && header.num_sums >= 0 &&
        (header.place_bytes == 2 || header.place_bytes == 4) &&
        (header.has_weights == 0 || (header.has_weights == 1 && header.num_sums > 0));
    if (!is_valid) ThrowUnreadable();
    return header;
  }

  void ReadSums(const RequestPartHeader& header) {
    const size_t first_key = requested_.keys.size();
    const size_t first_row = requested_.key_places.size();
    ReadKeys(static_cast<size_t>(header.num_keys));
    if (header.num_sums == 0) AddRowOfEachKey(first_key);
    if (header.place_bytes == sizeof(uint16_t)) {
      ReadPlaces<uint16_t>(header, first_key);
    } else {
      ReadPlaces<uint32_t>(header, first_key);
    }
    if (header.has_weights) ReadWeights(first_row);
  }

  void ReadKeys(size_t num_keys) {
    const char* from = Advance(num_keys, key_bytes_);
    const size_t first = requested_.keys.size();
    requested_.keys.resize(first + num_keys);
    if (key_bytes_ == sizeof(int64_t)) {
      std::memcpy(&requested_.keys[first], from, num_keys * sizeof(int64_t));
      return;
    }
    for (size_t i = 0; i < num_keys; ++i) {  // uint32 keys are sent as their low four bytes
      uint32_t key = 0;
      std::memcpy(&key, from + i * sizeof(key), sizeof(key));
      requested_.keys[first + i] = key;
    }
  }

  /// Adds a sum of one row for each key from `first_key` on.
  void AddRowOfEachKey(size_t first_key) {
    const size_t num_keys = requested_.keys.size() - first_key;
    const size_t first_row = requested_.key_places.size();
    if (num_keys > static_cast<size_t>(kMaxBatchKeys) - first_row) ThrowTooMany();
    const size_t first_sum = requested_.row_splits.size();
    requested_.key_places.resize(first_row + num_keys);
    requested_.row_splits.resize(first_sum + num_keys);
    for (size_t i = 0; i < num_keys; ++i) {
      requested_.key_places[first_row + i] = static_cast<int32_t>(first_key + i);
      requested_.row_splits[first_sum + i] = static_cast<int64_t>(first_row + i + 1);
    }
  }

  /// Reads the weights of the rows from `first_row` on; earlier rows without weights get ones.
  void ReadWeights(size_t first_row) {
    const size_t count = requested_.key_places.size() - first_row;
    const char* weights = Advance(count, kRequestWeightBytes);
    requested_.weights.resize(first_row, 1.0f);
    requested_.weights.resize(first_row + count);
    if (count > 0)
      std::memcpy(&requested_.weights[first_row], weights, count * kRequestWeightBytes);
  }

  /// Reads the sums over the keys from `first_key` on: the number of rows of each, and their
  /// positions.
  template <typename Place>
  void ReadPlaces(const RequestPartHeader& header, size_t first_key) {
    const auto most_places = static_cast<size_t>(end_ - next_) / sizeof(Place);
    requested_.key_places.reserve(requested_.key_places.size() + most_places);
    for (int32_t sum = 0; sum < header.num_sums; ++sum) {
      const size_t num_rows = ReadPlace<Place>(Advance(1, sizeof(Place)));
      const char* const places = Advance(num_rows, sizeof(Place));
      const size_t first_row = requested_.key_places.size();
      if (num_rows > static_cast<size_t>(kMaxBatchKeys) - first_row) ThrowTooMany();
      requested_.key_places.resize(first_row + num_rows);
      Place largest = 0;
      for (size_t i = 0; i < num_rows; ++i) {
        const Place place = ReadPlace<Place>(places + i * sizeof(Place));
        largest = std::max(largest, place);
        requested_.key_places[first_row + i] = static_cast<int32_t>(first_key + place);
      }
      if (largest >= static_cast<uint32_t>(header.num_keys)) ThrowUnreadable();
      requested_.row_splits.push_back(static_cast<int64_t>(first_row + num_rows));
    }
  }

  /// Makes keys distinct, as several ranks may have requested the same; each then has one row.
  void NumberRows() {
    if (requested_.keys.size() > static_cast<size_t>(kMaxBatchKeys)) ThrowTooMany();
    requested_.key_places.resize(requested_.keys.size());
    const int64_t num_distinct = NumberByFirstAppearance(
        static_cast<int64_t>(requested_.keys.size()), requested_.keys.data(),
        requested_.keys.data(), requested_.key_places.data());
    requested_.keys.resize(static_cast<size_t>(num_distinct));
  }

  /// The same for keys of sums.
  void NumberKeys() {
    if (requested_.keys.size() > static_cast<size_t>(kMaxBatchKeys)) ThrowUnreadable();
    const auto num_keys = static_cast<int64_t>(requested_.keys.size());
    UnsetVector<int32_t> numbers(requested_.keys.size());
    const int64_t num_distinct = NumberByFirstAppearance(num_keys, requested_.keys.data(),
                                                         requested_.keys.data(), numbers.data());
    if (num_distinct == num_keys) return;
    requested_.keys.resize(static_cast<size_t>(num_distinct));
    for (int32_t& place : requested_.key_places) place = numbers[static_cast<size_t>(place)];
  }

  const char* Advance(size_t count, size_t bytes) {
    if (count > static_cast<size_t>(end_ - next_) / bytes) ThrowUnreadable();
    next_ += count * bytes;
    return next_ - count * bytes;
  }

  const size_t key_bytes_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  bool requests_sums_ = false;  // by any rank
  RequestedSums requested_;
};

}  // namespace

RequestedSums ReadRequests(size_t key_bytes, const std::vector<std::string_view>& of_ranks) {
  return RequestReader(key_bytes).Read(of_ranks);
}

std::vector<std::vector<std::string_view>> SplitRequests(
    size_t num_lookups, const std::vector<std::string_view>& messages) {
  if (num_lookups == 1) return {messages};
  std::vector<std::vector<std::string_view>> parts(num_lookups);
  for (const std::string_view message : messages) {
    const size_t sizes_bytes = num_lookups * sizeof(int64_t);
    if (message.size() < sizes_bytes) ThrowUnreadable();
    std::string_view rest = message.substr(sizes_bytes);
    for (size_t i = 0; i < num_lookups; ++i) {
      int64_t size = 0;
      std::memcpy(&size, message.data() + i * sizeof(size), sizeof(size));
      if (size < 0 || static_cast<size_t>(size) > rest.size()) ThrowUnreadable();
      parts[i].push_back(rest.substr(0, static_cast<size_t>(size)));
      rest.remove_prefix(static_cast<size_t>(size));
    }
    if (!rest.empty()) ThrowUnreadable();
  }
  return parts;
}

}  // namespace sok
