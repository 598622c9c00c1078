// SPDX-License-Identifier: Apache-2.0
// Messages of a round: there and back, and bytes that are no message.
#include "ops/exchange/message.h"

#include <limits>

#include "ops/exchange/message_bytes.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

Message Example() {
  Message message;
  message.is_leaving = true;
  message.num_steps = 7;
  message.waits_for = "layer/keys";
  message.offers = {
      {{NameHash("layer"), 3}, NameHash("keys"), 5, 16},
      {{NameHash("layer"), 4}, NameHash("rows"), 6, 0, Payload::kCameBefore, NameHash("dim 4")}};
  message.failures = {{{NameHash("layer"), 2}, "table is full"}, {{0, -1}, ""}};
  message.descriptions = {"dim 4", "", "dim 8"};
  return message;
}

/// As a rank sends it, with nothing behind.
std::string BytesOf(const Message& message, const KnownExchanges& known = {}) {
  std::string bytes = message.Serialize(known);
  const auto size_bytes = static_cast<int64_t>(bytes.size());
  SetSizes(size_bytes + 100, size_bytes, &bytes);
  return bytes;
}

Message Parse(const std::string& bytes, const KnownExchanges& known = {}) {
  size_t header_bytes = 0;
  Message message = Message::Parse(bytes, known, &header_bytes);
  CHECK_TRUE(header_bytes <= bytes.size());
  return message;
}

SOK_TEST(ThereAndBack) {
  const std::string bytes = BytesOf(Example());
  size_t header_bytes = 0;
  const std::string with_payload = bytes + "payload";
  const Message message = Message::Parse(with_payload, {}, &header_bytes);
  CHECK_EQ(header_bytes, bytes.size());
  const MessageSizes sizes = MessageSizes::Parse(bytes.substr(0, 24));
  CHECK_EQ(sizes.header_bytes, static_cast<int64_t>(bytes.size()));
  CHECK_EQ(sizes.longest_bytes, sizes.total_bytes + 100);
  CHECK_EQ(message.total_bytes, sizes.total_bytes);
  CHECK_EQ(BytesOf(message), bytes);
  CHECK_TRUE(message.is_leaving);
  CHECK_EQ(message.num_steps, 7);
  CHECK_EQ(message.waits_for, "layer/keys");
  CHECK_EQ(message.offers.size(), 2u);
  CHECK_EQ(message.offers[0].exchange_hash, NameHash("keys"));
  CHECK_EQ(message.offers[1].meeting.number, 4);
  CHECK_TRUE(message.offers[0].payload == Payload::kFollows);
  CHECK_TRUE(message.offers[1].payload == Payload::kCameBefore);
  CHECK_EQ(message.offers[1].description_hash, NameHash("dim 4"));
  CHECK_EQ(message.descriptions[2], "dim 8");
  CHECK_EQ(message.failures[0].message, "table is full");
}

KnownExchanges ExampleKnown() {
  KnownExchanges known;
  for (const Offer& offer : Example().offers) known.Learn(KindOf(offer), offer.meeting.number - 1);
  return known;
}

/// The same offers, in few bytes.
SOK_TEST(ThereAndBackByNumbers) {
  const KnownExchanges known = ExampleKnown();
  Message message = Example();
  const std::string bytes = BytesOf(message, known);
  CHECK_EQ(BytesOf(Parse(bytes, known)), BytesOf(message));
  const size_t all_bytes = bytes.size();
  message.offers.clear();
  CHECK_EQ(all_bytes - BytesOf(message, known).size(), 8u);
}

/// What ranks have learnt in different orders has other numbers.
SOK_TEST(NumbersThatNobodyHasLearnt) {
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"cut off"},
               Parse(BytesOf(Example(), ExampleKnown())));
}

SOK_TEST(KnownExchangesAreForgottenAllAtOnce) {
  KnownExchanges known;
  for (uint64_t i = 0; i < KnownExchanges::kMost; ++i) known.Learn({i, 0, 0}, 5);
  known.Learn({3, 0, 0}, 6);
  CHECK_EQ(known.At(3)->number, 6);
  CHECK_EQ(known.Find({KnownExchanges::kMost - 1, 0, 0}).value(), KnownExchanges::kMost - 1);
  CHECK_TRUE(!known.Find({3, 0, 1}) && !known.At(KnownExchanges::kMost));
  known.Learn({7, 7, 7}, 0);
  CHECK_EQ(known.Find({7, 7, 7}).value(), 0u);
  CHECK_TRUE(!known.Find({3, 0, 0}) && !known.At(1));
}

SOK_TEST(NumbersOfAnySize) {
  MessageWriter writer;
  std::vector<int64_t> numbers = {0, -1, std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  for (int bit = 0; bit < 63; ++bit) {
    for (const int64_t nearby : {-1, 0, 1}) {
      numbers.push_back((int64_t{1} << bit) + nearby);
      numbers.push_back(-(int64_t{1} << bit) + nearby);
    }
  }
  for (const int64_t number : numbers) writer.Number(number);
  MessageReader reader(writer.bytes());
  for (const int64_t number : numbers) CHECK_EQ(reader.Number(), number);
  CHECK_EQ(reader.position(), writer.bytes().size());
  MessageWriter small;
  for (int64_t number = -64; number < 64; ++number) small.Number(number);
  CHECK_EQ(small.bytes().size(), 128u);
}

SOK_TEST(CutOffAnywhere) {
  for (const KnownExchanges& known : {KnownExchanges(), ExampleKnown()}) {
    const std::string bytes = BytesOf(Example(), known);
    for (size_t size = 0; size < bytes.size(); ++size) {
      CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"cut off"},
                   Parse(bytes.substr(0, size), known));
    }
  }
}

/// Counts, sizes and numbers that the bytes cannot hold, negative ones among them.
SOK_TEST(WrongBytes) {
  const KnownExchanges known = ExampleKnown();
  const std::string bytes = BytesOf(Example(), known);
  for (const std::string& wrong :
       {std::string(8, '\xff'), std::string(8, '\x80'), std::string(8, '\x7f'),
        std::string(1, '\x01'), std::string(1, '\x7f'), std::string(2, '\xfe')}) {
    for (size_t place = 0; place + wrong.size() <= bytes.size(); ++place) {
      std::string changed = bytes;
      changed.replace(place, wrong.size(), wrong);
      try {
        Parse(changed, known);  // a step or a hash: any value is one
      } catch (const Error& error) {
        CHECK_TRUE(error.code() == ErrorCode::kIo);
      }
    }
  }
}

SOK_TEST(NamesHaveDifferentHashes) {
  CHECK_TRUE(NameHash("layer/SokExchangeKeys") != NameHash("layer_1/SokExchangeKeys"));
  CHECK_EQ(NameHash(""), 0xcbf29ce484222325ull);  // the same on every machine
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
