// SPDX-License-Identifier: Apache-2.0
// Messages of ranks: round trips, and malformed bytes.
#include "ops/exchange/protocol/message.h"

#include <limits>

#include "ops/exchange/protocol/message_bytes.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

SOK_TEST(FailuresAndStatusesThereAndBack) {
  const LookupFailure failure{{NameHash("layer"), -3, 5, true}, "table is full"};
  CHECK_TRUE(KindOf(failure.Serialize()) == MessageKind::kFailure);
  const LookupFailure read = LookupFailure::Parse(failure.Serialize());
  CHECK_TRUE(read.collective == failure.collective);
  CHECK_EQ(read.message, failure.message);
  const RankStatus status{7, "layer/keys"};
  CHECK_TRUE(KindOf(status.Serialize()) == MessageKind::kStatus);
  CHECK_TRUE(RankStatus::Parse(status.Serialize()) == status);
  const LastError error{"the end of its data"};
  CHECK_TRUE(KindOf(error.Serialize()) == MessageKind::kLastError);
  CHECK_EQ(LastError::Parse(error.Serialize()).message, error.message);
  for (const std::string& bytes : {failure.Serialize(), status.Serialize(), error.Serialize()}) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string_view cut = std::string_view(bytes).substr(0, size);
      CHECK_THROWS(ErrorCode::kIo, {"cut off"}, LookupFailure::Parse(cut));
      CHECK_THROWS(ErrorCode::kIo, {"cut off"}, RankStatus::Parse(cut));
      CHECK_THROWS(ErrorCode::kIo, {"cut off"}, LastError::Parse(cut));
    }
  }
}

RequestHeader HeaderOf(const std::string& lookup, int64_t number, const std::string& exchange,
                       const std::string& description) {
  const LookupName name{lookup, /*graph=*/3, /*session=*/1, /*start=*/0};
  return {{name.Hash(), number, /*repeat=*/number % 3, /*is_ordered=*/number % 3 > 0},
          name,
          NameHash(exchange),
          std::make_shared<const Description>(description)};
}

void CheckReads(HeaderReader& reader, const std::string& bytes, const RequestHeader& expected) {
  const std::string message = bytes + "payload";
  std::string_view left = message;
  const RequestHeader read = reader.Read(&left);
  CHECK_EQ(left, "payload");
  CHECK_TRUE(read.collective == expected.collective);
  CHECK_EQ(read.lookup.Text(), expected.lookup.Text());
  CHECK_EQ(read.lookup.Hash(), expected.lookup.Hash());
  CHECK_EQ(read.exchange, expected.exchange);
  CHECK_EQ(read.description->text, expected.description->text);
}

SOK_TEST(HeadersAreShortOnceTheyAreKnown) {
  HeaderWriter writer;
  HeaderReader reader;
  for (int64_t number = 0; number < 200; ++number) {
    for (const std::string lookup : {"users", "items"}) {
      for (const std::string description : {"dim 4", "dim 8"}) {
        const RequestHeader header = HeaderOf(lookup, number, "keys", description);
        const HeaderWriter::Header written = writer.Write(header);
        CHECK_EQ(written.learned > 0, number < 2);
        CHECK_TRUE(number < 2 || written.bytes.size() <= (header.collective.repeat > 0 ? 5 : 4));
        CheckReads(reader, written.bytes, header);
        if (number == 1) writer.MarkSent(written);  // until then it may not have arrived everywhere
      }
    }
  }
}

SOK_TEST(MoreHeadersThanAreNumbered) {
  HeaderWriter writer;
  HeaderReader reader;
  for (int64_t i = 0; i < 70000; ++i) {
    const RequestHeader header = HeaderOf("lookup " + std::to_string(i), 0, "keys", "");
    const HeaderWriter::Header written = writer.Write(header);
    writer.MarkSent(written);
    CheckReads(reader, written.bytes, header);
  }
}

SOK_TEST(BytesThatAreNoHeader) {
  HeaderWriter writer;
  const RequestHeader header = HeaderOf("layer", 5, "keys", "dim 4");
  const std::string in_full = writer.Write(header).bytes;
  writer.MarkSent(writer.Write(header));
  const std::string short_one = writer.Write(header).bytes;
  for (const std::string& bytes : {in_full, short_one}) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      std::string_view cut = std::string_view(bytes).substr(0, size);
      CHECK_THROWS(ErrorCode::kIo, {"cut off"}, HeaderReader().Read(&cut));
    }
  }
  std::string_view unknown = short_one;  // to a rank that does not know the number
  CHECK_THROWS(ErrorCode::kIo, {"cut off"}, HeaderReader().Read(&unknown));
  CHECK_THROWS(ErrorCode::kIo, {"cut off"}, KindOf(std::string_view("\x7f", 1)));
}

SOK_TEST(NumbersOfAnySize) {
  MessageWriter writer;
  const int64_t numbers[] = {0,
                             -1,
                             63,
                             -64,
                             64,
                             1 << 20,
                             std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::min()};
  for (const int64_t number : numbers) writer.Number(number);
  MessageReader reader(writer.bytes());
  for (const int64_t number : numbers) CHECK_EQ(reader.Number(), number);
  CHECK_EQ(reader.position(), writer.bytes().size());
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
