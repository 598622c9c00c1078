// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/restore/restored_together.h"

#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/protocol/descriptions.h"
#include "ops/exchange/protocol/message_bytes.h"

namespace sok {
namespace {

constexpr int64_t kNoError = -1;

/// What a rank has read, or its error.
struct Outcome {
  int64_t code = kNoError;
  std::string text;

  std::string Serialize() const {
    MessageWriter writer;
    writer.Number(code);
    writer.Text(text);
    return std::move(writer.bytes());
  }
  static Outcome Parse(const std::string& message) {
    MessageReader reader(message);
    const int64_t code = reader.Number();
    return {code, std::string(reader.Text())};
  }
};

}  // namespace

void ReadOnAllRanks(RankCommunicator& communicator, const std::string& prefix,
                    const std::function<std::string()>& read) {
  std::optional<Error> error;
  Outcome own;
  try {
    own.text = read();
  } catch (const Error& raised) {
    error = raised;
  } catch (const std::bad_alloc&) {
    error = Error(ErrorCode::kOutOfMemory, "no memory to restore " + prefix);
  }
  if (error) own = {static_cast<int64_t>(error->code()), error->what()};
  std::vector<std::string> texts;
  for (const std::string& message : communicator.Share(own.Serialize())) {
    if (error) throw *error;
    const Outcome outcome = Outcome::Parse(message);
    if (outcome.code != kNoError)
      Throw(static_cast<ErrorCode>(outcome.code), "rank ", texts.size(), ": ", outcome.text);
    texts.push_back(outcome.text);
  }
  const std::string difference = DifferenceOf(texts);
  if (difference.empty()) return;
  Throw(ErrorCode::kFailedPrecondition, "the ranks have read different checkpoints, ", prefix, ": ",
        difference,
        "; was one written meanwhile, or do the ranks not share the folder? No rank has "
        "restored the table: restore again");
}

}  // namespace sok
