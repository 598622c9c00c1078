// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/questions.h"

#include <algorithm>
#include <cstring>

#include "ops/base/error.h"

namespace sok {
namespace {

/// Leads the bytes for one owner: num_keys keys follow, then for each sum how many rows it has and
/// the place of each among the keys, as unsigned integers of place_bytes. Nothing is sent to an
/// owner of no key.
struct Header {
  int32_t num_keys;
  int32_t num_sums;     // 0: the row of each key is asked for
  int32_t place_bytes;  // 2 or 4
};

/// What a batch wants of one owner.
struct Share {
  int64_t num_keys = 0;
  int64_t num_occurrences = 0;
  int64_t num_sums = 0;
  int64_t longest_sum = 0;  // rows
  int64_t open_bag = -1;    // of the sum that grows
  int64_t open_size = 0;

  int64_t place_bytes() const { return std::max(num_keys - 1, longest_sum) <= UINT16_MAX ? 2 : 4; }
  int64_t sums_bytes() const { return place_bytes() * (num_sums + num_occurrences); }
};

/// Where the question for one owner is written.
struct Pen {
  bool asks_sums = false;
  int64_t place_bytes = 2;
  char* next_key = nullptr;
  char* next_place = nullptr;
  char* open_size_place = nullptr;  // holds how many rows the sum that grows has
  int64_t open_bag = -1;
  uint32_t open_size = 0;
  int64_t num_keys = 0;  // written so far
  int64_t next_answer = 0;
};

void WritePlace(uint32_t value, int64_t place_bytes, char* to) {
  if (place_bytes == 4) {
    std::memcpy(to, &value, 4);
  } else {
    std::memcpy(to, &value, 2);  // the low bytes: little-endian
  }
}

uint32_t ReadPlace(const char* from, int64_t place_bytes) {
  uint32_t value = 0;
  if (place_bytes == 4) {
    std::memcpy(&value, from, 4);
  } else {
    std::memcpy(&value, from, 2);
  }
  return value;
}

class Asker {
 public:
  Asker(const QuestionOptions& options, const Bags& bags, const int64_t* distinct_keys)
      : options_(options),
        bags_(bags),
        keys_(distinct_keys),
        owners_(static_cast<size_t>(bags.num_distinct)),
        places_(static_cast<size_t>(bags.num_distinct)),
        shares_(static_cast<size_t>(options.num_ranks)),
        pens_(static_cast<size_t>(options.num_ranks)) {}

  Questions Ask() {
    FindOwners();
    if (bags_.combiner != Combiner::kNone) CountSums();
    LayOut();
    WriteKeys();
    if (bags_.combiner == Combiner::kNone) {
      AnswerOccurrences();
    } else {
      AnswerBags();
    }
    return std::move(questions_);
  }

 private:
  void FindOwners() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      const int64_t remainder = keys_[i] % options_.num_ranks;
      owners_[i] = static_cast<int32_t>(remainder < 0 ? remainder + options_.num_ranks : remainder);
      ++shares_[static_cast<size_t>(owners_[i])].num_keys;
    }
  }

  size_t OwnerOfOccurrence(int64_t i) const {
    return static_cast<size_t>(owners_[static_cast<size_t>(bags_.inverse[i])]);
  }

  void CountSums() {
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

  bool SumsAreCheaper(const Share& share) const {
    const int64_t answer_bytes =
        options_.num_trips * options_.dim * static_cast<int64_t>(sizeof(float));
    return bags_.combiner != Combiner::kNone && share.num_keys > 0 &&
           answer_bytes * share.num_sums + share.sums_bytes() < answer_bytes * share.num_keys;
  }

  void LayOut() {
    size_t data_bytes = 0;
    for (size_t owner = 0; owner < shares_.size(); ++owner) {
      const Share& share = shares_[owner];
      const bool asks_sums = pens_[owner].asks_sums = SumsAreCheaper(share);
      const size_t key_bytes = static_cast<size_t>(share.num_keys) * options_.key_bytes;
      size_t bytes = share.num_keys > 0 ? sizeof(Header) + key_bytes : 0;
      if (asks_sums) bytes += static_cast<size_t>(share.sums_bytes());
      questions_.send_bytes.push_back(static_cast<int64_t>(bytes));
      questions_.answer_counts.push_back(asks_sums ? share.num_sums : share.num_keys);
      data_bytes += bytes;
    }
    questions_.data.resize(data_bytes);
    char* data = questions_.data.data();
    int64_t next_answer = 0;
    for (size_t owner = 0; owner < shares_.size(); ++owner) {
      const Share& share = shares_[owner];
      Pen& pen = pens_[owner];
      pen.place_bytes = share.place_bytes();
      pen.next_answer = next_answer;
      next_answer += questions_.answer_counts[owner];
      if (share.num_keys == 0) continue;
      const Header header{static_cast<int32_t>(share.num_keys),
                          static_cast<int32_t>(pen.asks_sums ? share.num_sums : 0),
                          static_cast<int32_t>(pen.place_bytes)};
      std::memcpy(data, &header, sizeof(header));
      pen.next_key = data + sizeof(header);
      pen.next_place = pen.next_key + static_cast<size_t>(share.num_keys) * options_.key_bytes;
      data += questions_.send_bytes[owner];
    }
  }

  /// places_: of a key's row among all answers, or, where sums are asked for, of the key among
  /// those for its owner.
  void WriteKeys() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      Pen& pen = pens_[static_cast<size_t>(owners_[i])];
      places_[i] = static_cast<int32_t>(pen.asks_sums ? pen.num_keys++ : pen.next_answer++);
      std::memcpy(pen.next_key, &keys_[i], options_.key_bytes);
      pen.next_key += options_.key_bytes;
    }
  }

  void AnswerOccurrences() {
    questions_.answers.resize(static_cast<size_t>(bags_.num_keys));
    for (size_t i = 0; i < questions_.answers.size(); ++i) {
      questions_.answers[i] = places_[static_cast<size_t>(bags_.inverse[i])];
    }
  }

  void AnswerBags() {
    questions_.answers.reserve(static_cast<size_t>(bags_.num_keys));
    questions_.answer_splits.reserve(static_cast<size_t>(bags_.num_bags) + 1);
    questions_.answer_splits.push_back(0);
    for (int64_t bag = 0; bag < bags_.num_bags; ++bag) {
      for (int64_t i = bags_.row_splits[bag]; i < bags_.row_splits[bag + 1]; ++i) {
        Pen& pen = pens_[OwnerOfOccurrence(i)];
        const int32_t place = places_[static_cast<size_t>(bags_.inverse[i])];
        if (!pen.asks_sums) {
          questions_.answers.push_back(place);
        } else {
          AddToSum(bag, static_cast<uint32_t>(place), &pen);
        }
      }
      questions_.answer_splits.push_back(static_cast<int64_t>(questions_.answers.size()));
    }
  }

  void AddToSum(int64_t bag, uint32_t place, Pen* pen) {
    if (pen->open_bag != bag) {
      pen->open_bag = bag;
      pen->open_size = 0;
      pen->open_size_place = pen->next_place;
      pen->next_place += pen->place_bytes;
      questions_.answers.push_back(static_cast<int32_t>(pen->next_answer++));
    }
    WritePlace(++pen->open_size, pen->place_bytes, pen->open_size_place);
    WritePlace(place, pen->place_bytes, pen->next_place);
    pen->next_place += pen->place_bytes;
  }

  const QuestionOptions& options_;
  const Bags& bags_;
  const int64_t* const keys_;
  std::vector<int32_t> owners_;  // [num_distinct]
  std::vector<int32_t> places_;  // [num_distinct]
  std::vector<Share> shares_;    // [num_ranks]
  std::vector<Pen> pens_;        // [num_ranks]
  Questions questions_;
};

class QuestionReader {
 public:
  explicit QuestionReader(size_t key_bytes) : key_bytes_(key_bytes) { asked_.row_splits = {0}; }

  /// Reads what one rank asks.
  void Read(const char* data, int64_t size_bytes) {
    const size_t sums_before = asked_.row_splits.size();
    next_ = data;
    end_ = data + size_bytes;
    if (size_bytes > 0) ReadSums(ReadHeader());
    if (next_ != end_) ThrowUnreadable();
    asked_.counts.push_back(static_cast<int64_t>(asked_.row_splits.size() - sums_before));
  }

  AskedSums Take() { return std::move(asked_); }

 private:
  Header ReadHeader() {
    Header header;
    std::memcpy(&header, Advance(1, sizeof(header)), sizeof(header));
    const bool is_valid = header.num_keys > 0 && header.num_sums >= 0 &&
                          (header.place_bytes == 2 || header.place_bytes == 4);
    if (!is_valid) ThrowUnreadable();
    return header;
  }

  void ReadSums(const Header& header) {
    const size_t first_key = asked_.keys.size();
    const char* keys = Advance(static_cast<size_t>(header.num_keys), key_bytes_);
    for (int32_t i = 0; i < header.num_keys; ++i) {
      int64_t key = 0;  // uint32 keys travel as their low four bytes
      std::memcpy(&key, keys + static_cast<size_t>(i) * key_bytes_, key_bytes_);
      asked_.keys.push_back(key);
      if (header.num_sums > 0) continue;
      AddRow(first_key + static_cast<size_t>(i));
      EndSum();
    }
    for (int32_t sum = 0; sum < header.num_sums; ++sum) {
      const uint32_t num_rows = ReadPlace(Advance(1, header), header.place_bytes);
      for (uint32_t i = 0; i < num_rows; ++i) {
        const uint32_t place = ReadPlace(Advance(1, header), header.place_bytes);
        if (place >= static_cast<uint32_t>(header.num_keys)) ThrowUnreadable();
        AddRow(first_key + place);
      }
      EndSum();
    }
  }

  void AddRow(size_t key_place) {
    if (asked_.key_places.size() == static_cast<size_t>(kMaxBatchKeys)) {
      Throw(ErrorCode::kInvalidArgument, "the ranks together ask one rank for more than ",
            kMaxBatchKeys, " rows of one table in a step; make the batch smaller");
    }
    asked_.key_places.push_back(static_cast<int32_t>(key_place));
  }

  void EndSum() { asked_.row_splits.push_back(static_cast<int64_t>(asked_.key_places.size())); }

  const char* Advance(int64_t count, const Header& header) {
    return Advance(static_cast<size_t>(count), static_cast<size_t>(header.place_bytes));
  }

  const char* Advance(size_t count, size_t bytes) {
    if (count > static_cast<size_t>(end_ - next_) / bytes) ThrowUnreadable();
    next_ += count * bytes;
    return next_ - count * bytes;
  }

  [[noreturn]] static void ThrowUnreadable() {
    Throw(ErrorCode::kIo,
          "a rank's question cannot be read; do all ranks run the same sok_compat?");
  }

  const size_t key_bytes_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  AskedSums asked_;
};

}  // namespace

Questions AskOwners(const QuestionOptions& options, const Bags& bags,
                    const int64_t* distinct_keys) {
  return Asker(options, bags, distinct_keys).Ask();
}

AskedSums ReadQuestions(size_t key_bytes, const char* data,
                        const std::vector<int64_t>& received_bytes) {
  QuestionReader reader(key_bytes);
  for (const int64_t size_bytes : received_bytes) {
    reader.Read(data, size_bytes);
    data += size_bytes;
  }
  return reader.Take();
}

}  // namespace sok
