// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/rank_communicator.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"
#include "ops/exchange/protocol/message_bytes.h"

namespace sok {

RankCommunicator::RankCommunicator(tf::OpKernelContext* ctx,
                                   std::shared_ptr<const CollectiveHandle> handle)
    : step_id_(StepIdOf(ctx)), handle_(std::move(handle)), watch_(ctx, handle_) {}

void RankCommunicator::CheckConnects(int64_t num_ranks) const {
  if (handle_ || num_ranks == 1) return;
  Throw(ErrorCode::kFailedPrecondition,
        "the table is shared with other ranks, but this process is not connected to them");
}

std::vector<std::string> RankCommunicator::Exchange(std::vector<std::string> texts) {
  Barrier(/*is_patient=*/true);  // so that late ranks need not buffer data of the others
  return Submit(TextsByRank(std::move(texts)), /*is_patient=*/true);
}

void RankCommunicator::Barrier(bool is_patient) {
  if (handle_) Submit(TextToAll("", static_cast<size_t>(num_ranks())), is_patient);
}

std::vector<std::string> RankCommunicator::Share(const std::string& text) {
  if (!handle_) return {text};
  return Submit(TextToAll(text, static_cast<size_t>(num_ranks())), /*is_patient=*/true);
}

std::vector<std::vector<std::string>> RankCommunicator::ShareTexts(
    const std::vector<std::string>& texts) {
  MessageWriter writer;
  for (const std::string& text : texts) writer.Text(text);
  std::vector<std::vector<std::string>> all;
  for (const std::string& message : Share(writer.bytes())) {
    MessageReader reader(message);
    std::vector<std::string>& of_rank = all.emplace_back();
    while (reader.position() < message.size()) of_rank.emplace_back(reader.Text());
  }
  return all;
}

std::vector<int64_t> RankCommunicator::ShareNumber(int64_t number) {
  MessageWriter writer;
  writer.Number(number);
  std::vector<int64_t> all;
  for (const std::string& message : Share(writer.bytes()))
    all.push_back(MessageReader(message).Number());
  return all;
}

bool RankCommunicator::ShareAny(bool is_true) {
  const std::vector<int64_t> all = ShareNumber(is_true ? 1 : 0);
  return std::any_of(all.begin(), all.end(), [](int64_t each) { return each != 0; });
}

std::vector<std::string> RankCommunicator::Submit(Outgoing outgoing, bool is_patient) {
  ExchangeRequest request;
  request.collective = handle_->collective();
  request.exchange = "part_" + std::to_string(num_exchanges_++);
  request.step_id = step_id_;
  request.is_patient = is_patient;
  request.outgoing = std::move(outgoing);
  return handle_->coordinator().Exchange(std::move(request));
}

}  // namespace sok
