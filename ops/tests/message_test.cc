// SPDX-License-Identifier: Apache-2.0
// Messages of a round: there and back, and bytes that are no message.
#include "ops/exchange/message.h"

#include <limits>

#include "ops/tests/check.h"

namespace sok {
namespace {

Message Example() {
  Message message;
  message.longest_bytes = 1234;
  message.total_bytes = 1000;
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

Message Parse(const std::string& bytes) {
  size_t header_bytes = 0;
  Message message = Message::Parse(bytes, &header_bytes);
  CHECK_TRUE(header_bytes <= bytes.size());
  return message;
}

SOK_TEST(ThereAndBack) {
  const std::string bytes = Example().Serialize();
  size_t header_bytes = 0;
  const std::string with_payload = bytes + "payload";
  const Message message = Message::Parse(with_payload, &header_bytes);
  CHECK_EQ(header_bytes, bytes.size());
  CHECK_EQ(MessageSizes::Parse(bytes.substr(0, 24)).header_bytes,
           static_cast<int64_t>(bytes.size()));
  CHECK_EQ(message.Serialize(), bytes);
  CHECK_TRUE(message.is_leaving);
  CHECK_EQ(message.longest_bytes, 1234);
  CHECK_EQ(message.total_bytes, 1000);
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

SOK_TEST(CutOffAnywhere) {
  const std::string bytes = Example().Serialize();
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"cut off"}, Parse(bytes.substr(0, size)));
  }
}

/// Counts and sizes that the bytes cannot hold, negative ones among them.
SOK_TEST(WrongCounts) {
  const std::string bytes = Example().Serialize();
  for (const int64_t wrong : {int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()}) {
    for (size_t place = 0; place + sizeof(wrong) <= bytes.size(); place += sizeof(wrong)) {
      std::string changed = bytes;
      changed.replace(place, sizeof(wrong), reinterpret_cast<const char*>(&wrong), sizeof(wrong));
      try {
        Parse(changed);  // a step or a hash: any value is one
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
